"""`landed verify`: folds the log anew and compares what comes out with the tables, byte by byte. Reads only.

A partition is folded up to where the tables stand, while what only grows is compared span by span. Then one snapshot of the
tables is taken, the rest of the log up to its position is folded, and states are compared in it: a projector may go on working
meanwhile, and the snapshot is held for the comparison of one partition alone.

What is held in memory is a number of operations for each process; beyond it the states go to a file of their own.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec

from landed.adapters.kafka import KafkaSettings, LogReader, check_topic
from landed.adapters.postgres import PostgresSettings, check_schema, connect, translated
from landed.adapters.postgres.routes import RouteKey, StoredRoute
from landed.adapters.postgres.statements import statement
from landed.wire.errors import DecodeError
from landed.wire.keys import parse_key
from landed.wire.records import Record
from landed_services.fanning import in_processes, processes_for
from landed_services.progress import Counted, Say, Summed
from landed_services.projector.batch import View
from landed_services.projector.comparing import DIFFERENCES_MAX, Difference, Found, compare_span, compare_states, key_of
from landed_services.projector.continuity import check_continuity
from landed_services.projector.errors import NotFolded
from landed_services.projector.reading import KEY_BYTES_KEPT, read_item
from landed_services.projector.sampling import Asked, Sample, sample
from landed_services.projector.store import Position
from landed_services.projector.verifying_rooms import compare_rooms
from landed_services.spans import read_spans
from landed_services.spilling import Spill

__all__ = ["Difference", "Report", "verify"]

HELD_MAX: Final = 50_000
"""Operations in memory, for each process; small ones take 4.3 KB each."""
COMPARED_AT_ONCE: Final = 10_000
"""Offsets of one comparison of what only grows."""
OFFSETS_OF_A_PROCESS: Final = 40_000
"""Fewer are folded before another process is up."""
_FIRST, _LAST = -(2**63), 2**63 - 1
_NONE: Final = Sample("", b"")
"""Takes no group."""
_WORK: Final = "landed_services.projector.verifying:verified_share"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    partitions: int
    events: int
    """That were compared."""
    operations: int
    differences: tuple[Difference, ...]
    differences_total: int
    share: float = 1.0
    """Of the groups that were compared though nothing new is known of them."""
    seed: str | None = None
    """What drew the sample; None: there was none to draw."""
    since: dict[int, int] = {}
    """Offset of each partition from which on everything was compared, where that is not its beginning."""
    until: dict[int, int] = {}
    """Offset of each partition up to which it was."""

    @property
    def equal(self) -> bool:
        return self.differences_total == 0


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several processes verifies."""

    log_settings: KafkaSettings
    database: PostgresSettings
    partitions: dict[int, tuple[int, int]]
    """Of each: the offset from which on everything is compared, and where the tables stood at the beginning."""
    sample: Sample
    held_max: int


class Verified(msgspec.Struct, kw_only=True):
    """What one process found."""

    events: int = 0
    operations: int = 0
    listed: list[Difference] = []
    total: int = 0


def verify(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    *,
    asked: Asked | None = None,
    seed: str | None = None,
    since: Mapping[int, int] | None = None,
    processes: int | None = 1,
    say: Say | None = None,
    held_max: int = HELD_MAX,
) -> Report:
    """Compares the fold of the log with the tables, up to the positions that the tables have reached.

    Args:
        asked: of the groups of which nothing new is known, a sample; None: all of them, or none where *since* is given.
        seed: draws the sample; the same draws the same. None: a new one, which the report names.
        since: offsets up to which each partition was found equal before: what changed from there on is compared whole. None:
            nothing was. A partition that is missing, or at which the tables stand before that offset, is compared from its
            beginning on.
        processes: how many share the partitions; None: one for each processor, as far as the log is worth their start.
        say: told how far the reading is.

    Raises:
        NotFolded: the tables hold no position, so there is nothing to compare.
        LogReplaced: the log does not continue where the database stands.
        LogError, DatabaseError: one of them could not be read; where the log gives nothing any more, names partition and offset.
    """
    facts = check_topic(log_settings)
    with connect(database) as connection, translated(database):
        check_schema(database, connection)
        positions = _positions(connection)
        if not positions:
            raise NotFolded(f"{database.shown}: nobody has folded this log yet: start `landed projector`, then verify")
        (size,) = connection.execute(statement("count_operations")).fetchone() or (0,)
    with closing(LogReader(log_settings)) as reader:
        check_continuity(reader, positions, topic_id=facts.topic_id)
    share = (1.0 if since is None else 0.0) if asked is None else asked.of(size)
    drawn = seed or secrets.token_hex(4)
    # What is compared whole needs no sample: from the beginning on, or from nowhere on where a sample is all that is asked for.
    whole = asked is None and since is None
    begins = {one: 0 if whole else place.next_offset if since is None else since.get(one, 0) for one, place in positions.items()}
    begins = {one: begin if begin <= positions[one].next_offset else 0 for one, begin in begins.items()}
    spans_of = {one: (begins[one], place.next_offset) for one, place in positions.items()}
    total = sum(_offsets(*one) for one in spans_of.values())
    wanted = processes_for(total, OFFSETS_OF_A_PROCESS) if processes is None else processes
    of = max(1, min(wanted, len(positions)))
    shares = [
        Share(
            log_settings=log_settings,
            database=database,
            partitions={one: span for one, span in spans_of.items() if one % of == index},
            sample=_NONE if share <= 0 or whole else sample(share, drawn),
            held_max=held_max,
        )
        for index in range(of)
    ]
    shares = [one for one in shares if one.partitions]
    found: list[Verified] = in_processes(_WORK, shares, Summed(total, say))
    if asked is None:
        found.append(_verified_rooms(database))
    return Report(
        partitions=len(positions),
        events=sum(one.events for one in found),
        operations=sum(one.operations for one in found),
        differences=tuple(one for part in found for one in part.listed)[:DIFFERENCES_MAX],
        differences_total=sum(one.total for one in found),
        share=share,
        seed=None if whole or share <= 0 else drawn,
        since={one: begin for one, begin in begins.items() if begin},
        until={one: place.next_offset for one, place in positions.items()},
    )


def verified_share(share: Share, say: Callable[[int], None]) -> Verified:
    """Verifies the partitions of *share*, one after the other."""
    found = Found()
    counted = Counted(sum(_offsets(*one) for one in share.partitions.values()), say)
    with (
        closing(LogReader(share.log_settings, replay=True)) as reader,
        connect(share.database) as connection,
        translated(share.database),
    ):
        for partition, (since, until) in share.partitions.items():
            with closing(_Partition(share, reader, connection, partition, found, counted)) as one:
                one.verify(since, until)
    return Verified(events=found.events, operations=found.operations, listed=found.listed, total=found.total)


def _verified_rooms(database: PostgresSettings) -> Verified:
    found = Found()
    with connect(database) as connection, translated(database):
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        compare_rooms(connection, found)
        connection.execute("ROLLBACK")
    return Verified(events=0, operations=0, listed=found.listed, total=found.total)


def _offsets(since: int, until: int) -> int:
    """That are read: twice where it is looked first what is new."""
    return until + (until - since if since else 0)


class _Held(View):
    """A view that lets states go to a file, where there are too many."""

    def __init__(self, held_max: int) -> None:
        super().__init__()
        self._held_max = held_max
        self._spill: Spill[StoredRoute] | None = None

    def hold_all(self, keys: Iterable[RouteKey]) -> None:
        """Takes up routes where they were left; new ones begin empty."""
        missing = list(keys)
        if self._spill is not None:
            names = {_file_key(*key): key for key in missing}
            self.hold({names[name]: stored for name, stored in self._spill.get(names).items()})
        self.hold_empty(key for key in missing if key not in self.routes)

    def next_turn(self) -> None:
        gone: list[tuple[bytes, StoredRoute]] = []
        while self._held > self._held_max and self.routes:
            key, stored = self.routes.popitem(last=False)
            self._held -= len(stored.route.operations)
            gone.append((_file_key(*key), stored))
        if gone:
            self._let_go(gone)
        super().next_turn()

    def _let_go(self, gone: Iterable[tuple[bytes, StoredRoute]]) -> None:
        if self._spill is None:
            self._spill = Spill(StoredRoute)
        self._spill.put(gone)

    def all(self) -> Iterator[StoredRoute]:
        """Every route, ordered by `key_of`."""
        if self._spill is None:
            for _, stored in sorted((key_of(*key), stored) for key, stored in self.routes.items()):
                yield stored
            return
        if self.routes:
            self._spill.put((_file_key(*key), stored) for key, stored in self.routes.items())
            self.routes.clear()
            self._held = 0
        for _, stored in self._spill.items():
            yield stored

    def close(self) -> None:
        if self._spill is not None:
            self._spill.close()


def _file_key(tenant_id: str, route: str) -> bytes:
    # NUL is escaped in both, so the order of these bytes is that of the pair.
    return b"\0".join(key_of(tenant_id, route))


class _Partition:
    """One partition in the course of being verified."""

    def __init__(self, share: Share, reader: LogReader, connection: Any, partition: int, found: Found, counted: Counted) -> None:
        self._ring, self._sample = share.log_settings.ring, share.sample
        self._reader, self._connection, self._partition = reader, connection, partition
        self._found, self._counted = found, counted
        self._view = _Held(share.held_max)
        self._touched: set[RouteKey] = set()
        """Routes that the log changed in what is new."""
        self._since = self._until = 0

    def close(self) -> None:
        self._view.close()

    def verify(self, since: int, until: int) -> None:
        """Compares what is new from *since* to before *until* whole, and of the rest what the sample takes."""
        self._since, self._until = since, until
        if 0 < since < until:
            self._look_for_new()
        compared = self._fold(0, until, _FIRST)
        connection = self._connection
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            stands = _positions(connection).get(self._partition)
            now = until if stands is None else stands.next_offset
            if since == 0:
                self._until = max(now, until)  # everything is compared, also what came meanwhile
            compared = self._fold(until, now, compared)
            self._compare_span(compared, _LAST)
            compare_states(connection, self._partition, self._view.all, self._names(_FIRST, _LAST), self._found, self._chosen)
        finally:
            connection.execute("ROLLBACK")

    def _look_for_new(self) -> None:
        for records in read_spans(self._reader, {self._partition: (self._since, self._until)}):
            for record in records:
                if (key := _route_in(record.key)) is not None:
                    self._touched.add(key)
            self._counted.passed(len(records))

    def _fold(self, begin: int, until: int, compared: int) -> int:
        """Folds a span. What only grows is compared from *compared* on, where there is much of it; gives up to where it was."""
        for records in read_spans(self._reader, {self._partition: (begin, until)}):
            items = [read_item(one, ring=self._ring, partitions=self._reader.partitions) for one in records if self._is_read(one)]
            self._view.hold_all(self._view.missing(items))
            for item in items:
                self._view.fold(item)
            last = records[-1].offset + 1
            if last - max(compared, 0) >= COMPARED_AT_ONCE:
                self._compare_span(compared, last)
                self._view.next_turn()
                compared = last
            self._counted.passed(len(records))
        return compared

    def _is_read(self, record: Record) -> bool:
        if self._since <= record.offset < self._until:
            return True
        key = _route_in(record.key)
        return key is not None and self._chosen(*key)

    def _chosen(self, tenant_id: str, route: str) -> bool:
        return self._since == 0 or (tenant_id, route) in self._touched or self._sample.takes(tenant_id, route)

    def _compared(self, offset: int, tenant_id: str, route: str) -> bool:
        if self._since == 0 or self._since <= offset < self._until:
            return True
        return self._sample.takes(tenant_id, route)

    def _refused_compared(self, offset: int, key: bytes | None) -> bool:
        if self._since == 0 or self._since <= offset < self._until:
            return True
        # A longer key is kept in part, and what cannot be read names no group.
        named = None if key is None or len(key) >= KEY_BYTES_KEPT else _route_in(key)
        return named is not None and self._sample.takes(*named)

    def _names(self, first: int, last: int) -> dict[str, Any]:
        whole = self._since == 0
        return {
            "partition": self._partition,
            "first": first,
            "last": last,
            "since": _FIRST if whole else self._since,
            "until": _LAST if whole else self._until,
            "seed": self._sample.seed,
            "below": self._sample.below,
        }

    def _compare_span(self, first: int, last: int) -> None:
        compare_span(
            self._connection,
            self._partition,
            self._view.changes,
            self._names(first, last),
            self._found,
            compared=self._compared,
            refused=self._refused_compared,
        )


def _route_in(key: bytes | None) -> RouteKey | None:
    """Tenant and route that a record key names."""
    try:
        parts = parse_key(key) if key else None
    except DecodeError:
        return None
    return None if parts is None else (parts.tenant_id, parts.route)


def _positions(connection: Any) -> dict[int, Position]:
    rows = connection.execute(statement("positions")).fetchall()
    return {
        partition: Position(
            partition=partition,
            owner_epoch=owner_epoch,
            topic_id=topic_id,
            next_offset=next_offset,
            last_offset=last_offset,
            last_digest=last_digest,
            leader_epoch=leader_epoch,
        )
        for partition, owner_epoch, topic_id, next_offset, last_offset, last_digest, leader_epoch in rows
    }
