"""Spans of the log, read to their ends, or an error that says where it stopped: nobody waits for ever."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from landed.adapters.kafka.errors import LogUnreachable
from landed.adapters.kafka.reader import LogReader
from landed.wire.records import Record

RECORDS_MAX: Final = 10_000
SILENCE_S: Final = 1.0
"""After so long without a record it is asked whether any is left: markers take offsets and are never read, and retention may have
removed the last ones."""
GIVEN_UP_AFTER_S: Final = 30.0
"""A broker that gives nothing for so long has failed: part of the log is not taken for the whole."""


def read_spans(
    reader: LogReader,
    spans: Mapping[int, tuple[int, int]],
    *,
    at_once: int = RECORDS_MAX,
    silence_s: float = SILENCE_S,
    given_up_after_s: float = GIVEN_UP_AFTER_S,
) -> Iterator[list[Record]]:
    """Records of *spans*, of each partition from its first offset to before the one behind its last, as they come: some at a
    time, none of them empty.

    Raises:
        LogUnreachable: no record came for *given_up_after_s* seconds though there are some: names partition and offset.
        LogTruncated: the log does not hold a first offset any more.
    """
    place = {partition: begin for partition, (begin, until) in spans.items() if begin < until}
    if not place:
        return
    reader.assign(place)
    left, heard = set(place), time.monotonic()
    while left:
        records = [one for one in reader.poll(at_once, silence_s) if one.partition in left]
        if not records:
            left -= reader.without_records({partition: place[partition] for partition in left})
            if left and time.monotonic() - heard > given_up_after_s:
                partition = min(left)
                raise LogUnreachable(
                    f"partition {partition}, offset {place[partition]}: the log gave no record for {given_up_after_s:g} s, "
                    f"and is to be read up to offset {spans[partition][1]}: look at the broker, then try again"
                )
            continue
        for record in records:
            place[record.partition] = record.offset + 1
        left = {partition for partition in left if place[partition] < spans[partition][1]}
        if inside := [one for one in records if one.offset < spans[one.partition][1]]:
            yield inside
        heard = time.monotonic()
