"""The log as it grows, for people who watch it. Consumes only. Presentation-free."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Final

import msgspec

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.core import events as ev
from landed.wire.errors import DecodeError
from landed.wire.keys import parse_key
from landed.wire.records import Record
from landed_services.queries.timeline import evidence_of
from landed_services.reading import Freezing, Refused, Skipped, read_item
from landed_services.spans import read_spans

READ_AT_ONCE: Final = 2_000
SILENCE_S: Final = 0.5


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are shown. What is None or empty does not narrow."""

    tenant_id: str | None = None
    group: str | None = None
    """Beginning of the group's id, or of an operation's that has no group."""
    operation: str | None = None
    """Beginning of the operation's id."""
    types: Collection[str] = ()
    actor: str | None = None


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the log as a person reads it. Whether the fold takes it the log does not say."""

    at_ms: int | None
    """Append time, milliseconds since the epoch, UTC."""
    partition: int
    offset: int
    event: str | None
    """None: it could not be read; `evidence` says why."""
    tenant_id: str | None
    route: str | None
    operation_id: str | None
    actor: str | None
    evidence: str


def follow(settings: KafkaSettings, wanted: Wanted, *, since_ms: int | None, to_end: bool) -> Iterator[list[Followed]]:
    """Batches of what is *wanted*, in the order of append times within each; empty ones where none of a batch is, and while
    nothing comes.

    Args:
        since_ms: from the first record that was appended then or later; None: from what is appended from now on.
        to_end: ends where the log ended when this began; else never.

    Raises:
        LogUnreachable, LogTruncated: the log cannot be read.
    """
    with closing(LogReader(settings)) as reader:
        ends = reader.end_offsets()
        place = dict(ends) if since_ms is None else reader.offsets_at(since_ms)
        if to_end:
            spans = {one: (offset, ends.get(one, 0)) for one, offset in place.items()}
            batches = read_spans(reader, spans, at_once=READ_AT_ONCE, silence_s=SILENCE_S)
        else:
            batches = _without_end(reader, place)
        for records in batches:
            ordered = sorted(records, key=lambda one: (one.timestamp_ms or 0, one.partition, one.offset))
            yield [found for one in ordered if (found := _followed(one, wanted, settings, reader.partitions)) is not None]


def _without_end(reader: LogReader, place: Mapping[int, int]) -> Iterator[list[Record]]:
    reader.assign(place)
    while True:
        yield reader.poll(READ_AT_ONCE, SILENCE_S)


def _followed(record: Record, wanted: Wanted, settings: KafkaSettings, partitions: int) -> Followed | None:
    try:
        key = parse_key(record.key) if record.key else None
    except DecodeError:
        key = None
    named: Mapping[str, str | None] = {
        "tenant_id": key.tenant_id if key else None,
        "route": key.route if key else None,
        "operation_id": key.operation_id if key else None,
    }
    if wanted.tenant_id is not None and named["tenant_id"] != wanted.tenant_id:
        return None
    for beginning, name in ((wanted.group, named["route"]), (wanted.operation, named["operation_id"])):
        if beginning is not None and not (name or "").startswith(beginning):
            return None
    what = read_item(record, ring=settings.ring, partitions=partitions).what
    if isinstance(what, Skipped):
        return None
    if isinstance(what, Refused | Freezing):
        said = f"{'frozen' if isinstance(what, Freezing) else 'cannot be read'}: {what.reason} ({what.field})"
        event, actor = None, None
    else:
        event, actor, said = ev.TYPE_OF[type(what.event)], what.event.actor, evidence_of(what.event)
    if (wanted.types and event not in wanted.types) or wanted.actor not in (None, actor):
        return None
    return Followed(
        at_ms=record.timestamp_ms,
        partition=record.partition,
        offset=record.offset,
        event=event,
        tenant_id=named["tenant_id"],
        route=named["route"],
        operation_id=named["operation_id"],
        actor=actor,
        evidence=said,
    )
