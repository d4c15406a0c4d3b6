"""A process of its own for these tests: `process.py ROLE`, settings and results as JSON on standard input and output.

Roles: `caller` performs one operation; `crowd` performs every operation of a list from several threads; `projector`,
`reconciler` and `notifier` run until they are asked to end. LANDED_FAILURE_POINT names where it is killed or stopped.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from tests.chaos.paying import Provider, Tools

from landed import AsyncLedger, Ledger, Settings
from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.sdk.results import Result
from landed.wire.mac import KeyRing

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)
PR_SET_PDEATHSIG = 1


def connection(given: dict[str, Any]) -> Settings:
    names = ("bootstrap", "topic", "replies_topic", "tenant", "worker", "wait")
    return Settings(ring=RING, **{name: given[name] for name in names})


def shown(result: Result) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.structs.asdict(result).items() if name != "answer"}
    return {"result": type(result).__name__, **msgspec.to_builtins(fields)}


def caller(given: dict[str, Any], tools: Tools) -> dict[str, Any]:
    tool = tools.named(given["tool"])
    named: dict[str, Any] = {"operation_id": given["operation_id"], "seconds": given["seconds"]}
    if not tool.is_async:
        with Ledger.connect(connection(given)) as ledger:
            return shown(ledger.perform(tool, **named))

    async def perform() -> Result:
        async with AsyncLedger.connect(connection(given)) as ledger:
            return await ledger.perform(tool, **named)

    return shown(asyncio.run(perform()))


def crowd(given: dict[str, Any], tools: Tools) -> dict[str, int]:
    """Every thread presents every operation."""
    tool = tools.named(given["tool"])
    with Ledger.connect(connection(given)) as ledger, ThreadPoolExecutor(given["threads"]) as pool:

        def present(_: int) -> list[str]:
            found = []
            for operation_id in given["operation_ids"]:
                result = shown(ledger.perform(tool, operation_id=operation_id, seconds=0.0))
                found.append(f"{result['result']} {result.get('reason', '')}".strip())
            return found

        return Counter(one for some in pool.map(present, range(given["threads"])) for one in some)


def main(role: str) -> None:
    # It must not outlive the tests, however they end.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ["LANDED_TEST_OWNER"]):
        sys.exit(1)
    given = json.loads(sys.stdin.readline())
    log = KafkaSettings(bootstrap=given["bootstrap"], ring=RING, topic=given["topic"], replies_topic=given["replies_topic"])
    tools = Tools(Provider(Path(given["effects"])))
    match role:
        case "caller":
            print(json.dumps(caller(given, tools)), flush=True)
        case "crowd":
            print(json.dumps(crowd(given, tools)), flush=True)
        case "projector":
            from landed_services.projector.main import run_projector

            run_projector(log, PostgresSettings(url=given["database_url"]))
        case "reconciler":
            from landed_services.reconciler.main import run_until_signal

            run_until_signal(log, PostgresSettings(url=given["database_url"]), tools.registry, probe_limit_s=2.0)
        case "notifier":
            from landed.sdk.settings import Secret
            from landed_services.notifier.loop import Pace
            from landed_services.notifier.main import run_notifier
            from landed_services.notifier.receivers import Receiver

            at = Receiver(name="ops", tenant_id=given["tenant"], url=given["url"], secret=Secret(given["secret"].encode()))
            pace = Pace(look=0.1, limit=0.5, first_wait=0.1)
            run_notifier(PostgresSettings(url=given["database_url"]), [at], threading.Event(), pace=pace)


if __name__ == "__main__":
    main(sys.argv[1])
