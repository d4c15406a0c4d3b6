"""`make bench`: the ledger against a hand-made table, back to back, and the rebuild of a long log. Prints one table."""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import ledger, reconciling, report, table
from bench.cpu import Meter
from bench.importing import imported
from bench.measured import Load
from bench.rebuilding import Rebuild, rebuild, stages, write_log
from bench.servers import WARM, servers
from landed import AsyncLedger

CALLERS = (1, 64, 256)
TABLE_CALLERS = (1, 64)
"""256 connections are more than a database is usually given; the table's best is compared instead."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, measures nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", type=int, default=4000, help="effects of a run with many callers")
    parser.add_argument("--alone", type=int, default=300, help="effects of a run with one caller")
    parser.add_argument("--events", type=int, default=200_000, help="length of the log that is rebuilt; 0: no rebuild")
    parser.add_argument("--partitions", type=int, default=12, help="of the topic that the loads run on")
    parser.add_argument("--unknowns", type=int, default=8000, help="operations in doubt that one reconciler settles; 0: none")
    parser.add_argument("--waiting", type=int, default=100_000, help="operations in doubt whose timers run")
    parser.add_argument("--warm", type=int, default=WARM, help="effects before the first round: the broker compiles meanwhile")
    parser.add_argument("--first-compiler", action="store_true", help="the broker as `landed up` starts it, with one compiler")
    parser.add_argument("--json", type=Path, help="also write every run there")
    given = parser.parse_args(words)
    if given.quick:
        given.rounds, given.operations, given.alone, given.events = 1, 200, 20, 600
        given.unknowns, given.waiting = 100, 200
        given.warm, given.first_compiler = 64, True
    with (
        tempfile.TemporaryDirectory(prefix="landed-bench-") as folder,
        servers(folder, both_compilers=not given.first_compiler) as running,
    ):
        known = msgspec.json.decode((Path(folder) / "state.json").read_bytes())["servers"]
        pids = {"postgres": known["postgres"]["process"]["pid"], "broker": known["kafka"]["process"]["pid"]}
        loads = asyncio.run(_loads(given, running.bootstrap, running.database_url, pids, Path(folder)))
        rebuilds = _rebuilds(given.events, running.bootstrap, running.database_url) if given.events else {}
        settling = ""
        if given.unknowns:
            where = running.bootstrap, running.database_url, Path(folder)
            settled = reconciling.settled(*where, unknowns=given.unknowns)
            mib = reconciling.memory_mib(*where, waiting=given.waiting, for_s=2.0 if given.quick else 10.0)
            settling = reconciling.told(settled, mib, waiting=given.waiting)
    imports = {"SDK": imported(with_kafka=False), "SDK and Kafka client": imported(with_kafka=True)}
    if given.json is not None:
        given.json.write_bytes(msgspec.json.encode({"loads": loads, "rebuilds": rebuilds, "imports": imports}))
    print(report.of(loads, rebuilds, imports))
    compilers = "the first compiler of Java only" if given.first_compiler else "both compilers of Java"
    print(f"Broker with {compilers}; {given.warm:,} operations before the first round")
    print(settling)


async def _loads(
    given: argparse.Namespace, bootstrap: str, url: str, pids: dict[str, int], folder: Path
) -> dict[str, list[Load]]:
    place = ledger.new_place(bootstrap, url, partitions=given.partitions)
    found: dict[str, list[Load]] = {}
    with ledger.projecting(place, folder / "projector.log") as projector:
        ours = Meter({"SDK": os.getpid(), "projector": projector, **pids})
        theirs = Meter({"caller": os.getpid(), "postgres": pids["postgres"]})
        async with AsyncLedger.connect(ledger.settings(place)) as opened:
            await ledger.run(opened, 64, given.warm)  # connections, caches, the broker's compilers
            for _ in range(given.rounds):
                for callers in CALLERS:
                    operations = given.alone if callers == 1 else given.operations
                    if callers in TABLE_CALLERS:
                        theirs.start()
                        load = await table.run(url, callers, operations)
                        load.cpu = theirs.per_operation(operations)
                        found.setdefault(f"table {callers}", []).append(load)
                    ours.start()
                    load = await ledger.run(opened, callers, operations)
                    load.cpu = ours.per_operation(operations)
                    found.setdefault(f"ledger {callers}", []).append(load)
    return found


def _rebuilds(events: int, bootstrap: str, url: str) -> dict[str, Rebuild]:
    found = {}
    for name in ("adjacent", "shuffled"):
        place = ledger.new_place(bootstrap, url)
        written = write_log(place, events, shuffled=name == "shuffled")
        found[name] = rebuild(place, written)
        found[name].stages_us = stages(place, written)
    return found


if __name__ == "__main__":
    main()
