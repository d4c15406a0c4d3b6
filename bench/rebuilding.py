"""Rebuild of a long log: how many events a second, and where the time goes."""

import json
import os
import random
import subprocess
import time
from typing import Any

import msgspec
import psycopg

from bench.ledger import RING, Place, make
from landed.adapters.kafka import KafkaEventLog, LogReader
from landed.core import events as ev
from landed.core.contract import contract_json
from landed.core.vocabulary import Source
from landed.wire.codec import decode
from landed.wire.ids import with_event_id
from landed.wire.records import HEADER_KEY_ID, HEADER_MAC, Record
from landed_services.collecting import collect_never
from landed_services.projector.batch import View
from landed_services.projector.reading import read_item

_WRITTEN_AT_ONCE = 50_000
_SAMPLE = 30_000
_HOUR_MS = 3_600_000


class Rebuild(msgspec.Struct, kw_only=True):
    events: int
    seconds: float
    cpu_s: float = 0.0
    """CPU of the process that folds; the rate is that of the clock, and falls with other load on the machine."""
    stages_us: dict[str, float] = {}
    """Microseconds of CPU per event."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def _story(number: int) -> list[ev.Event]:
    """The events of one operation as the SDK and the projector write them."""
    name = f"order-{number:08d}"
    said: dict[str, Any] = {"tenant_id": "acme", "route": name, "operation_id": name}
    claim = ev.Claim(
        claim_id=f"c{number}",
        request_hash="0" * 64,
        worker="bench",
        reply_to="bench",
        lease_ms=_HOUR_MS,
        asked_at_ms=1,
        answer_by_ms=5001,
    )
    prepared = ev.OperationPrepared(
        event_id="",
        **said,
        actor="bench",
        tool=make.name,
        request_hash="0" * 64,
        contract=contract_json(make.contract),
        contract_digest="0" * 64,
        effect_type="thing.make",
        argument_digests={},
        compensation=[],
        claim=claim,
    )
    granted = ev.DispatchGranted(
        event_id="",
        **said,
        actor="projector",
        claim_id=claim.claim_id,
        attempt=1,
        lease_ms=_HOUR_MS,
        claim_position=ev.Position(partition=0, offset=0),
    )
    confirmed = ev.OutcomeConfirmed(
        event_id="",
        **said,
        actor="bench",
        attempt=1,
        claim_id=claim.claim_id,
        source=Source.WORKER,
        reference="t_1",
        receipt='{"id":"t_1"}',
        call=ev.CallRecord(dispatched_at_ms=1, ended_at_ms=2),
    )
    return [with_event_id(event) for event in (prepared, granted, confirmed)]


def write_log(place: Place, events: int, *, shuffled: bool) -> int:
    """Fills the log; *shuffled*: no two events of an operation within reach of one batch, operations in random order."""
    operations = events // 3
    numbers = list(range(operations))
    log = KafkaEventLog(place.log)
    try:

        def append(batch: list[ev.Event]) -> None:
            log.append_all(batch, timeout_s=120)

        pending: list[ev.Event] = []
        for which in range(3) if shuffled else [None]:
            if shuffled:
                random.Random(which).shuffle(numbers)
            for number in numbers:
                story = _story(number)
                pending += story if which is None else [story[which]]
                if len(pending) >= _WRITTEN_AT_ONCE:
                    append(pending)
                    pending = []
        append(pending)
    finally:
        log.close()
    return operations * 3


def rebuild(place: Place, events: int) -> Rebuild:
    """`landed rebuild`, as an operator runs it; every event must have been accepted."""
    words = place.command("rebuild", "--yes", "-o", "json")
    before = os.times()
    done = subprocess.run(words, env=place.environment(), check=True, capture_output=True, text=True)
    after = os.times()
    said = json.loads(done.stdout)
    with psycopg.connect(place.view.url) as connection:
        row = connection.execute("SELECT count(*) FROM events WHERE accepted").fetchone()
    if row != (events,) or said["events"] != events:
        raise RuntimeError(f"{said['events']} events folded, {row} accepted, {events} written")
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Rebuild(events=events, seconds=said["seconds"], cpu_s=cpu_s)


def stages(place: Place, events: int) -> dict[str, float]:
    """Microseconds of CPU per event of each stage before the database, on the first records of the log."""
    collect_never()  # as the process that folds does
    reader = LogReader(place.log, replay=True)
    records: list[Record] = []
    try:
        reader.assign(reader.beginning_offsets())
        wanted = min(_SAMPLE, events)
        reading_s = 0.0
        while len(records) < wanted:
            began = time.thread_time()
            records += reader.poll(4000, 5.0)
            reading_s += time.thread_time() - began
        partitions = reader.partitions
    finally:
        reader.close()
    found = {"fetch": reading_s}
    count = len(records)

    began = time.thread_time()
    for record in records:
        headers = dict(record.headers)
        RING.verify(record.key or b"", record.value or b"", (headers[HEADER_KEY_ID] or b"").decode(), headers[HEADER_MAC])
    found["MAC"] = time.thread_time() - began

    values = [record.value or b"" for record in records]
    began = time.thread_time()
    for value in values:
        decode(value)
    found["Avro"] = time.thread_time() - began

    began = time.thread_time()
    items = [read_item(record, ring=RING, partitions=partitions) for record in records]
    whole = time.thread_time() - began
    found["key, headers, digest, checks"] = whole - found["MAC"] - found["Avro"]

    view = View()
    began = time.thread_time()
    view.hold_empty(view.missing(items))
    for item in items:
        view.fold(item)
    view.changes.forget_what_follows()
    found["fold"] = time.thread_time() - began

    began = time.thread_time()
    view.operation_rows()
    found["rows"] = time.thread_time() - began
    return {name: value / count * 1e6 for name, value in found.items()}
