"""Folding a log over empty tables, in a rebuild: only folded and written; nothing is decided and nobody is answered.

What a turn of the projector does record by record is done here in large steps, since nobody waits: one transaction takes many
records, its events are copied as they are folded, and each operation that changed is written once, at its end. Partitions know
nothing of each other, so several processes each fold some of them.

The guarantees are those of the projector. A transaction compares the positions of its partitions first and sets them last, so it
is there as a whole or not at all, whoever took them over; killed in between, the next projector goes on from what is there. Where
something is on its way to the log, or the log has lost its beginning, a partition is left to the projector, which comes
afterwards and brings everything to its end.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import msgspec

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.adapters.postgres import PostgresSettings
from landed.wire.records import Record
from landed_services.projector.batch import View
from landed_services.projector.membership import Membership
from landed_services.projector.reading import read_item, record_digest
from landed_services.projector.store import Position, Store, Wanted
from landed_services.projector.telling import tell_alarms

READ_AT_ONCE: Final = 2_000
"""Records that are read and copied together."""
COMMIT_AFTER: Final = 100_000
"""Records of one transaction. What they change is in memory until its end, so that an operation whose events lie far apart is
written once."""
SILENCE_S: Final = 1.0
"""How long the next record may take; what comes later, or does not come since markers stand there, is left to the projector."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several processes folds: every *of*-th partition, from *index* on."""

    log_settings: KafkaSettings
    database: PostgresSettings
    topic_id: str
    index: int = 0
    of: int = 1


def refold(
    share: Share, stop: threading.Event, *, commit_after: int = COMMIT_AFTER, told: Callable[[int], None] | None = None
) -> int:
    """Folds the partitions of *share* from their beginning to the end that they have now; gives the number of records.

    Args:
        stop: set by another thread: ends after the transaction at hand.
        told: gets the number of records that are folded, now and then.

    Raises:
        TakenOver: another projector owns one of them.
        LogError, DatabaseError: what was committed stays.
    """
    with (
        closing(Store(share.database)) as store,
        closing(LogReader(share.log_settings, replay=True)) as reader,
        Membership(share.database, "rebuild") as membership,
    ):
        store.partitions(reader.partitions, topic_id=share.topic_id)
        bounds = reader.bounds()
        partitions = range(share.index, reader.partitions, share.of)
        on_their_way = {decision.partition for _, decision in store.on_their_way(partitions)}
        whole = [one for one in partitions if one not in on_their_way and bounds[one][0] == 0]
        others = [name for name in membership.seen.live if name != membership.name]
        taken = store.take_over(whole, topic_id=share.topic_id, owner=membership.name, others=others) if whole else {}
        try:
            positions = {one: place for one, place in taken.items() if place.next_offset == 0 and bounds[one][1] > 0}
            worker = _Worker(share.log_settings, store, reader, membership, positions, told)
            reader.assign(dict.fromkeys(positions, 0))
            ends = {one: bounds[one][1] for one in positions}
            while not worker.silent and not stop.is_set() and worker.is_behind(ends):
                worker.transaction(ends, commit_after)
            return worker.records
        finally:
            store.release(list(taken.values()))


class _Worker:
    def __init__(
        self,
        settings: KafkaSettings,
        store: Store,
        reader: LogReader,
        membership: Membership,
        positions: dict[int, Position],
        told: Callable[[int], None] | None,
    ) -> None:
        self._ring = settings.ring
        self._store, self._reader, self._membership = store, reader, membership
        self._positions = positions
        self._last: dict[int, Record] = {}
        self._view = View()
        self._told = told
        self.records = 0
        self.silent = False
        """No record came for a while."""

    def is_behind(self, ends: Mapping[int, int]) -> bool:
        return any(self._next_offset(one) < end for one, end in ends.items())

    def _next_offset(self, partition: int) -> int:
        last = self._last.get(partition)
        return self._positions[partition].next_offset if last is None else last.offset + 1

    def transaction(self, ends: Mapping[int, int], commit_after: int) -> None:
        """Folds up to *commit_after* records and commits what they changed."""
        view, store, until = self._view, self._store, self.records + commit_after
        was = self._positions
        with store.transaction(large=True):
            # Nothing is written for partitions that another projector owns by now.
            store.advance([(place, place) for place in was.values()], Wanted(routes=[]))
            while self.records < until and self.is_behind(ends) and self._chunk(min(READ_AT_ONCE, until - self.records)):
                store.write_events(view.changes.events, large=True)
                tell_alarms(view.changes.alarms)
                view.changes.events.clear()
                view.changes.forget_what_follows()
            now = {one: _after(was[one], record) for one, record in self._last.items()}
            store.advance([(was[one], place) for one, place in now.items()], Wanted(routes=[])) if now else None
            view.keep_undecided()
            store.write(view, (), large=True)
        self._positions = {**was, **now}
        self._last.clear()
        view.next_turn()

    def _chunk(self, size: int) -> bool:
        """Reads and folds what comes next, at most *size* records; whether anything came."""
        view = self._view
        records = self._reader.poll(size, SILENCE_S)
        self._membership.turned()
        items = [read_item(record, ring=self._ring, partitions=self._reader.partitions) for record in records]
        missing = view.missing(items)
        if view.has_forgotten:
            view.hold(self._store.load(missing))
        else:
            view.hold_empty(missing)
        for item in items:
            view.fold(item)
            self._last[item.record.partition] = item.record
        self.records += len(records)
        if self._told is not None:
            self._told(self.records)
        self.silent = not records
        return bool(records)


def _after(place: Position, record: Record) -> Position:
    return msgspec.structs.replace(
        place,
        next_offset=record.offset + 1,
        last_offset=record.offset,
        last_digest=record_digest(record),
        leader_epoch=record.leader_epoch,
    )
