"""The log as it grows, for people who watch it. Consumes only. Presentation-free."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Final

import msgspec

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.adapters.kafka.errors import LogUnreachable
from landed.core import events as ev
from landed.wire.errors import DecodeError
from landed.wire.keys import parse_key
from landed.wire.records import Record
from landed_services.queries.timeline import evidence_of
from landed_services.reading import Freezing, Refused, Skipped, read_item

READ_AT_ONCE: Final = 2_000
SILENCE_S: Final = 0.5
"""After so long without a record it is asked whether any is left: markers take offsets and are never read."""
GIVEN_UP_AFTER_S: Final = 30.0


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
    """Batches of what is *wanted*, in the order of append times within each; empty ones while nothing comes.

    Args:
        since_ms: from the first record that was appended then or later; None: from what is appended from now on.
        to_end: ends where the log ended when this began; else never.

    Raises:
        LogUnreachable, LogTruncated: the log cannot be read.
    """
    with closing(LogReader(settings)) as reader:
        ends = reader.end_offsets()
        place = dict(ends) if since_ms is None else reader.offsets_at(since_ms)
        reader.assign(place)
        left, heard = {one for one, offset in place.items() if offset < ends.get(one, 0)}, time.monotonic()
        while left or not to_end:
            records = reader.poll(READ_AT_ONCE, SILENCE_S)
            if records:
                heard = time.monotonic()
            elif to_end:
                left -= reader.without_records({one: place[one] for one in left})
                if left and time.monotonic() - heard > GIVEN_UP_AFTER_S:
                    raise LogUnreachable(f"partitions {sorted(left)}: no record came for {GIVEN_UP_AFTER_S:g} s")
            if to_end:
                records = [one for one in records if one.offset < ends[one.partition]]
            for record in records:
                place[record.partition] = record.offset + 1
            left = {one for one in left if place[one] < ends[one]}
            ordered = sorted(records, key=lambda one: (one.timestamp_ms or 0, one.partition, one.offset))
            yield [found for one in ordered if (found := _followed(one, wanted, settings, reader.partitions)) is not None]


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
