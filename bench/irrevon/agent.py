"""An agent's process: takes calls as JSON lines, performs them through the SDK, answers with the result that the SDK gave.

A call is `{"tenant", "tool", "arguments", "group", "times"}`; `times` makes it so often at once, as an agent does that storms. It
ends when its standard input is closed, and may be killed at any moment.
"""

import contextlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from bench.irrevon.tools import registry
from landed import Ledger, Result

WAIT_S = 60.0
"""For a verdict: on a busy machine too, a late one is not a refused one."""


def shown(result: Result) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.structs.asdict(result).items() if name not in ("answer", "receipt")}
    return {"result": type(result).__name__, **msgspec.to_builtins(fields)}


def performed(ledger: Ledger, call: dict[str, Any]) -> dict[str, Any]:
    tool = registry.tool(call["tool"])
    if tool is None:
        raise ValueError(f"no tool {call['tool']!r}")
    if call["group"] is None:
        return shown(ledger.perform(tool, **call["arguments"]))
    group = ledger.group(call["group"], workflow_type="order")
    return shown(group.perform(tool, **call["arguments"]))


def main() -> None:
    ledgers: dict[str, Ledger] = {}
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(16) as threads:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            call = json.loads(line)
            if (ledger := ledgers.get(call["tenant"])) is None:
                ledger = stack.enter_context(Ledger.connect(tenant=call["tenant"], wait=WAIT_S))
                ledgers[call["tenant"]] = ledger
            begun = [threads.submit(performed, ledger, call) for _ in range(call["times"])]
            print(json.dumps([one.result() for one in begun]), flush=True)


if __name__ == "__main__":
    main()
