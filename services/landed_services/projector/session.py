"""One session of a projector: a turn after the other over the partitions that it owns.

A turn: read → verify and classify → one transaction {compare and set the positions; load the touched routes; fold; decide what is
undecided; write rows; put decisions into the outbox} → append the decisions in the order of the commits → they come back through
the log → fold → send the verdict that the fold gave.

Everything in memory is lost with a session and loaded again by the next. What stands in the outbox is appended first, and nothing
is decided before the end of the log at that moment is reached.

Source: docs/architecture.md §3.
"""

import threading
import time
from collections.abc import Sequence
from typing import Final

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, LogReader, LogUnreachable, ReplySender
from landed.adapters.postgres.routes import RouteKey
from landed.core import events as ev
from landed.core.verdict import verdict_of
from landed.testing.failure_points import reach
from landed.wire.partition import partition_for
from landed_services.projector.appending import APPEND_TIMEOUT_S, Appending
from landed_services.projector.batch import View
from landed_services.projector.deciding import AskedAgain, Decider, Decisions
from landed_services.projector.looking_up import claimed, wanted
from landed_services.projector.membership import Membership
from landed_services.projector.owned import Owned
from landed_services.projector.reading import Item, read_item
from landed_services.projector.rooms import Rooms, Told
from landed_services.projector.store import LookedUp, Store
from landed_services.projector.telling import LOG, tell_alarms, tell_refused
from landed_services.projector.watching import Watch

RECORDS_MAX: Final = 4_000
"""Records of one batch: large enough that a rebuild runs at the speed of the fold, small enough to commit within a second."""
LARGE: Final = 512
"""Records from which a batch is copied rather than inserted: more than many callers make in a turn, less than a rebuild reads."""
POLL_S: Final = 0.1
LINGER_S: Final = 0.01
"""How long what asks for no decision may wait for more before it is written."""
TELL_S: Final = 1.0
"""How often it is looked whether a breaker opened or closed."""


class Session:
    """Everything between taking partitions over and losing them again."""

    def __init__(
        self,
        settings: KafkaSettings,
        membership: Membership,
        watch: Watch,
        *,
        topic_id: str,
        store: Store,
        reader: LogReader,
        event_log: KafkaEventLog,
        replies: ReplySender,
    ) -> None:
        self._settings, self._membership, self._watch = settings, membership, watch
        self._store, self._reader, self._replies = store, reader, replies
        self._count = reader.partitions
        self._owned = Owned(membership, store, reader, watch, topic_id=topic_id)
        self._policies_marked = False
        self._numbers: dict[int, int] = {}
        self._view = View()
        self._to_tell: list[Told] = []
        """Breakers of which the log is to be told."""
        self._tell_at = 0.0
        self._appending = Appending(event_log)
        self._unwritten_since = 0.0

    @property
    def all_ready(self) -> bool:
        """Whether it decides on every partition that it owns, and every other one has caught up too."""
        return self._owned.all_ready

    def has_its_share(self) -> bool:
        """Whether what it owns is what it should.

        Raises:
            TakenOver: somebody took one of its partitions.
        """
        return self._owned.is_its_share()

    def give_up(self, *, all_: bool) -> None:
        """Writes what is folded, and lets go of what belongs to others now, or of everything."""
        if not self._owned.positions:
            return
        self.flush()
        self._appending.acknowledged(wait=True)
        leaving = self._owned.leaving(all_=all_)
        reach("projector.before_release")
        self._store.release(leaving)
        reach("projector.released")
        self._membership.look()
        LOG.info(
            "projector gives up partitions", action="projector_gave_up", projector=self._membership.name, partitions=len(leaving)
        )

    def take_over(self, stop: threading.Event) -> None:
        """Owns its share of the partitions, checks that the log continues, and appends what the outbox still holds, in order."""
        self._reader.assign({})
        if not self._owned.take(stop):
            return
        partitions = self._owned.partitions
        self._numbers = self._store.last_numbers(partitions)
        outbox = self._store.on_their_way(partitions)
        for event, decision in outbox:
            self._view.sent((event.tenant_id, event.route), decision, None)
        reach("projector.took_over")
        self._appending.send([event for event, _ in outbox])
        self._appending.acknowledged(wait=True)  # so that the end of the log, which is asked for next, lies behind them
        reach("projector.outbox_appended")
        self._view.wait_again(self._store.undecided(partitions))
        self._owned.begin()
        LOG.info(
            "projector owns its partitions",
            action="projector_took_over",
            projector=self._membership.name,
            partitions=partitions,
            outbox=len(outbox),
            behind=self._owned.behind(),
        )
        self._membership.look()

    # ---- one turn -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """One batch: read, fold, decide, commit, append, answer.

        What asks for no decision is folded and answered at once and written a moment later, with what comes next: the position
        is written with it, so nothing is lost by waiting, and a single caller costs one transaction instead of three.
        """
        self._membership.turned()
        if self._watch.is_due():
            self._report()
        self._appending.acknowledged()
        # A partition that has reached the end it saw decides what waited there.
        reached = self._owned.reached(self.flush)
        items = self._read(0.0 if reached else self._patience_s())
        self._owned.catching_up -= reached
        if items:
            reach("projector.read")
        if items and not self._owned.unwritten:
            self._unwritten_since = time.monotonic()
        for item in items:
            self._owned.unwritten[item.record.partition] = item.record
        missing = self._view.missing(items)
        if not missing and self._membership.is_known:
            # Folding needs nothing but the log, so its verdicts need not wait for the database either. Whoever stood still for so
            # long that others may own its partitions now asks the database first: then it answers nobody.
            self._fold(items)
            items = []
        if self._owned.all_ready and time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_S
            self._to_tell = self._store.breakers_to_tell(self._owned.partitions)
        if self._must_write(items, reached):
            self._write(items, missing, reached)

    def _report(self) -> None:
        stands = {one: self._owned.next_offset(one) for one in self._owned.positions}
        self._watch.report(stands, self._reader.known_ends(), self._view, decides=self._owned.all_ready)

    def flush(self) -> None:
        """Writes what is folded and not written."""
        if self._owned.unwritten:
            self._write([], [], set())

    def _read(self, timeout_s: float) -> list[Item]:
        records = self._reader.poll(RECORDS_MAX, timeout_s)
        return [read_item(record, ring=self._settings.ring, partitions=self._count) for record in records]

    def _patience_s(self) -> float:
        if not self._owned.unwritten:
            return POLL_S
        return max(0.0, self._unwritten_since + LINGER_S - time.monotonic())

    def _fold(self, items: Sequence[Item]) -> None:
        view = self._view
        for item in items:
            view.fold(item)
        if view.changes.verdicts:
            reach("projector.before_verdicts")
            self._replies.send(view.changes.verdicts)
            reach("projector.verdicts_sent")
            view.changes.verdicts.clear()
            self._watch.answered(view.changes.answered_ms)

    def _must_write(self, items: Sequence[Item], reached: set[int]) -> bool:
        """Whether a decision is asked for, a look-up is needed, or what is folded has waited long enough."""
        view = self._view
        if items or reached or view.changes.rechecks or self._to_tell:
            return True
        if any(self._owned.is_ready(waiting.entry.position.partition) for waiting in view.waiting.values()):
            return True
        if not self._owned.unwritten:
            return False
        return len(view.changes.events) >= RECORDS_MAX or time.monotonic() >= self._unwritten_since + LINGER_S

    def _write(self, items: Sequence[Item], missing: Sequence[RouteKey], reached: set[int]) -> None:
        """The transaction, then the decisions on their way and the answers that it gave."""
        if self._owned.all_ready and not self._policies_marked:
            self._store.mark_policies_whole()
            self._policies_marked = True
        view, moves = self._view, self._owned.moves([*reached, *(one.partition for one in self._to_tell)])
        settling = self._store.unsettled_routes(sorted(reached)) if reached else []
        sought = wanted(view, items, [*missing, *settling], self._to_tell, self._owned.is_ready)
        large = len(items) + len(view.changes.events) >= LARGE
        reach("projector.before_transaction")
        began = time.monotonic()
        with self._store.transaction(large=large):
            looked_up = self._store.advance(moves, sought)
            reach("projector.in_transaction")
            view.hold(looked_up.routes)
            self._fold(items)
            for key in settling:
                partition = partition_for(*key, self._count)
                view.changes.touched.setdefault(key, (partition, set(view.routes[key].route.operations)))
            decisions = self._decide(looked_up, self._store.rooms(claimed(view, self._owned.is_ready), looked_up))
            self._replies.send(decisions.verdicts)
            view.keep_undecided()
            self._store.write(view, decisions.made, large=large)
            # A decision that is marked as returned is not answered again: its verdict must be out of this process before.
            if self._replies.flush(APPEND_TIMEOUT_S):
                raise LogUnreachable(f"verdicts were not acknowledged within {APPEND_TIMEOUT_S:g} s")
            reach("projector.before_commit")
        self._owned.committed(moves)
        self._to_tell = []
        self._log_turn(decisions)
        self._watch.committed(view.changes, decisions.made, time.monotonic() - began)
        view.next_turn()
        if decisions.made:
            reach("projector.committed")
            self._appending.send([decision.event for decision in decisions.made])
            reach("projector.appended")
        for asked in decisions.again:
            self._answer_again(asked)

    def _decide(self, looked_up: LookedUp, rooms: Rooms) -> Decisions:
        decider = Decider(
            self._view,
            now_ms=looked_up.now_ms,
            ready=self._owned.is_ready,
            all_ready=self._owned.all_ready,
            numbers=self._numbers,
            known_under=looked_up.known_under,
            decided_before=looked_up.decided_before,
            policies=looked_up.policies,
            policies_whole=looked_up.policies_whole or self._owned.all_ready,
            rooms=rooms,
            partitions=self._count,
            on_record=looked_up.on_record,
        )
        if self._to_tell:
            decider.tell(self._store.breaker_events(self._to_tell, looked_up))
        return decider.run()

    def _answer_again(self, asked: AskedAgain) -> None:
        """The same answer to a claim that is asked again; its first one may have been lost (§1)."""
        tenant_id, route = asked.key
        for decision in self._store.decisions_on(asked.key, asked.operation_id):
            event = decision.event
            if not isinstance(event, ev.DispatchGranted | ev.DispatchRefused) or event.claim_id != asked.claim.claim_id:
                continue
            stored = self._view.routes.get(asked.key)
            if stored is None:
                return
            operation = stored.route.operation(asked.operation_id)
            verdict = verdict_of(operation, decision, claim=asked.claim, accepted=True, route=stored.route)
            if verdict is not None:
                self._replies.send([verdict])
                LOG.info(
                    "answered again",
                    action="claim_answered_again",
                    tenant_id=tenant_id,
                    route=route,
                    operation_id=asked.operation_id,
                    claim_id=asked.claim.claim_id,
                )
            return

    def _log_turn(self, decisions: Decisions) -> None:
        changes = self._view.changes
        tell_alarms([*changes.alarms, *decisions.defects])
        tell_refused(changes.refused)
        LOG.debug("turn", action="projector_turn", events=len(changes.events), decisions=len(decisions.made))
