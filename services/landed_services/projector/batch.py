"""Folding a batch of the log over the routes it touches, in memory: the rows that change and what awaits a decision. Pure.

`View` is the part of the view that a projector holds while it owns its partitions. It is built by folding alone, so it may be
thrown away at any moment and loaded again from the tables. `deciding.py` makes the decisions; `store.py` writes what changed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from landed.adapters.postgres.escaping import escaped
from landed.adapters.postgres.news import TELLS_OF_NEWS, news_row
from landed.adapters.postgres.routes import RouteKey, StoredRoute
from landed.adapters.postgres.rows import Place, Row, has_row, operation_row, route_row
from landed.core import events as ev
from landed.core.fold import DUPLICATE_ID, Folded, empty_route, fold, freeze
from landed.core.projection import awaits_decision, claim_in, is_decision
from landed.core.state import POLICY_ROUTE, Operation, Route
from landed.core.verdict import Verdict, approval_news, verdict_of
from landed_services.metrics import Applied
from landed_services.projector.counting import COUNTED, Counting
from landed_services.projector.reading import KEY_BYTES_KEPT, Freezing, Item, Refused, first_bytes

OPERATIONS_HELD: Final = 200_000
"""Operations kept in memory between batches; the least recently touched routes go first."""

APPROVALS_AWAITED: Final = 10_000
"""Operations whose callers are told at once when a person decided; the others hear it when they ask again."""

ClaimKey = tuple[str, str, str, str]
"""Tenant, route, operation, claim."""


class OnItsWay(msgspec.Struct, frozen=True, kw_only=True):
    """A decision in the outbox that has not come back through the log."""

    partition: int
    number: int
    entry: ev.Entry
    """The decision as if it stood on the log now: claims are decided against the fold plus these."""
    claim_id: str | None = None
    reply_to: str | None = None
    claimed_at_ms: int | None = None
    """When the claim was appended; None after a restart."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, or a request to unwind, that is folded and not decided."""

    entry: ev.Entry
    stored: bool
    """Whether it has a row in `undecided`."""


class Recheck(msgspec.Struct, frozen=True, kw_only=True):
    """A claim whose grant the fold refused: it is answered with what the state now says (§5)."""

    key: RouteKey
    operation_id: str
    claim_id: str
    reply_to: str
    decided: ev.Entry


class Changes:
    """What one batch changes, to be written in one transaction."""

    def __init__(self) -> None:
        self.events: list[Row] = []
        self.refused: list[Row] = []
        self.news: list[Row] = []
        self.operations: dict[RouteKey, set[str]] = {}
        self.heads: set[RouteKey] = set()
        self.returned: list[tuple[int, int, int]] = []
        """Partition and number of each decision that came back, and where."""
        self.undecided: list[tuple[int, int]] = []
        self.decided: list[tuple[int, int]] = []
        """Positions that leave `undecided`."""
        self.verdicts: list[Verdict] = []
        self.answered_ms: list[int] = []
        """When the claims of these were appended, where it is known."""
        self.applied: list[Applied] = []
        self.rechecks: list[Recheck] = []
        self.touched: dict[RouteKey, tuple[int, set[str]]] = {}
        """Partition of each route that changed, and the operations that did: what decisions may follow from."""
        self.prepared: dict[tuple[str, str], list[RouteKey]] = {}
        """Where each operation id got its intent, by tenant and id."""
        self.alarms: list[tuple[str, ev.Entry]] = []
        self.counting = Counting()

    def forget_what_follows(self) -> None:
        """Drops what is there for decisions and metrics only, where neither is made."""
        self.applied.clear()
        self.touched.clear()
        self.prepared.clear()
        self.alarms.clear()


class View:
    """Routes in memory, decisions on their way, and what waits for a decision."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.routes: OrderedDict[RouteKey, StoredRoute] = OrderedDict()
        self.on_their_way: dict[RouteKey, dict[str, OnItsWay]] = {}
        """By route and event id, in the order in which they were made."""
        self.claims_on_their_way: set[ClaimKey] = set()
        self.waiting: dict[tuple[str, str, str, str], Waiting] = {}
        self._ahead: dict[RouteKey, Route] = {}
        self._held = 0
        self.has_forgotten = False
        """Whether a route was let go of that the tables hold: one that is missing may be there."""
        self._approval_awaited: dict[tuple[str, str, str], dict[str, tuple[str, int]]] = {}
        """By operation: claims whose callers wait for an approval, each with the caller's name and until when it waits. Only kept
        here: a caller that hears nothing asks again by itself."""

    # ---- routes -------------------------------------------------------------------------------------------------------

    def missing(self, items: Iterable[Item]) -> list[RouteKey]:
        """Routes of *items* that are to be loaded before they are folded."""
        keys: dict[RouteKey, None] = {}
        for item in items:
            what = item.what
            key: RouteKey
            if isinstance(what, ev.Entry):
                key = (what.event.tenant_id, what.event.route)
            elif isinstance(what, Freezing):
                key = (what.tenant_id, what.route)
            else:
                continue
            if key not in self.routes:
                keys[key] = None
        return list(keys)

    def hold(self, loaded: Mapping[RouteKey, StoredRoute]) -> None:
        """Takes routes as the tables hold them; one that is held already stays as it is."""
        for key, stored in loaded.items():
            if key not in self.routes:
                self.routes[key] = stored
                self._held += len(stored.route.operations)

    def hold_empty(self, keys: Iterable[RouteKey]) -> None:
        """Starts routes from nothing, for a fold from the beginning of the log."""
        self.hold({key: StoredRoute(route=empty_route(*key)) for key in keys})

    def ahead(self, key: RouteKey) -> Route:
        """The route with the decisions on their way folded in."""
        ahead = self._ahead.get(key)
        if ahead is None:
            ahead = self.routes[key].route
            for decision in self.on_their_way.get(key, {}).values():
                ahead = fold(ahead, decision.entry).route
            self._ahead[key] = ahead
        return ahead

    def sent(self, key: RouteKey, decision: OnItsWay, after: Route | None = None) -> None:
        """Takes a decision that is on its way now; *after* is the route with it, where that is known."""
        event = decision.entry.event
        self.on_their_way.setdefault(key, {})[event.event_id] = decision
        if decision.claim_id is not None:
            self.claims_on_their_way.add((*key, event.operation_id or "", decision.claim_id))
        if after is None:
            self._ahead.pop(key, None)
        else:
            self._ahead[key] = after

    def next_turn(self) -> None:
        """Forgets what was written, and the routes that were not touched for longest."""
        self.changes = Changes()
        self._ahead.clear()
        while self._held > OPERATIONS_HELD and self.routes:
            _, stored = self.routes.popitem(last=False)
            self.has_forgotten = True
            self._held -= len(stored.route.operations)

    # ---- folding ------------------------------------------------------------------------------------------------------

    def fold(self, item: Item) -> None:
        """Folds one record of the log; what changed stands in `changes`."""
        match what := item.what:
            case ev.Entry():
                self._fold_entry(item, what)
            case Freezing():
                self._freeze(item, what)
            case Refused():
                self._keep_aside(item, what.reason, what.field, what.at_ms, what.digest, froze=False)
            case _:
                pass

    def _fold_entry(self, item: Item, entry: ev.Entry) -> None:
        event = entry.event
        key = (event.tenant_id, event.route)
        stored = self.routes[key]
        before = stored.route
        try:
            folded = fold(before, entry)
        except Exception as defect:
            # The fold is total; should it not be for this event, one operation stops and not a partition.
            self.changes.alarms.append((f"fold_failed: {type(defect).__name__}", entry))
            self._freeze(item, _frozen_by(entry))
            return
        self._keep_event(item, entry, folded)
        if isinstance(event, TELLS_OF_NEWS) and (news := news_row(entry)) is not None:
            self.changes.news.append(news)
        if isinstance(event, COUNTED):
            self.changes.counting.folded(entry, folded, has_rows=self._has_rows(key, event))
        if folded.accepted:
            self.changes.applied.append(Applied(entry, before, folded))
        if folded.reason == DUPLICATE_ID:
            self.changes.alarms.append((DUPLICATE_ID, entry))
        if folded.route is not before:
            self._changed(key, stored, folded, entry)
        self._follow(key, entry, folded, before)

    def _has_rows(self, key: RouteKey, event: ev.Event) -> bool:
        """Whether *event* is a decision of this session, which wrote the rows of it then; those of an earlier one may be gone
        since, with a rebuild."""
        decision = self.on_their_way.get(key, {}).get(event.event_id) if self.on_their_way else None
        return decision is not None and decision.claimed_at_ms is not None

    def _keep_event(self, item: Item, entry: ev.Entry, folded: Folded) -> None:
        event, record = entry.event, item.record
        operation_id, route = event.operation_id, escaped(event.route)
        self.changes.events.append(
            (
                record.partition,
                record.offset,
                escaped(event.event_id),
                escaped(event.tenant_id),
                route,
                route if operation_id == event.route else escaped(operation_id),
                ev.TYPE_OF[type(event)],
                entry.at_ms,
                folded.accepted,
                "repeated" if folded.repeated else folded.reason,
                None if folded.mark is None else folded.mark.value,
                bytes.fromhex(entry.digest),
                record.value or b"",
            )
        )

    def _changed(self, key: RouteKey, stored: StoredRoute, folded: Folded, entry: ev.Entry) -> None:
        self._place(key, stored, folded.route, folded.touched, entry.position, entry.at_ms)
        event = entry.event
        if isinstance(event, ev.OperationPrepared) and folded.accepted and event.operation_id is not None:
            self.changes.prepared.setdefault((key[0], event.operation_id), []).append(key)

    def _place(
        self, key: RouteKey, stored: StoredRoute, after: Route, touched: Iterable[str], position: ev.Position, at_ms: int | None
    ) -> None:
        before, partition, offset = stored.route, position.partition, position.offset
        names = self.changes.operations.get(key)
        if names is None:
            names = self.changes.operations[key] = set()
        for name in touched:
            known = stored.places.get(name)
            stored.places[name] = Place(partition, offset if known is None else known.first_offset, offset, at_ms)
            names.add(name)
        if (
            after.group_state is not before.group_state
            or after.version != before.version
            or after.seen is not before.seen
            or after.frozen_at is not before.frozen_at
        ):
            stored.head_place = Place(partition, offset, offset, at_ms)
            self.changes.heads.add(key)
        self._held += len(after.operations) - len(before.operations)
        stored.route = after
        if self._ahead:
            self._ahead.pop(key, None)
        self.routes.move_to_end(key)
        dirty = self.changes.touched.get(key)
        if dirty is None:
            self.changes.touched[key] = (partition, set(touched))
        else:
            dirty[1].update(touched)

    def _follow(self, key: RouteKey, entry: ev.Entry, folded: Folded, before: Route) -> None:
        """What the event asks to decide, or answers."""
        event = entry.event
        if is_decision(event):
            self._decided_on_log(key, entry, folded)
        elif self.on_their_way and event.event_id in self.on_their_way.get(key, ()):
            self._returned(key, entry)
        if (claim := claim_in(event)) is not None and event.operation_id is not None:
            self._await((*key, event.operation_id, claim.claim_id), entry)
        elif isinstance(event, ev.UnwindRequested) and folded.accepted:
            self._await((*key, "", event.event_id), entry)
        elif isinstance(event, ev.DispatchReleased) and folded.accepted and event.operation_id is not None:
            self._settle((*key, event.operation_id, event.claim_id))
        elif isinstance(event, ev.ApprovalDecided) and folded.accepted and event.operation_id is not None:
            self._approval_decided(key, folded.route.operation(event.operation_id), entry)

    def await_approval(self, key: RouteKey, operation_id: str, claim: ev.Claim, *, until_ms: int) -> None:
        """The caller of *claim* was refused for want of an approval, and waits for one."""
        if len(self._approval_awaited) >= APPROVALS_AWAITED:
            self._approval_awaited.pop(next(iter(self._approval_awaited)))
        self._approval_awaited.setdefault((*key, operation_id), {})[claim.claim_id] = (claim.reply_to, until_ms)

    def _approval_decided(self, key: RouteKey, operation: Operation, entry: ev.Entry) -> None:
        """Tells those who wait: they claim anew, and that claim is decided like any other."""
        for claim_id, (reply_to, until_ms) in self._approval_awaited.pop((*key, operation.operation_id), {}).items():
            if entry.at_ms <= until_ms:
                self.changes.verdicts.append(approval_news(operation, entry, claim_id=claim_id, reply_to=reply_to))

    def _await(self, waits: ClaimKey, entry: ev.Entry) -> None:
        if waits not in self.waiting and waits not in self.claims_on_their_way:
            self.waiting[waits] = Waiting(entry=entry, stored=False)

    def _settle(self, waits: ClaimKey) -> None:
        waiting = self.waiting.pop(waits, None)
        if waiting is not None:
            self.forget(waiting)

    def forget(self, waiting: Waiting) -> None:
        """*waiting* is decided, or nothing is to be decided about it any more."""
        if waiting.stored:
            place = waiting.entry.position
            self.changes.decided.append((place.partition, place.offset))

    def _decided_on_log(self, key: RouteKey, entry: ev.Entry, folded: Folded) -> None:
        """A decision stands on the log, accepted or not: its claim is decided (§2)."""
        event = entry.event
        assert isinstance(event, ev.DispatchGranted | ev.DispatchRefused)
        operation_id = event.operation_id or ""
        self._settle((*key, operation_id, event.claim_id))
        decision = self._returned(key, entry)
        if decision is None or folded.repeated:
            return
        self.claims_on_their_way.discard((*key, operation_id, event.claim_id))
        reply_to = decision.reply_to or ""
        operation = folded.route.operation(operation_id)
        verdict = verdict_of(
            operation, entry, claim=_addressed(event.claim_id, reply_to), accepted=folded.accepted, route=folded.route
        )
        if verdict is not None and folded.accepted:
            self.changes.verdicts.append(verdict)
            if decision.claimed_at_ms is not None:
                self.changes.answered_ms.append(decision.claimed_at_ms)
        else:
            self.changes.rechecks.append(
                Recheck(key=key, operation_id=operation_id, claim_id=event.claim_id, reply_to=reply_to, decided=entry)
            )

    def _returned(self, key: RouteKey, entry: ev.Entry) -> OnItsWay | None:
        if not self.on_their_way:
            return None
        here = self.on_their_way.get(key)
        decision = here.pop(entry.event.event_id, None) if here else None
        if here is not None and not here:
            del self.on_their_way[key]
        if decision is not None:
            self.changes.returned.append((decision.partition, decision.number, entry.position.offset))
            self._ahead.pop(key, None)
        return decision

    # ---- what is not taken --------------------------------------------------------------------------------------------

    def _freeze(self, item: Item, what: Freezing) -> None:
        record, key = item.record, (what.tenant_id, what.route)
        stored, position = self.routes[key], ev.Position(partition=record.partition, offset=record.offset)
        names = [what.operation_id] if what.operation_id is not None else list(stored.route.operations)
        after = freeze(stored.route, what.operation_id, position)
        if after is not stored.route:
            self._place(key, stored, after, names, position, what.at_ms)
        self.changes.events.append(
            (
                record.partition,
                record.offset,
                escaped(what.event_id),
                escaped(what.tenant_id),
                escaped(what.route),
                escaped(what.operation_id),
                what.type,
                what.at_ms,
                False,
                what.reason,
                None,
                bytes.fromhex(what.digest),
                record.value or b"",
            )
        )
        self._keep_aside(item, what.reason, what.field, what.at_ms, what.digest, froze=True)

    def _keep_aside(self, item: Item, reason: str, field: str, at_ms: int | None, digest: str, *, froze: bool) -> None:
        record = item.record
        key = None if record.key is None else record.key[:KEY_BYTES_KEPT]
        self.changes.refused.append(
            (
                record.partition,
                record.offset,
                reason,
                escaped(field),
                at_ms,
                bytes.fromhex(digest),
                key,
                first_bytes(record),
                froze,
            )
        )

    # ---- rows ---------------------------------------------------------------------------------------------------------

    @property
    def policies_changed(self) -> bool:
        """Whether the batch changed a policy."""
        return any(route.startswith(POLICY_ROUTE) for _, route in self.changes.heads)

    def operation_rows(self) -> list[Row]:
        """Rows of the operations that changed."""
        rows = []
        for key, names in self.changes.operations.items():
            stored = self.routes[key]
            rows += [operation_row(stored.route, stored.route.operations[name], stored.places[name]) for name in names]
        return rows

    def route_rows(self) -> list[Row]:
        """Rows of the routes whose groups changed."""
        rows = []
        for key in self.changes.heads:
            stored = self.routes[key]
            if stored.head_place is not None and has_row(stored.route):
                rows.append(route_row(stored.route, stored.head_place))
        return rows

    def keep_undecided(self) -> None:
        """Gives a row to each new event that waits longer than its batch, so that a restart finds it."""
        for key, waiting in self.waiting.items():
            if not waiting.stored:
                place = waiting.entry.position
                self.changes.undecided.append((place.partition, place.offset))
                self.waiting[key] = Waiting(entry=waiting.entry, stored=True)

    def wait_again(self, entries: Iterable[ev.Entry]) -> None:
        """Takes up what the tables say waits for a decision."""
        for entry in entries:
            event = entry.event
            claim = claim_in(event)
            name = claim.claim_id if claim is not None else event.event_id
            self.waiting[(event.tenant_id, event.route, event.operation_id or "", name)] = Waiting(entry=entry, stored=True)


def is_open(operation: Operation, claim: ev.Claim) -> bool:
    """Whether *claim* is neither decided nor withdrawn."""
    return awaits_decision(operation, claim)


def _addressed(claim_id: str, reply_to: str) -> ev.Claim:
    """The part of a claim that its verdict needs; after a restart no more is known."""
    return ev.Claim(claim_id=claim_id, request_hash="", worker="", reply_to=reply_to, lease_ms=0, asked_at_ms=0, answer_by_ms=0)


def _frozen_by(entry: ev.Entry) -> Freezing:
    event = entry.event
    return Freezing(
        tenant_id=event.tenant_id,
        route=event.route,
        operation_id=event.operation_id,
        event_id=event.event_id,
        type=ev.TYPE_OF[type(event)],
        reason="fold_failed",
        field="",
        at_ms=entry.at_ms,
        digest=entry.digest,
    )


Ready = Callable[[int], bool]
"""Whether decisions are made for a partition: it has caught up."""
