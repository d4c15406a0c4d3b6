"""The projector: one loop, a batch a turn.

Read → verify and classify → one transaction {compare and set the positions; load the touched routes; fold; decide what is
undecided; write rows; put decisions into the outbox} → append the decisions in the order of the commits → they come back through
the log → fold → send the verdict that the fold gave.

Everything in memory is lost with a session and loaded again by the next: whatever fails on the way (a broken connection, a broker
that does not acknowledge) ends the session, and the next one starts from the positions in the database. What stands in the outbox
is appended first, and nothing is decided before the end of the log at that moment is reached.

Several projectors share the partitions. A session owns the same ones from its start to its end: when the shares change, it writes
what it has, gives up what is not its own any more, and the next session starts with what is.

Source: docs/architecture.md §3.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from typing import Any, Final, Self

import msgspec
import structlog

from landed.adapters.kafka import (
    KafkaEventLog,
    KafkaSettings,
    LogReader,
    LogTruncated,
    LogUnreachable,
    ReplySender,
    TopicUnfit,
    check_topic,
)
from landed.adapters.postgres import DatabaseUnreachable, PostgresSettings
from landed.adapters.postgres.routes import RouteKey
from landed.core import events as ev
from landed.core.asked import possible_references
from landed.core.policy import policy_route
from landed.core.projection import claim_in
from landed.core.state import COMPENSATE
from landed.core.verdict import verdict_of
from landed.ports.log import Appended, AppendFailed
from landed.testing.failure_points import reach
from landed.wire.partition import partition_for
from landed.wire.records import Record
from landed_services.metrics import Metrics
from landed_services.projector.batch import ClaimKey, View
from landed_services.projector.continuity import LOOK_CLOSER_S, discontinued
from landed_services.projector.deciding import AskedAgain, Decider, Decisions
from landed_services.projector.errors import LogReplaced, TakenOver
from landed_services.projector.membership import Membership, Seen, shares
from landed_services.projector.reading import Item, read_item, record_digest
from landed_services.projector.rooms import Claimed, Rooms, Told
from landed_services.projector.store import LookedUp, Position, Store, Wanted
from landed_services.projector.watching import Watch

RECORDS_MAX: Final = 4_000
"""Records of one batch: large enough that a rebuild runs at the speed of the fold, small enough to commit within a second."""
LARGE: Final = 512
"""Records from which a batch is copied rather than inserted: more than many callers make in a turn, less than a rebuild reads."""
POLL_S: Final = 0.1
LINGER_S: Final = 0.01
"""How long what asks for no decision may wait for more before it is written."""
TOGETHER_S: Final = 2.0
"""How long after its start a partition that has caught up waits for the others, before it answers what concerns them all with
`ledger_unavailable`. A caller that waits anyway is served better by a second's patience."""
APPEND_TIMEOUT_S: Final = 10.0
PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between sessions that fail one after the other."""
TELL_S: Final = 1.0
"""How often it is looked whether a breaker opened or closed."""
WAIT_FOR_SHARE_S: Final = 0.05
"""How often a projector without partitions looks whether there are any for it."""

# Through the standard library, so that a projector inside another process logs where and as that process wants it.
_LOG: Any = structlog.wrap_logger(
    logging.getLogger("landed.projector"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)


class Projector:
    """One projector of a ledger: of all its partitions, or of its share when others are there.

    Args:
        log_settings: the ledger's topics.
        database: where the view is; migrated before (`landed migrate`).
        name: shown in `positions` as the owner.
        metrics: where it tells what it does.
    """

    def __init__(
        self, log_settings: KafkaSettings, database: PostgresSettings, *, name: str = "projector", metrics: Metrics | None = None
    ) -> None:
        self._log_settings = log_settings
        self._database = database
        self._name = name
        self._watch = Watch(metrics or Metrics())
        self.caught_up = threading.Event()
        """Set while this projector decides on all that it owns, and every other partition has caught up too."""
        self.has_caught_up = False
        """Whether it ever did."""

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set, then ends after the batch at hand.

        Connections that break and a broker that does not answer are waited out; partitions that another projector took, because
        it heard nothing of this one, are left to it.

        Raises:
            LogReplaced: the log continues on no partition; says how to repair it. One of which that is true is only stopped.
            TopicUnfit: the topic is missing or has settings that the guarantees do not hold on.
            SchemaOutdated: the tables are not those of this release.
        """
        failures = 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                with (
                    # Connected first: the others give partitions up for whoever is there, and nobody should wait for it then.
                    _Clients(self._log_settings, self._database) as clients,
                    Membership(self._database, self._name) as membership,
                ):
                    while not stop.is_set():
                        self._session(stop, membership, clients)
            except (DatabaseUnreachable, LogUnreachable, AppendFailed, TakenOver, LogTruncated) as error:
                failures = 1 if time.monotonic() - began > PAUSES_S[-1] else failures + 1
                pause_s = PAUSES_S[min(failures, len(PAUSES_S)) - 1]
                self._watch.failed(error)
                _LOG.warning("projector pauses", action="projector_pauses", error=str(error), pause_s=pause_s)
                stop.wait(pause_s)
            finally:
                self.caught_up.clear()

    def _session(self, stop: threading.Event, membership: Membership, clients: "_Clients") -> None:
        session = _Session(self._log_settings, membership, clients, self._watch)
        try:
            session.take_over(stop)
            while not stop.is_set() and session.has_its_share():
                session.turn()
                if session.all_ready:
                    self.has_caught_up = True
                    self.caught_up.set()
            session.give_up(all_=stop.is_set())
        finally:
            self.caught_up.clear()
            self._watch.gave_up()


class _Clients:
    """Connections to the log and the database. They serve one session after the other until something fails."""

    def __init__(self, log_settings: KafkaSettings, database: PostgresSettings) -> None:
        self._log_settings = log_settings
        self._database = database

    def __enter__(self) -> Self:
        facts = check_topic(self._log_settings)
        if facts.problems:
            raise TopicUnfit(f"topic {facts.topic!r}: {'; '.join(facts.problems)}")
        self.topic_id = facts.topic_id
        with ExitStack() as opened:
            self.store = opened.enter_context(closing(Store(self._database)))
            self.reader = opened.enter_context(closing(LogReader(self._log_settings)))
            known = self.store.partitions(self.reader.partitions, topic_id=self.topic_id)
            if known != self.reader.partitions:
                raise TopicUnfit(
                    f"topic {facts.topic!r} has {self.reader.partitions} partitions, the ledger began with {known}: a route "
                    "would stand on another partition than before. See docs/operations.md, 'The log does not continue'"
                )
            self.event_log = opened.enter_context(closing(KafkaEventLog(self._log_settings)))
            self.replies = opened.enter_context(closing(ReplySender(self._log_settings)))
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class _Session:
    """Everything between taking partitions over and losing them again."""

    def __init__(self, log_settings: KafkaSettings, membership: Membership, clients: _Clients, watch: Watch) -> None:
        self._watch = watch
        self._settings = log_settings
        self._membership = membership
        self._seen = membership.seen
        self._topic_id = clients.topic_id
        self._store, self._reader = clients.store, clients.reader
        self._event_log, self._replies = clients.event_log, clients.replies
        self._count = self._reader.partitions
        self._partitions: list[int] = []
        """Those that this session owns and works on."""
        self._stopped: set[int] = set()
        """Those that it owns and leaves alone, since the log does not continue there."""
        self._positions: dict[int, Position] = {}
        self._ends: dict[int, int] = {}
        self._catching_up: set[int] = set()
        self._told: set[int] = set()
        """Partitions that the others know to have caught up."""
        self._others_caught_up = False
        self._policies_marked = False
        self._stood: dict[int, int] = {}
        self._look_closer_at = 0.0
        self._numbers: dict[int, int] = {}
        self._view = View()
        self._to_tell: list[Told] = []
        """Breakers of which the log is to be told."""
        self._tell_at = 0.0
        self._appending: deque[tuple[Future[Appended], float]] = deque()
        self._unwritten: dict[int, Record] = {}
        """Last record of each partition that is folded and not written."""
        self._unwritten_since = 0.0
        self._began = time.monotonic()

    @property
    def all_ready(self) -> bool:
        """Whether this session decides on all that it owns, and the tables know of every dispatch on the other partitions."""
        return not self._catching_up and not self._stopped and self._others_caught_up

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

    def has_its_share(self) -> bool:
        """Whether what this session owns is what it should; what another one has not given up yet is waited for.

        Raises:
            TakenOver: somebody took one of its partitions.
        """
        seen, mine = self._membership.seen, self._positions
        if seen is self._seen:
            return True
        self._seen = seen
        lost = [one for one, place in mine.items() if one in seen.places and seen.places[one].owner_epoch > place.owner_epoch]
        if lost:
            raise TakenOver(f"partitions {', '.join(map(str, lost))}: another projector owns them now, or they were reset")
        share = self._share(seen)
        return not (mine.keys() - share) and not any(seen.is_free(one) for one in share - mine.keys())

    def give_up(self, *, all_: bool) -> None:
        """Writes what is folded, and lets go of what belongs to others now, or of everything."""
        if not self._positions:
            return
        self.flush()
        self._acknowledged(wait=True)
        keeps = set() if all_ else self._share(self._membership.seen)
        leaving = [place for one, place in self._positions.items() if one not in keeps]
        reach("projector.before_release")
        self._store.release(leaving)
        reach("projector.released")
        self._membership.look()
        _LOG.info(
            "projector gives up partitions", action="projector_gave_up", projector=self._membership.name, partitions=len(leaving)
        )

    def take_over(self, stop: threading.Event) -> None:
        """Owns its share of the partitions, checks that the log continues, and appends what the outbox still holds, in order."""
        self._reader.assign({})
        wanted, self._seen = self._free_share(stop)
        if not wanted:
            return
        others = [name for name in self._seen.live if name != self._membership.name]
        self._positions = self._store.take_over(
            sorted(wanted), topic_id=self._topic_id, owner=self._membership.name, others=others
        )
        self._partitions = sorted(self._positions)
        self._catching_up = set(self._partitions)
        self._began = time.monotonic()
        self._stop_where_the_log_does_not_continue()
        self._numbers = self._store.last_numbers(self._partitions)
        outbox = self._store.on_their_way(self._partitions)
        for event, decision in outbox:
            self._view.sent((event.tenant_id, event.route), decision, None)
        reach("projector.took_over")
        self._append([event for event, _ in outbox])
        self._acknowledged(wait=True)  # so that the end of the log, which is asked for next, lies behind them
        reach("projector.outbox_appended")
        self._view.wait_again(self._store.undecided(self._partitions))
        self._ends = self._reader.end_offsets()
        self._watch.owns(self._ends, self._positions, self._stopped)
        self._reader.assign(
            {partition: self._positions[partition].next_offset for partition in self._partitions},
            leader_epochs={partition: self._positions[partition].leader_epoch for partition in self._partitions},
        )
        _LOG.info(
            "projector owns its partitions",
            action="projector_took_over",
            projector=self._membership.name,
            partitions=self._partitions,
            outbox=len(outbox),
            behind=sum(max(0, self._ends[one] - place.next_offset) for one, place in self._positions.items()),
        )
        self._membership.look()

    def _stop_where_the_log_does_not_continue(self) -> None:
        """Such partitions stay owned and are not read; the others go on, but grant no new operation: its id may be known there.

        Raises:
            LogReplaced: it continues nowhere.
        """
        stopped = discontinued(self._reader, self._positions, topic_id=self._topic_id)
        for partition, why in stopped.items():
            _LOG.error(why, action="partition_stopped", partition=partition)
        if len(stopped) == self._count:
            raise LogReplaced(next(iter(stopped.values())))
        self._stopped = set(stopped)
        self._partitions = [one for one in self._partitions if one not in stopped]
        self._catching_up = set(self._partitions)

    # ---- one turn -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """One batch: read, fold, decide, commit, append, answer.

        What asks for no decision is folded and answered at once and written a moment later, with what comes next: the position
        is written with it, so nothing is lost by waiting, and a single caller costs one transaction instead of three.
        """
        self._membership.turned()
        if self._watch.is_due():
            self._report()
        self._acknowledged()
        # A partition that has reached the end it saw decides what waited there.
        reached = self._reached()
        items = self._read(0.0 if reached else self._patience_s())
        self._catching_up -= reached
        if items:
            reach("projector.read")
        if items and not self._unwritten:
            self._unwritten_since = time.monotonic()
        for item in items:
            self._unwritten[item.record.partition] = item.record
        missing = self._view.missing(items)
        if not missing and self._membership.is_known:
            # Folding needs nothing but the log, so its verdicts need not wait for the database either. Whoever stood still for so
            # long that others may own its partitions now asks the database first: then it answers nobody.
            self._fold(items)
            items = []
        if self.all_ready and time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_S
            self._to_tell = self._store.breakers_to_tell(self._partitions)
        if self._must_write(items, reached):
            self._write(items, missing, reached)

    def _report(self) -> None:
        stands = {one: self._next_offset(one) for one in self._positions}
        self._watch.report(stands, self._reader.known_ends(), self._view, decides=self.all_ready)

    def _append(self, events: Sequence[ev.Event]) -> None:
        """Sends decisions in the order of the commits, without waiting: they come back by themselves."""
        deadline = time.monotonic() + APPEND_TIMEOUT_S
        for event in events:
            self._appending.append((self._event_log.append(event), deadline))
            reach("projector.decision_sent")

    def _acknowledged(self, *, wait: bool = False) -> None:
        """Takes note of acknowledgements.

        Raises:
            AppendFailed: one failed, or did not come in time: the next session appends what the outbox still holds.
        """
        while self._appending:
            future, deadline = self._appending[0]
            if not future.done() and not wait and time.monotonic() < deadline:
                return
            try:
                future.result(timeout=max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise AppendFailed(f"a decision was not acknowledged within {APPEND_TIMEOUT_S:g} s") from None
            self._appending.popleft()

    def flush(self) -> None:
        """Writes what is folded and not written."""
        if self._unwritten:
            self._write([], [], set())

    def _read(self, timeout_s: float) -> list[Item]:
        records = self._reader.poll(RECORDS_MAX, timeout_s)
        return [read_item(record, ring=self._settings.ring, partitions=self._count) for record in records]

    def _patience_s(self) -> float:
        if not self._unwritten:
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
        if any(self._ready(waiting.entry.position.partition) for waiting in view.waiting.values()):
            return True
        if not self._unwritten:
            return False
        return len(view.changes.events) >= RECORDS_MAX or time.monotonic() >= self._unwritten_since + LINGER_S

    def _write(self, items: Sequence[Item], missing: Sequence[RouteKey], reached: set[int]) -> None:
        """The transaction, then the decisions on their way and the answers that it gave."""
        if self.all_ready and not self._policies_marked:
            self._store.mark_policies_whole()
            self._policies_marked = True
        view, moves = self._view, self._moves(reached)
        settling = self._store.unsettled_routes(sorted(reached)) if reached else []
        wanted = self._wanted(items, missing, settling)
        large = len(items) + len(view.changes.events) >= LARGE
        reach("projector.before_transaction")
        began = time.monotonic()
        with self._store.transaction(large=large):
            looked_up = self._store.advance(moves, wanted)
            reach("projector.in_transaction")
            view.hold(looked_up.routes)
            self._fold(items)
            for key in settling:
                partition = partition_for(*key, self._count)
                view.changes.touched.setdefault(key, (partition, set(view.routes[key].route.operations)))
            decisions = self._decide(looked_up, self._store.rooms(self._claimed(), looked_up))
            self._replies.send(decisions.verdicts)
            view.keep_undecided()
            self._store.write(view, decisions.made, large=large)
            # A decision that is marked as returned is not answered again: its verdict must be out of this process before.
            if self._replies.flush(APPEND_TIMEOUT_S):
                raise LogUnreachable(f"verdicts were not acknowledged within {APPEND_TIMEOUT_S:g} s")
            reach("projector.before_commit")
        for _, now in moves:
            self._positions[now.partition] = now
        self._unwritten.clear()
        self._to_tell = []
        self._log_turn(decisions)
        self._watch.committed(view.changes, decisions.made, time.monotonic() - began)
        view.next_turn()
        if decisions.made:
            reach("projector.committed")
            self._append([decision.event for decision in decisions.made])
            reach("projector.appended")
        for asked in decisions.again:
            self._answer_again(asked)

    def _reached(self) -> set[int]:
        """Partitions that decide from now on: all that have caught up, together if the slowest takes no longer than a moment."""
        if self._catching_up:
            reached = {one for one in self._catching_up if self._next_offset(one) >= self._ends[one]}
            self._look_closer(self._catching_up - reached)
            self._tell(reached - self._told)
        else:
            reached = set()
        if not self._others_caught_up:
            # Once is enough: whatever is dispatched after that stands in the tables and the outbox before it is dispatched.
            self._others_caught_up = self._have_others_caught_up()
        together = reached == self._catching_up and self._others_caught_up and not self._stopped
        if not together and time.monotonic() < self._began + TOGETHER_S:
            return set()
        return reached

    def _look_closer(self, behind: set[int]) -> None:
        """A partition that stood still for a second may have no record any more before its end."""
        if not behind or time.monotonic() < self._look_closer_at:
            return
        stands = {one: self._next_offset(one) for one in behind}
        still = {one: offset for one, offset in stands.items() if self._stood.get(one) == offset}
        for one in self._reader.without_records(still) if still else ():
            self._ends[one] = stands[one]
        self._stood, self._look_closer_at = stands, time.monotonic() + LOOK_CLOSER_S

    def _tell(self, reached: set[int]) -> None:
        """Has the others know that the tables hold what stood on the log of *reached*."""
        if not reached:
            return
        self.flush()
        self._store.mark_caught_up([self._positions[one] for one in sorted(reached)])
        self._told |= reached
        self._membership.look()

    def _have_others_caught_up(self) -> bool:
        seen = self._membership.seen
        others = set(range(self._count)) - self._positions.keys()
        return all(one in seen.places and seen.places[one].caught_up and not seen.is_free(one) for one in others)

    def _next_offset(self, partition: int) -> int:
        record = self._unwritten.get(partition)
        return self._positions[partition].next_offset if record is None else record.offset + 1

    def _moves(self, reached: set[int]) -> list[tuple[Position, Position]]:
        moves = []
        # Without a record the positions are compared all the same: whoever decides must own the partition.
        for partition in sorted({*self._unwritten, *reached, *(one.partition for one in self._to_tell)}):
            was, record = self._positions[partition], self._unwritten.get(partition)
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

    def _wanted(self, items: Sequence[Item], missing: Sequence[RouteKey], settling: Sequence[RouteKey]) -> Wanted:
        """What the transaction looks up: routes, and for claims that may be decided where else their ids are known."""
        view = self._view
        waiting = [one.entry for one in view.waiting.values() if self._ready(one.entry.position.partition)]
        keys = [*missing, *settling, *((entry.event.tenant_id, entry.event.route) for entry in waiting)]
        keys += [(one.tenant_id, policy_route(one.key)) for one in self._to_tell]
        read = [item.what for item in items if isinstance(item.what, ev.Entry) and self._ready(item.what.position.partition)]
        claims: dict[ClaimKey, None] = {}
        ids: dict[tuple[str, str], None] = {}
        tenants = {one.tenant_id for one in self._to_tell}
        references: dict[str, None] = {}
        for entry in [*waiting, *read]:
            event, claim = entry.event, claim_in(entry.event)
            if claim is None or event.operation_id is None:
                continue
            held = view.routes.get((event.tenant_id, event.route))
            known = None if held is None else held.route.operations.get(event.operation_id)
            tenants.add(event.tenant_id)
            if event.operation_id.startswith(COMPENSATE):
                given = (
                    event.stored_args if isinstance(event, ev.OperationPrepared) else None,
                    None if known is None else known.stored_args,
                )
                references |= dict.fromkeys(one for text in given for one in possible_references(text))
            if held is None or known is not None:
                claims[event.tenant_id, event.route, event.operation_id, claim.claim_id] = None
            if known is None or not known.attempts:
                ids[event.tenant_id, event.operation_id] = None
        routes = dict.fromkeys(key for key in keys if key not in view.routes)
        return Wanted(
            routes=list(routes),
            operation_ids=list(ids),
            claims=list(claims),
            tenants=frozenset(tenants),
            references=tuple(references),
        )

    def _ready(self, partition: int) -> bool:
        return partition not in self._catching_up

    def _claimed(self) -> list[Claimed]:
        """What the claims that are decided now may need room for."""
        found: dict[Claimed, None] = {}
        for tenant_id, route, operation_id, _ in [
            key for key, one in self._view.waiting.items() if self._ready(one.entry.position.partition)
        ]:
            operation = self._view.ahead((tenant_id, route)).operation(operation_id)
            if operation_id:
                found[Claimed(tenant_id, route, operation.effect_type or "", operation.resources)] = None
        return list(found)

    def _decide(self, looked_up: LookedUp, rooms: Rooms) -> Decisions:
        decider = Decider(
            self._view,
            now_ms=looked_up.now_ms,
            ready=self._ready,
            all_ready=self.all_ready,
            numbers=self._numbers,
            known_under=looked_up.known_under,
            decided_before=looked_up.decided_before,
            policies=looked_up.policies,
            policies_whole=looked_up.policies_whole or self.all_ready,
            rooms=rooms,
            partitions=self._count,
            on_record=looked_up.on_record,
        )
        if self._to_tell:
            decider.tell(self._store.breaker_events(self._to_tell, looked_up))
        return decider.run()

    # ---- answers ------------------------------------------------------------------------------------------------------

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
                _LOG.info(
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
        for reason, entry in [*changes.alarms, *decisions.defects]:
            event = entry.event
            _LOG.error(
                reason,
                action="event_alarmed",
                tenant_id=event.tenant_id,
                route=event.route,
                operation_id=event.operation_id,
                event_id=event.event_id,
                partition=entry.position.partition,
                offset=entry.position.offset,
            )
        for row in changes.refused:
            _LOG.warning("record refused", action="record_refused", partition=row[0], offset=row[1], reason=row[2], froze=row[8])
        _LOG.debug(
            "turn",
            action="projector_turn",
            events=len(changes.events),
            decisions=len(decisions.made),
        )
