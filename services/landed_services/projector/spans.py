"""A span of one partition, read to its end, or an error that says where it stopped: nobody waits for ever."""

import time
from collections.abc import Iterator
from typing import Final

from landed.adapters.kafka import LogReader, LogUnreachable
from landed.wire.records import Record

RECORDS_MAX: Final = 10_000
SILENCE_S: Final = 1.0
"""After so long without a record it is asked whether any is left: retention may have removed the last ones."""
GIVEN_UP_AFTER_S: Final = 30.0


def spans(
    reader: LogReader,
    partition: int,
    begin: int,
    until: int,
    *,
    silence_s: float = SILENCE_S,
    given_up_after_s: float = GIVEN_UP_AFTER_S,
) -> Iterator[list[Record]]:
    """Records of *partition* from offset *begin* to before *until*, some at a time, none of them empty.

    Raises:
        LogUnreachable: no record came for *given_up_after_s* seconds though there are some: names partition and offset.
        LogTruncated: the log does not hold *begin* any more.
    """
    if begin >= until:
        return
    reader.assign({partition: begin})
    offset, heard = begin, time.monotonic()
    while offset < until:
        records = [one for one in reader.poll(RECORDS_MAX, silence_s) if one.partition == partition]
        if not records:
            if reader.without_records({partition: offset}):
                return
            if time.monotonic() - heard > given_up_after_s:
                raise LogUnreachable(
                    f"partition {partition}, offset {offset}: the log gave no record for {given_up_after_s:g} s, "
                    f"and is to be read up to offset {until}: look at the broker, then try again"
                )
            continue
        offset = records[-1].offset + 1
        if inside := [one for one in records if one.offset < until]:
            yield inside
        heard = time.monotonic()
