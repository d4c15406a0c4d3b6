"""Whether the log continues where the database stands: the same topic, and the same last record at the same place."""

import time
from collections.abc import Mapping
from typing import Final

from landed.adapters.kafka import LogReader, LogTruncated, LogUnreachable
from landed.wire.records import Record
from landed_services.projector.errors import LogReplaced
from landed_services.projector.reading import record_digest
from landed_services.projector.store import Position

READ_TIMEOUT_S: Final = 10.0
LOOK_CLOSER_S: Final = 1.0
"""Silence after which it is asked whether there is any record at all."""
REPAIR: Final = (
    "Nothing is decided. If this log is the right one, run `landed rebuild`; if the database is, point it to its log. "
    "See docs/operations.md, 'The log does not continue'."
)


def check_continuity(reader: LogReader, positions: Mapping[int, Position], *, topic_id: str) -> None:
    """Nothing when the log continues at every position.

    Raises:
        LogReplaced: another topic, a truncated or a rewritten log; names partition, offset and what differs.
        LogUnreachable: the broker did not answer in time.
    """
    for why in discontinued(reader, positions, topic_id=topic_id).values():
        raise LogReplaced(why)


def discontinued(reader: LogReader, positions: Mapping[int, Position], *, topic_id: str) -> dict[int, str]:
    """Partitions of *positions* on which the log does not continue, each with what differs and how to repair it.

    Raises:
        LogReplaced: another topic, so it continues nowhere.
        LogUnreachable: the broker did not answer in time.
    """
    found: dict[int, str] = {}
    bounds = reader.bounds()
    for partition, place in positions.items():
        begin, end = bounds[partition]
        if place.topic_id != topic_id:
            raise LogReplaced(
                f"partition {partition}: the database was folded from topic id {place.topic_id}, the topic's is {topic_id}: "
                f"it was deleted and created again. {REPAIR}"
            )
        if place.next_offset > end:
            found[partition] = (
                f"partition {partition}: the database stands at offset {place.next_offset}, the log ends at {end}: "
                f"it was truncated or restored. {REPAIR}"
            )
        elif place.next_offset < begin:
            found[partition] = (
                f"partition {partition}: the database stands at offset {place.next_offset}, the log begins at "
                f"{begin}: what lies between was deleted. {REPAIR}"
            )
    known = {one: place for one, place in positions.items() if place.last_offset is not None and one not in found}
    for partition, record in _last_records(reader, known).items():
        why = _differs(positions[partition], record)
        if why is not None:
            found[partition] = f"{why} {REPAIR}"
    return found


def _differs(place: Position, record: Record) -> str | None:
    if record.offset != place.last_offset or record.damaged:
        return None  # removed by retention since, or damaged on disk; its neighbours stand for it
    if record_digest(record) != place.last_digest:
        return f"partition {place.partition}, offset {place.last_offset}: another record than the one that was folded."
    if record.leader_epoch >= 0 and place.leader_epoch >= 0 and record.leader_epoch != place.leader_epoch:
        return (
            f"partition {place.partition}, offset {place.last_offset}: written under leader epoch {record.leader_epoch}, "
            f"folded under {place.leader_epoch}: the log was rewritten."
        )
    return None


def _last_records(reader: LogReader, positions: Mapping[int, Position]) -> dict[int, Record]:
    """The record at the last folded offset of each partition, or the next one there is."""
    if not positions:
        return {}
    found: dict[int, Record] = {}
    reader.assign({partition: place.last_offset or 0 for partition, place in positions.items()})
    deadline, look_closer_at = time.monotonic() + READ_TIMEOUT_S, time.monotonic() + LOOK_CLOSER_S
    while positions.keys() - found.keys():
        try:
            records = reader.poll(1000, 0.2)
        except LogTruncated as error:
            raise LogReplaced(f"{error} {REPAIR}") from error
        for record in records:
            found.setdefault(record.partition, record)
        if time.monotonic() > look_closer_at:
            look_closer_at = deadline
            # Retention removed the last record, and nothing was appended since: there is nothing to compare with.
            missing = {one: place.last_offset or 0 for one, place in positions.items() if one not in found}
            gone = reader.without_records(missing)
            positions = {one: place for one, place in positions.items() if one not in gone}
        if time.monotonic() > deadline:
            names = ", ".join(str(one) for one in sorted(positions.keys() - found.keys()))
            raise LogUnreachable(f"partitions {names}: the last record could not be read within {READ_TIMEOUT_S:g} s")
    reader.assign({})
    return found
