"""The partitions that one session owns: how it comes to them, where each stands, and whether decisions are made for it.

A session owns the same ones from its start to its end. A partition on which the log does not continue stays owned and is left
alone. One decides only when it has caught up with the end of the log that the session saw, and new operations are granted only
when all partitions have, whoever owns them.

Source: docs/architecture.md §3.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from landed.adapters.kafka import LogReader
from landed.wire.records import Record
from landed_services.projector.continuity import LOOK_CLOSER_S, discontinued
from landed_services.projector.errors import LogReplaced, TakenOver
from landed_services.projector.membership import Membership, Seen, shares
from landed_services.projector.reading import record_digest
from landed_services.projector.store import Position, Store
from landed_services.projector.telling import LOG
from landed_services.projector.watching import Watch

TOGETHER_S: Final = 2.0
"""How long after its start a partition that has caught up waits for the others, before it answers what concerns them all with
`ledger_unavailable`. A caller that waits anyway is served better by a second's patience."""
WAIT_FOR_SHARE_S: Final = 0.05
"""How often a projector without partitions looks whether there are any for it."""


class Owned:
    """Partitions of one session, from `take` to `release`."""

    def __init__(self, membership: Membership, store: Store, reader: LogReader, watch: Watch, *, topic_id: str) -> None:
        self._membership, self._store, self._reader, self._watch = membership, store, reader, watch
        self._seen = membership.seen
        self._topic_id = topic_id
        self._count = reader.partitions
        self._began = time.monotonic()
        self.partitions: list[int] = []
        """Those that are worked on."""
        self.stopped: set[int] = set()
        """Those that are left alone, since the log does not continue there."""
        self.positions: dict[int, Position] = {}
        """Where each stands in the tables, the stopped ones among them."""
        self.unwritten: dict[int, Record] = {}
        """Last record of each partition that is folded and not written."""
        self.catching_up: set[int] = set()
        self.ends: dict[int, int] = {}
        """The end of the log that each catches up with."""
        self._told: set[int] = set()
        """Partitions that the others know to have caught up."""
        self._others_caught_up = False
        self._stood: dict[int, int] = {}
        self._look_closer_at = 0.0

    @property
    def all_ready(self) -> bool:
        """Whether this session decides on all that it owns, and the tables know of every dispatch on the other partitions."""
        return not self.catching_up and not self.stopped and self._others_caught_up

    def is_ready(self, partition: int) -> bool:
        """Whether decisions are made for *partition*."""
        return partition not in self.catching_up

    # ---- coming and going ---------------------------------------------------------------------------------------------

    def take(self, stop: threading.Event) -> bool:
        """Waits for a share and owns it; False: *stop* was set before.

        Raises:
            LogReplaced: the log continues on none of the ledger's partitions.
        """
        free, self._seen = self._free_share(stop)
        if not free:
            return False
        others = [name for name in self._seen.live if name != self._membership.name]
        self.positions = self._store.take_over(sorted(free), topic_id=self._topic_id, owner=self._membership.name, others=others)
        self._began = time.monotonic()
        self._stop_where_the_log_does_not_continue()
        return True

    def begin(self) -> None:
        """Reads from the positions on; decisions wait for the end that the log has now."""
        self.ends = self._reader.end_offsets()
        self._watch.owns(self.ends, self.positions, self.stopped)
        self._reader.assign(
            {partition: self.positions[partition].next_offset for partition in self.partitions},
            leader_epochs={partition: self.positions[partition].leader_epoch for partition in self.partitions},
        )

    def behind(self) -> int:
        """Records to the end that the log had at the start."""
        return sum(max(0, self.ends[one] - place.next_offset) for one, place in self.positions.items())

    def is_its_share(self) -> bool:
        """Whether what this session owns is what it should; what another one has not given up yet is waited for.

        Raises:
            TakenOver: somebody took one of its partitions.
        """
        seen, mine = self._membership.seen, self.positions
        if seen is self._seen:
            return True
        self._seen = seen
        lost = [one for one, place in mine.items() if one in seen.places and seen.places[one].owner_epoch > place.owner_epoch]
        if lost:
            raise TakenOver(f"partitions {', '.join(map(str, lost))}: another projector owns them now, or they were reset")
        share = self._share(seen)
        return not (mine.keys() - share) and not any(seen.is_free(one) for one in share - mine.keys())

    def leaving(self, *, all_: bool) -> list[Position]:
        """What belongs to others now, or everything."""
        keeps = set() if all_ else self._share(self._membership.seen)
        return [place for one, place in self.positions.items() if one not in keeps]

    def _share(self, seen: Seen) -> set[int]:
        return shares(seen.places, seen.live, self._count)[self._membership.name]

    def _free_share(self, stop: threading.Event) -> tuple[set[int], Seen]:
        """Waits until there is something to own: what others have to give up first comes later, with another session."""
        while True:
            seen = self._membership.seen
            free = {one for one in self._share(seen) if seen.is_free(one) or seen.places[one].owner == self._membership.name}
            if free or stop.is_set():
                return free, seen
            self._membership.turned()
            self._watch.stands_by()
            stop.wait(WAIT_FOR_SHARE_S)

    def _stop_where_the_log_does_not_continue(self) -> None:
        """Such partitions stay owned and are not read; the others go on, but grant no new operation: its id may be known there.

        Raises:
            LogReplaced: it continues nowhere.
        """
        stopped = discontinued(self._reader, self.positions, topic_id=self._topic_id)
        for partition, why in stopped.items():
            LOG.error(why, action="partition_stopped", partition=partition)
        if len(stopped) == self._count:
            raise LogReplaced(next(iter(stopped.values())))
        self.stopped = set(stopped)
        self.partitions = [one for one in sorted(self.positions) if one not in stopped]
        self.catching_up = set(self.partitions)

    # ---- where they stand ---------------------------------------------------------------------------------------------

    def next_offset(self, partition: int) -> int:
        """Of the record that is folded next."""
        record = self.unwritten.get(partition)
        return self.positions[partition].next_offset if record is None else record.offset + 1

    def moves(self, also: Iterable[int]) -> list[tuple[Position, Position]]:
        """Each position that a transaction compares, and what it is set to; those of *also* whether or not they move."""
        moves = []
        for partition in sorted({*self.unwritten, *also}):
            was, record = self.positions[partition], self.unwritten.get(partition)
            now = was
            if record is not None:
                now = msgspec.structs.replace(
                    was,
                    next_offset=record.offset + 1,
                    last_offset=record.offset,
                    last_digest=record_digest(record),
                    leader_epoch=record.leader_epoch,
                )
            moves.append((was, now))
        return moves

    def committed(self, moves: Iterable[tuple[Position, Position]]) -> None:
        """The tables hold what is folded."""
        for _, now in moves:
            self.positions[now.partition] = now
        self.unwritten.clear()

    # ---- catching up --------------------------------------------------------------------------------------------------

    def reached(self, flush: Callable[[], None]) -> set[int]:
        """Partitions that decide from now on: all that have caught up, together if the slowest takes no longer than a moment.

        Args:
            flush: writes what is folded, before the others are told that the tables hold it.
        """
        if self.catching_up:
            reached = {one for one in self.catching_up if self.next_offset(one) >= self.ends[one]}
            self._look_closer(self.catching_up - reached)
            self._tell(reached - self._told, flush)
        else:
            reached = set()
        if not self._others_caught_up:
            # Once is enough: whatever is dispatched after that stands in the tables and the outbox before it is dispatched.
            self._others_caught_up = self._have_others_caught_up()
        together = reached == self.catching_up and self._others_caught_up and not self.stopped
        if not together and time.monotonic() < self._began + TOGETHER_S:
            return set()
        return reached

    def _look_closer(self, behind: set[int]) -> None:
        """A partition that stood still for a second may have no record any more before its end."""
        if not behind or time.monotonic() < self._look_closer_at:
            return
        stands = {one: self.next_offset(one) for one in behind}
        still = {one: offset for one, offset in stands.items() if self._stood.get(one) == offset}
        for one in self._reader.without_records(still) if still else ():
            self.ends[one] = stands[one]
        self._stood, self._look_closer_at = stands, time.monotonic() + LOOK_CLOSER_S

    def _tell(self, reached: set[int], flush: Callable[[], None]) -> None:
        """Has the others know that the tables hold what stood on the log of *reached*."""
        if not reached:
            return
        flush()
        self._store.mark_caught_up([self.positions[one] for one in sorted(reached)])
        self._told |= reached
        self._membership.look()

    def _have_others_caught_up(self) -> bool:
        seen = self._membership.seen
        others = set(range(self._count)) - self.positions.keys()
        return all(one in seen.places and seen.places[one].caught_up and not seen.is_free(one) for one in others)
