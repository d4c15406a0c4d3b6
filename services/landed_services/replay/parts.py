"""A long topic, told by several processes: each folds its partitions and leaves what it tells in files, in the order of the log;
read together they are the story that one process would tell. Routes do not span partitions: no part needs anything of another.
"""

import heapq
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from landed.adapters.kafka.reader import LogReader
from landed.adapters.kafka.settings import KafkaSettings
from landed_services.fanning import in_processes
from landed_services.progress import Counted, Say, Summed
from landed_services.reading import read_item
from landed_services.replay.scope import Scope
from landed_services.replay.telling import Line, Story, Told
from landed_services.replay.topic import Topic, stream
from landed_services.spilling import Spool, spooled

T = TypeVar("T")
OFFSETS_OF_A_PROCESS: Final = 50_000
"""Fewer are told before another process is up."""
_WORK: Final = "landed_services.replay.parts:told_part"
_ORDER: Final = attrgetter("at_ms", "partition", "offset")


class _Placed(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """What is told, under what it is ordered by: the latest append time of its partition so far."""

    at_ms: int
    partition: int
    offset: int
    told: T


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one process tells."""

    settings: KafkaSettings
    scope: Scope
    partitions: int
    """How many the topic has."""
    spans: dict[int, tuple[int, int]]
    folder: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    not_taken: int
    lines: int
    decisions: int


class InParts:
    """A story that lies in files until this is closed.

    Args:
        processes: how many read.

    Raises:
        LogUnreachable, LogTruncated: the log could not be read to its end.
        ShareFailed: a process ended by itself.
    """

    def __init__(self, topic: Topic, scope: Scope, *, processes: int, say: Say | None = None) -> None:
        spans = topic.spans(scope)
        self._folder = tempfile.TemporaryDirectory(prefix="landed-replay-")
        self._partitions = sorted(spans)
        try:
            of = max(1, min(processes, len(spans)))
            parts = [
                Part(
                    settings=topic.settings,
                    scope=scope,
                    partitions=topic.partitions,
                    spans={one: spans[one] for one in self._partitions[index::of]},
                    folder=self._folder.name,
                )
                for index in range(of)
            ]
            total = sum(end - begin for begin, end in spans.values())
            counts: list[Counts] = in_processes(_WORK, parts, Summed(total, say))
        except BaseException:
            self.close()
            raise
        self.events = sum(one.events for one in counts)
        self.not_taken = sum(one.not_taken for one in counts)
        self.lines = Again[Line](lambda: self._read("lines", _Placed[Line]), sum(one.lines for one in counts))
        self.decisions = Again[Told](lambda: self._read("decisions", _Placed[Told]), sum(one.decisions for one in counts))

    def _read(self, name: str, kind: Any) -> Iterator[Any]:
        files = (spooled(kind, _file(self._folder.name, name, one)) for one in self._partitions)
        return (placed.told for placed in heapq.merge(*files, key=_ORDER))

    def close(self) -> None:
        self._folder.cleanup()


class Again(Generic[T]):
    """Values that are read anew each time, and how many they are."""

    def __init__(self, make: Callable[[], Iterator[T]], count: int) -> None:
        self._make, self._count = make, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return self._make()


def told_part(part: Part, say: Callable[[int], None]) -> Counts:
    """Tells the partitions of *part* into files."""
    story, admits, ring = Story(part.scope), part.scope.admits_key, part.settings.ring
    lines = {one: Spool[_Placed[Line]](_Placed[Line], path=_file(part.folder, "lines", one)) for one in part.spans}
    told = {one: Spool[_Placed[Told]](_Placed[Told], path=_file(part.folder, "decisions", one)) for one in part.spans}
    decided_ms = array("q")
    counted = Counted(sum(end - begin for begin, end in part.spans.values()), say)
    with closing(LogReader(part.settings, replay=True)) as reader:
        for (at_ms, partition, offset), record in stream(reader, part.spans, counted):
            if not admits(record.key):
                continue
            line = story.take(read_item(record, ring=ring, partitions=part.partitions))
            if line is not None:
                lines[partition].add(_Placed(at_ms, partition, offset, line))
            if len(decided_ms) < story.decided:
                decided_ms.append(at_ms)
    for at_ms, one in zip(decided_ms, story.decisions(), strict=True):
        told[one.partition].add(_Placed(at_ms, one.partition, one.offset, one))
    for partition in part.spans:
        lines[partition].finish()
        told[partition].finish()
    return Counts(
        events=story.events,
        not_taken=story.not_taken,
        lines=sum(map(len, lines.values())),
        decisions=sum(map(len, told.values())),
    )


def _file(folder: str, name: str, partition: int) -> Path:
    return Path(folder) / f"{name}-{partition}"
