"""The topic as a replay reads it: up to the end that it has now, by append time. Consumes only: holds no producer."""

import heapq
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Final

import msgspec

from landed.adapters.kafka.reader import LogReader
from landed.adapters.kafka.settings import KafkaSettings
from landed.wire.records import Record
from landed_services.progress import Counted, Progress, Say, Summed
from landed_services.replay.naming import Named
from landed_services.replay.scope import Scope
from landed_services.spans import read_spans

__all__ = ["Progress", "Say", "Topic", "stream"]

READ_AT_ONCE: Final = 2_000


class Topic:
    """One ledger's topic.

    Raises:
        LogUnreachable: no broker answers, or it does not have the topic.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        with closing(LogReader(settings)) as reader:
            self.partitions = reader.partitions
            self._bounds = reader.bounds()

    def find(self, scope: Scope, say: Say | None = None) -> Scope:
        """*scope* with the routes of the operation that it asks for; as it is where they are known.

        Looks at every key of the log and at no value: the price of an operation whose group nobody names. So it may be named by
        a beginning of its id that no other has.

        Raises:
            SeveralFit: several ids begin with what is no whole one.
        """
        if scope.operation_id is None or scope.group is not None or scope.routes is not None:
            return scope
        named = Named(scope)
        for record in self.records(scope, say, merged=False):
            named.take(record.key)
        return named.scope

    def near(self, scope: Scope, say: Say | None = None) -> Scope:
        """*scope* with the routes that have an event from its first point in time on; as it is where that would save nothing.

        Looks at the keys from there on, by the index of times. Events of other routes are not shown, so those are not folded.
        """
        since_ms = None if scope.first is None else scope.first.at_ms
        named = scope.group is not None or scope.operation_id is not None or scope.routes is not None
        if since_ms is None or named or scope.tenant_id is None:
            return scope
        spans = self.spans(scope)
        with closing(LogReader(self.settings)) as reader:
            begins = reader.offsets_at(since_ms)
        since = {one: (max(begin, begins[one]), end) for one, (begin, end) in spans.items() if begins[one] < end}
        if 2 * _length(since) > _length(spans):
            return scope
        routes = (scope.route_of(record.key) for record in self._records(since, say, merged=False))
        return msgspec.structs.replace(scope, routes=frozenset(route for route in routes if route is not None))

    def records(self, scope: Scope, say: Say | None = None, *, merged: bool = True) -> Iterator[Record]:
        """Records of the partitions that can hold what is in scope, up to the end that the topic had.

        Args:
            merged: in the order of append times over all partitions, through one connection each; else as they come.

        Raises:
            LogUnreachable, LogTruncated: the log could not be read to its end.
        """
        spans = self.spans(scope)
        if scope.within is not None:
            for some in _known(spans, scope.within):
                yield from self._records(some, say, merged=merged)
            return
        yield from self._records(spans, say, merged=merged)

    def _records(self, spans: Mapping[int, tuple[int, int]], say: Say | None, *, merged: bool) -> Iterator[Record]:
        total = _length(spans)
        summed = Summed(total, say)
        counted = Counted(total, lambda done: summed(0, done))
        groups = [{one: span} for one, span in spans.items()] if merged else [spans] if spans else []
        with ExitStack() as stack:
            readers = [(stack.enter_context(closing(LogReader(self.settings, replay=len(groups) == 1))), one) for one in groups]
            streams = [stream(reader, one, counted) for reader, one in readers]
            for _, record in heapq.merge(*streams, key=lambda one: one[0]):
                yield record

    def spans(self, scope: Scope) -> dict[int, tuple[int, int]]:
        """First offset, and the one after the last, of each partition to read."""
        ends = {partition: end for partition, (_, end) in self._bounds.items()}
        until = scope.until
        if until is not None and until.at_ms is not None:
            with closing(LogReader(self.settings)) as reader:
                behind = reader.offsets_at(until.at_ms + 1)
            ends = {partition: min(end, behind[partition]) for partition, end in ends.items()}
        if until is not None and until.partition in ends and until.offset is not None:
            ends[until.partition] = min(ends[until.partition], until.offset + 1)
        spans = {one: (self._bounds[one][0], ends[one]) for one in scope.partitions(self.partitions)}
        return {one: (begin, end) for one, (begin, end) in spans.items() if begin < end}


def _length(spans: Mapping[int, tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans.values())


def _known(
    spans: Mapping[int, tuple[int, int]], within: Mapping[int, tuple[int, int, int]]
) -> Iterator[dict[int, tuple[int, int]]]:
    """Of *spans* what is to be read where it is known where all lies: there, then what came since."""
    known = {one: (max(begin, within[one][0]), min(end, within[one][1])) for one, (begin, end) in spans.items() if one in within}
    since = {one: (max(begin, *within[one][1:]), end) for one, (begin, end) in spans.items() if one in within}
    for some in (known, since):
        yield {one: (begin, end) for one, (begin, end) in some.items() if begin < end}


Order = tuple[int, int, int]
"""The latest append time of the partition so far, partition and offset."""


def stream(reader: LogReader, spans: Mapping[int, tuple[int, int]], counted: Counted) -> Iterator[tuple[Order, Record]]:
    """Records of *spans* (of each partition its first offset and the one behind its last), as they come, each with its order.

    Raises:
        LogUnreachable, LogTruncated: the log could not be read to its end.
    """
    place = {partition: begin for partition, (begin, _) in spans.items()}
    last_ms = dict.fromkeys(spans, 0)
    for records in read_spans(reader, spans, at_once=READ_AT_ONCE):
        for record in records:
            partition = record.partition
            counted.passed(record.offset + 1 - place[partition])
            place[partition] = record.offset + 1
            if record.timestamp_ms is not None:
                last_ms[partition] = max(last_ms[partition], record.timestamp_ms)
            yield (last_ms[partition], partition, record.offset), record
