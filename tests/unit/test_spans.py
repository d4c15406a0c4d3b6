"""A span of the log is read to its end, or ends with an error that says where: it never waits for ever."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from landed.adapters.kafka import LogReader, LogUnreachable
from landed.wire.records import Record
from landed_services.spans import read_spans


class Given:
    """A log that gives what it is told to, then nothing."""

    def __init__(self, *batches: list[int], ended: bool = False) -> None:
        self._batches, self._ended = list(batches), ended
        self.assigned: dict[int, int] = {}

    def assign(self, positions: Mapping[int, int]) -> None:
        self.assigned = dict(positions)

    def poll(self, _most: int, _timeout_s: float) -> list[Record]:
        return [Record(key=b"k", value=b"v", partition=3, offset=one) for one in self._batches.pop(0)] if self._batches else []

    def without_records(self, positions: Mapping[int, int]) -> set[int]:
        return set(positions) if self._ended else set()


def read(log: Given, begin: int, until: int) -> list[int]:
    found = read_spans(cast("Any", log), {3: (begin, until)}, silence_s=0, given_up_after_s=0.02)
    return [record.offset for some in found for record in some]


def test_a_span_ends_before_the_record_at_its_end_whatever_the_log_gives_more() -> None:
    log = Given([4, 5], [], [7, 9, 10])
    assert read(log, 4, 9) == [4, 5, 7]
    assert log.assigned == {3: 4}
    assert read(Given([4]), 4, 4) == []


def test_a_log_that_gives_nothing_any_more_is_named_by_partition_and_offset() -> None:
    with pytest.raises(LogUnreachable, match=r"partition 3, offset 6: the log gave no record for 0\.02 s.* up to offset 9"):
        read(Given([4, 5]), 4, 9)


def test_a_span_whose_last_records_retention_removed_ends_there() -> None:
    assert read(Given([4, 5], ended=True), 4, 9) == [4, 5]


def test_the_reader_of_the_log_has_what_a_span_asks_it_for() -> None:
    assert all(hasattr(LogReader, name) for name in ("assign", "poll", "without_records"))
