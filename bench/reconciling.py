"""Unknowns settled a second by one reconciler process against an instant provider, and its memory while many wait on timers.

The log is filled with operations in doubt; projector and reconciler are the real processes. The rate is that of the append times
of the log, from the first to the last settlement; the projector works beside it on the same machine, as it would.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg

from bench.cpu import seconds
from bench.ledger import Place, new_place, projecting
from landed import Found, ProbeRequest, ToolRegistry
from landed.adapters.kafka import KafkaEventLog, LogReader
from landed.core import events as ev
from landed.core.contract import Contract, Effect, Probe, contract_json
from landed.core.vocabulary import BytesLeft
from landed.wire.ids import with_event_id
from landed.wire.records import HEADER_TYPE

RATE_TO_REACH: Final = 2_000
MEMORY_TO_REACH_MIB: Final = 400
_DAY_S: Final = 86_400.0
_AT_ONCE: Final = 3_000

registry = ToolRegistry()


@registry.effect(tool="things.doubt", effect=Effect(kind="thing.make"), outcome_probe=Probe(tool="things.find"))
def doubt(name: str) -> None:
    raise AssertionError("nothing is sent again here")


@doubt.probe
def find(request: ProbeRequest) -> Found:
    return Found(reference="t_" + request.operation_id, matched_on=("operation_id",))


registry.providers.add("instant", tools=["things.doubt"], per_second=None, at_once=64)


class Settled(msgspec.Struct, kw_only=True):
    """What one reconciler process did."""

    unknowns: int
    seconds: float
    cpu_ms: float
    """CPU of the reconciler per unknown, milliseconds."""

    @property
    def rate(self) -> float:
        return self.unknowns / self.seconds


def _story(number: int, contract: str) -> list[ev.Event]:
    name = f"doubt-{number:08d}"
    said: dict[str, Any] = {"tenant_id": "acme", "route": name, "operation_id": name}
    prepared = ev.OperationPrepared(
        event_id="",
        **said,
        actor="bench",
        tool=doubt.name,
        request_hash="0" * 64,
        contract=contract,
        contract_digest="0" * 64,
        effect_type="thing.make",
        argument_digests={},
        compensation=[],
    )
    granted = ev.DispatchGranted(
        event_id="",
        **said,
        actor="projector",
        claim_id=f"c{number}",
        attempt=1,
        lease_ms=3_600_000,
        claim_position=ev.Position(partition=0, offset=0),
    )
    unknown = ev.OutcomeUnknown(
        event_id="", **said, actor="bench", claim_id=f"c{number}", attempt=1, error_class="Timeout", bytes_left=BytesLeft.YES
    )
    return [with_event_id(event) for event in (prepared, granted, unknown)]


def _filled(place: Place, unknowns: int, contract: Contract) -> None:
    log, text = KafkaEventLog(place.log), contract_json(contract)
    try:
        for first in range(0, unknowns, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, unknowns))
            log.append_all([event for number in numbers for event in _story(number, text)], timeout_s=120)
    finally:
        log.close()


def _until(place: Place, states: tuple[str, ...], count: int, *, timeout_s: float = 180.0) -> None:
    deadline = time.monotonic() + timeout_s
    with psycopg.connect(place.view.url, autocommit=True) as connection:
        while True:
            row = connection.execute("SELECT count(*) FROM operations WHERE state = ANY(%s)", (list(states),)).fetchone()
            if row is not None and row[0] >= count:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{row} of {count} operations are {states}")
            time.sleep(0.1)


@contextmanager
def _reconciler(place: Place, output: Path) -> Iterator[int]:
    with output.open("ab") as written:
        command = place.command("reconciler", "--tools", "bench.reconciling:registry")
        process = subprocess.Popen(command, env=place.environment(), stdout=written, stderr=written)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def settled(bootstrap: str, url: str, folder: Path, *, unknowns: int) -> Settled:
    """The rate of one reconciler process with *unknowns* due at once."""
    place = new_place(bootstrap, url)
    _filled(place, unknowns, msgspec.structs.replace(doubt.contract, first_check_after=0.0))
    with projecting(place, folder / "projector.log"):
        _until(place, ("unknown",), unknowns)
        with _reconciler(place, folder / "reconciler.log") as pid:
            _until(place, ("confirmed",), unknowns)
            cpu_s = seconds([pid])
    times = _times(place, b"outcome_confirmed")
    return Settled(unknowns=unknowns, seconds=(max(times) - min(times)) / 1000, cpu_ms=cpu_s * 1000 / unknowns)


def _times(place: Place, kind: bytes) -> list[int]:
    """Append times of the records of that kind."""
    reader, found = LogReader(place.log), []
    try:
        ends = reader.end_offsets()
        reader.assign(dict.fromkeys(ends, 0))
        left = {partition for partition, end in ends.items() if end > 0}
        while left:
            for record in reader.poll(5_000, 1.0):
                if record.timestamp_ms is not None and (HEADER_TYPE, kind) in record.headers:
                    found.append(record.timestamp_ms)
                if record.offset + 1 >= ends[record.partition]:
                    left.discard(record.partition)
    finally:
        reader.close()
    return found


def memory_mib(bootstrap: str, url: str, folder: Path, *, waiting: int, for_s: float = 10.0) -> float:
    """The most memory (MiB, resident) that a reconciler process had with *waiting* operations whose timers run."""
    place = new_place(bootstrap, url)
    _filled(place, waiting, msgspec.structs.replace(doubt.contract, first_check_after=_DAY_S, deadline=2 * _DAY_S))
    with projecting(place, folder / "projector.log"):
        _until(place, ("unknown",), waiting)
        with _reconciler(place, folder / "reconciler.log") as pid:
            time.sleep(for_s)
            status = Path(f"/proc/{pid}/status").read_text()
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return kib / 1024


def told(settled: Settled, mib: float, *, waiting: int) -> str:
    """What was measured, beside what is to be reached."""
    reached = "reached" if settled.rate >= RATE_TO_REACH else "BELOW"
    bounded = "reached" if mib < MEMORY_TO_REACH_MIB else "ABOVE"
    rate = f"{settled.rate:,.0f} ({settled.cpu_ms:.2f} ms of its CPU each); to reach: {RATE_TO_REACH:,}: {reached}"
    memory = f"{mib:.0f} MiB; to reach: below {MEMORY_TO_REACH_MIB}: {bounded}"
    return (
        f"unknowns settled a second by one reconciler: {rate}\n"
        f"memory of a reconciler with {waiting:,} open unknowns waiting: {memory}"
    )
