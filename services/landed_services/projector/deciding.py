"""Decisions about what a batch left open: claims, group transitions, and what follows from them. Pure.

They are made against the fold plus the decisions on their way, and change nothing by themselves: each is an event for the outbox,
and becomes state when it comes back through the log.

Source: docs/semantics.md §1, §5, §8; docs/architecture.md §3.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from landed.adapters import authorizing
from landed.adapters.postgres.routes import RouteKey
from landed.core import events as ev
from landed.core.approvals import request_of
from landed.core.asked import OnRecord, authorization_event, authorized, is_to_be_authorized, possible_references
from landed.core.contract import Contract, readable_contract
from landed.core.decide import Facts, Granted, Refused, decide
from landed.core.fold import fold
from landed.core.policy import CEILING, COMPENSATION, EVERY, NO_POLICIES, TOOL, Policies, policy_route
from landed.core.projection import claim_in, consequences, decision_event, unwinding_event
from landed.core.state import Operation, Route, is_settled
from landed.core.surge import Counted, Opened
from landed.core.verdict import Verdict, verdict_from_state
from landed.core.vocabulary import Decision, Refusal, State
from landed.wire.codec import encode
from landed.wire.errors import EncodeError
from landed.wire.ids import with_event_id
from landed.wire.partition import partition_for
from landed.wire.records import RECORD_BYTES_MAX
from landed_services.projector.batch import ClaimKey, OnItsWay, Recheck, View, Waiting, is_open
from landed_services.projector.rooms import NO_ROOMS, Rooms

_NOT_YET: Final = -1
"""Offset of a decision that is not on the log yet."""
_LAST: Final = 2**63 - 1


class KnownUnder(NamedTuple):
    """A route under which an operation id has an intent, as the tables show it."""

    route: str
    partition: int
    first_offset: int
    prepared_at_ms: int | None
    dispatched: bool


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision for the outbox."""

    partition: int
    number: int
    event: ev.Event
    value: bytes
    """The event as it will stand on the log."""
    decided_at_ms: int
    claim_id: str | None = None
    reply_to: str | None = None
    claim_offset: int | None = None


class AskedAgain(NamedTuple):
    """A claim that was decided before: it gets the same answer again (§1)."""

    key: RouteKey
    operation_id: str
    claim: ev.Claim


class Decisions(msgspec.Struct, kw_only=True):
    made: list[Decided] = []
    again: list[AskedAgain] = []
    verdicts: list[Verdict] = []
    """Answers that need no decision: what the state now says to a claim whose grant the fold refused."""
    defects: list[tuple[str, ev.Entry]] = []


class Decider:
    """Makes the decisions of one turn.

    Args:
        now_ms: the clock of the database.
        ready: whether decisions are made for a partition.
        all_ready: whether every partition has caught up, so that facts across routes are whole.
        numbers: number of the last decision of each partition; counted on.
        known_under: where else the tables know the operation ids of claims, by tenant and id.
        decided_before: claims that the outbox holds a decision of.
        policies: by tenant; one that is not among them has none.
        policies_whole: whether the tables hold every policy that stood on the log.
        rooms: what is used of the ceilings that apply to claims, and who holds the resources that they need.
        partitions: how many the log has.
        on_record: by possible reference of a claimed inverse, the operations of any tenant that have it on record.
    """

    def __init__(
        self,
        view: View,
        *,
        now_ms: int,
        ready: Callable[[int], bool],
        all_ready: bool,
        numbers: dict[int, int],
        known_under: Mapping[tuple[str, str], list[KnownUnder]],
        decided_before: frozenset[ClaimKey] = frozenset(),
        policies: Mapping[str, Policies] = MappingProxyType({}),
        policies_whole: bool = True,
        rooms: Rooms = NO_ROOMS,
        partitions: int = 1,
        on_record: Mapping[str, list[OnRecord]] = MappingProxyType({}),
    ) -> None:
        self._on_record = on_record
        self._view = view
        self._now_ms = now_ms
        self._ready = ready
        self._all_ready = all_ready
        self._numbers = numbers
        self._known_under = known_under
        self._decided_before = decided_before
        self._policies = policies
        self._policies_whole = policies_whole
        self._rooms = rooms
        self._partitions = partitions
        self._opened: tuple[Opened, ...] = ()
        """Ceilings that the claim at hand found without room."""
        self._found = Decisions()

    def run(self) -> Decisions:
        """Everything that is to be decided now, in the order in which it is appended."""
        view = self._view
        for recheck in view.changes.rechecks:
            self._found.verdicts += self._by_state(recheck)
        for waits, waiting in [one for one in view.waiting.items() if self._ready(one[1].entry.position.partition)]:
            del view.waiting[waits]
            view.forget(waiting)
            if isinstance(waiting.entry.event, ev.UnwindRequested):
                self._unwind(waiting)
            else:
                self._claim(waits, waiting)
        for key, (partition, names) in view.changes.touched.items():
            if self._ready(partition):
                for event in consequences(view.ahead(key), tuple(sorted(names)), now_ms=self._now_ms):
                    self._propose(key, partition, event)
        return self._found

    def tell(self, events: Iterable[tuple[int, ev.BreakerChanged]]) -> None:
        """Has the log know of breakers that opened or closed, each on the partition of its policy."""
        for partition, event in events:
            if self._ready(partition) and self._propose((event.tenant_id, event.route), partition, event) is None:
                self._view.changes.counting.tell(event, partition)

    # ---- claims -------------------------------------------------------------------------------------------------------

    def _claim(self, waits: ClaimKey, waiting: Waiting) -> None:
        entry = waiting.entry
        event, claim = entry.event, claim_in(entry.event)
        if claim is None or event.operation_id is None:
            return
        key, view = (event.tenant_id, event.route), self._view
        if waits in view.claims_on_their_way:
            return  # its decision is on its way, and its verdict with it
        ahead = view.ahead(key)
        operation = ahead.operation(event.operation_id)
        if claim.claim_id in operation.withdrawn:
            return  # who withdrew it waits no more
        if not is_open(operation, claim):
            if self._now_ms <= entry.at_ms + (claim.answer_by_ms - claim.asked_at_ms):
                self._found.again.append(AskedAgain(key, event.operation_id, claim))
            return
        if waits in self._decided_before:
            # Its grant came back and was refused by the fold: it gets no second decision, and the state answers it again.
            self._found.verdicts += self._by_state(
                Recheck(key=key, operation_id=event.operation_id, claim_id=claim.claim_id, reply_to=claim.reply_to, decided=entry)
            )
            return
        facts = self._facts(entry, operation, ahead)
        answer = self._decided(ahead, operation, claim, facts)
        if is_to_be_authorized(ahead, operation, answer):
            answer = self._authorized(key, entry, claim, operation, facts)
            operation = view.ahead(key).operation(event.operation_id)
        if isinstance(answer, Refused) and facts.approval_needed:
            answer = self._ask_for_approval(key, entry, claim, operation, answer, facts)
            operation = view.ahead(key).operation(event.operation_id)
        self._answer(key, entry, claim, answer, operation.version, facts.policy_version)

    def _decided(self, route: Route, operation: Operation, claim: ev.Claim, facts: Facts) -> Granted | Refused:
        try:
            return decide(route, operation.operation_id, claim, facts)
        except Exception as defect:
            # `decide` is total; should it not be for this state, nothing is waved through.
            return _unchecked(f"decision failed: {type(defect).__name__}")

    def _authorized(
        self, key: RouteKey, entry: ev.Entry, claim: ev.Claim, operation: Operation, facts: Facts
    ) -> Granted | Refused:
        """The decision about the claim of an inverse by the ruling about it, which stands right before it on the log."""
        ahead, policies = self._view.ahead(key), self._policies.get(key[0], NO_POLICIES)
        found = authorized(
            ahead,
            operation,
            claim,
            policies,
            authorizing.ask,
            now_ms=self._now_ms,
            on_record=[one for text in possible_references(operation.stored_args) for one in self._on_record.get(text, ())],
        )
        ruled = authorization_event(ahead, operation, found, group_id=entry.event.group_id)
        refused_by = self._propose(key, entry.position.partition, ruled)
        if refused_by is not None:
            return _unchecked(f"the fold would refuse the ruling: {refused_by}")
        denied = {} if found.allowed else {"authorization": Decision.DENY, "authorization_detail": found.detail}
        facts = msgspec.structs.replace(facts, **denied)
        after = self._view.ahead(key)
        return self._decided(after, after.operation(operation.operation_id), claim, facts)

    def _ask_for_approval(
        self, key: RouteKey, entry: ev.Entry, claim: ev.Claim, operation: Operation, answer: Refused, facts: Facts
    ) -> Refused:
        """Asks a person, where *answer* is for want of that; *answer* with the approval that its caller may wait for."""
        asks = request_of(operation, entry.event, claim, answer, facts)
        detail = answer.detail
        if asks is not None and self._propose(key, entry.position.partition, asks) is None:
            detail = {**detail, "approval_id": asks.approval_id}
        if answer.reason is Refusal.APPROVAL_REQUIRED and facts.approval_wait_ms and operation.operation_id:
            self._view.await_approval(key, operation.operation_id, claim, until_ms=self._now_ms + facts.approval_wait_ms)
        return msgspec.structs.replace(answer, detail=detail)

    def _answer(
        self,
        key: RouteKey,
        entry: ev.Entry,
        claim: ev.Claim,
        answer: Granted | Refused,
        version: int,
        policy_version: str | None = None,
    ) -> None:
        event = decision_event(entry, answer, policy_version=policy_version, version=version)
        place = entry.position
        refused_by = self._propose(
            key,
            place.partition,
            event,
            claim_id=claim.claim_id,
            reply_to=claim.reply_to,
            claim_offset=place.offset,
            claimed_at_ms=entry.at_ms,
        )
        if refused_by is None:
            self._count(key, event, answer)
            return
        if isinstance(answer, Granted):
            instead = _unchecked(f"the fold would refuse the grant: {refused_by}")
            if answer.observe is not None:
                # Observe mode: what the fold does not grant is recorded as refused, and the caller goes on all the same (§10).
                instead = msgspec.structs.replace(answer.observe, observe=True)
            self._answer(key, entry, claim, instead, version, policy_version)
        else:
            self._found.defects.append((f"refusal_not_recorded: {refused_by}", entry))

    def _count(self, key: RouteKey, event: ev.Event, answer: Granted | Refused) -> None:
        """Takes room for a grant, and notes the ceilings that had none."""
        counting = self._view.changes.counting
        if isinstance(event, ev.DispatchGranted):
            effect_type = self._view.ahead(key).operation(event.operation_id or "").effect_type or ""
            counting.granted(event, effect_type)
            self._rooms.took(event, effect_type, self._now_ms)
        if isinstance(answer, Granted) or answer.reason is Refusal.SURGE_EXCEEDED:
            for one in self._opened:
                partition = partition_for(key[0], policy_route(one.key), self._partitions)
                counting.found_full(key[0], one, partition=partition, route=key[1], now_ms=self._now_ms)
        if isinstance(answer, Refused) and answer.reason is Refusal.SURGE_EXCEEDED:
            refusing = next(one.key for one in self._opened if one.breaker.action == "deny")
            route = self._view.ahead(key)
            counting.refusals.append((key[0], refusing, route.operation(event.operation_id or "").tool, route.workflow_type))

    def _surge(self, policies: Policies, operation: Operation, route: Route) -> tuple[Counted, dict[str, str], str | None]:
        """Room in the ceilings that apply, holders of the resources that are needed, and what of it could not be checked."""
        effect_type = operation.effect_type or ""
        ceilings = policies.ceilings(effect_type)
        broken = policies.unreadable_for(CEILING + EVERY, CEILING + effect_type) if policies.unreadable else None
        if not ceilings and not operation.resources and broken is None:
            return Counted(), {}, None

        def is_over(other: str, operation_id: str) -> bool:
            there = (route.tenant_id, other)
            return there in self._view.routes and is_settled(self._view.ahead(there).operation(operation_id))

        tenant_id, name = route.tenant_id, route.route
        found = self._rooms.counted(ceilings, tenant_id=tenant_id, route=name, operation=operation, is_over=is_over)
        unchecked = None
        if broken is not None:
            unchecked = f"policy {broken} cannot be read by this release"
        elif found is None or not self._rooms.knows(tenant_id=tenant_id, operation=operation):
            unchecked = "what is used of the ceilings"
        elif not self._all_ready:
            unchecked = "grants of partitions that are catching up"
        holders = self._rooms.busy(tenant_id=tenant_id, route=name, operation=operation, is_over=is_over)
        return found or Counted(), holders, unchecked

    def _facts(self, entry: ev.Entry, operation: Operation, route: Route) -> Facts:
        event = entry.event
        prepared = event if isinstance(event, ev.OperationPrepared) else None
        known_route = unavailable = None
        if not operation.attempts:
            known_route = self._other_route(route, operation, entry)
            unavailable = None if self._all_ready else "operation ids of partitions that are catching up"
        policies = self._policies.get(event.tenant_id, NO_POLICIES)
        tool = operation.tool or (prepared.tool if prepared is not None else "")
        rules = policies.rules(tool)
        if not self._policies_whole:
            unavailable = "policies of partitions that are catching up"
        elif policies.unreadable and (key := policies.unreadable_for(TOOL + EVERY, TOOL + tool)) is not None:
            unavailable = f"policy {key} cannot be read by this release"
        elif operation.is_inverse and COMPENSATION in policies.unreadable:
            unavailable = f"policy {COMPENSATION} cannot be read by this release"
        surge, holders, unchecked = self._surge(policies, operation, route)
        self._opened = surge.opened
        return Facts(
            resource_holders=holders,
            breaker=surge.breaker,
            ceilings=surge.counts,
            policy_version=rules.version,
            tool_disabled=rules.disabled,
            approval_needed=rules.approval,
            approval_wait_ms=rules.approval_wait_ms,
            approval_lifetime_ms=rules.approval_lifetime_ms,
            four_eyes=rules.four_eyes,
            observe=rules.observe,
            now_ms=self._now_ms,
            claimed_at_ms=entry.at_ms,
            known_route=known_route,
            presented_contract=_contract(prepared),
            presented_hash=prepared.request_hash if prepared is not None else None,
            presented_digests=prepared.argument_digests if prepared is not None else {},
            unavailable=unavailable or unchecked,
        )

    def _other_route(self, route: Route, operation: Operation, entry: ev.Entry) -> str | None:
        """Route under which the id belongs to another operation: one that was ever dispatched, else the one prepared first."""
        tenant_id, operation_id = route.tenant_id, operation.operation_id
        stored = self._view.routes[(tenant_id, route.route)]
        place = stored.places.get(operation_id)
        offset = place.first_offset if place is not None else entry.position.offset
        mine = (_never(operation.prepared_at_ms), entry.position.partition, offset)
        for other in self._others(tenant_id, operation_id, route.route):
            if other.dispatched or (_never(other.prepared_at_ms), other.partition, other.first_offset) < mine:
                return other.route
        return None

    def _others(self, tenant_id: str, operation_id: str, own: str) -> Iterator[KnownUnder]:
        view, seen = self._view, {own}
        names = [route for _, route in view.changes.prepared.get((tenant_id, operation_id), ())]
        tables = self._known_under.get((tenant_id, operation_id), ())
        for name in [*names, *(one.route for one in tables)]:
            key = (tenant_id, name)
            if name not in seen and key in view.routes:
                # What is held is newer than the tables, and knows the grants on their way.
                seen.add(name)
                operation, place = view.ahead(key).operation(operation_id), view.routes[key].places.get(operation_id)
                if operation.state is not State.NONE and place is not None:
                    yield KnownUnder(
                        name, place.partition, place.first_offset, operation.prepared_at_ms, bool(operation.attempts)
                    )
        for one in tables:
            if one.route not in seen:
                seen.add(one.route)
                on_its_way = view.on_their_way.get((tenant_id, one.route), {}).values()
                granted = any(
                    isinstance(decision.entry.event, ev.DispatchGranted) and decision.entry.event.operation_id == operation_id
                    for decision in on_its_way
                )
                yield one._replace(dispatched=one.dispatched or granted)

    def _by_state(self, recheck: Recheck) -> Iterator[Verdict]:
        """What the state now says to a claim whose decision the fold refused."""
        ahead = self._view.ahead(recheck.key)
        operation = ahead.operation(recheck.operation_id)
        event = recheck.decided.event
        lease_ms = event.lease_ms if isinstance(event, ev.DispatchGranted) else 1
        claim = ev.Claim(
            claim_id=recheck.claim_id,
            request_hash=operation.request_hash or "",
            worker="",
            reply_to=recheck.reply_to,
            lease_ms=lease_ms,
            asked_at_ms=0,
            answer_by_ms=0,
        )
        answer = self._decided(ahead, operation, claim, Facts(now_ms=self._now_ms, claimed_at_ms=self._now_ms))
        if isinstance(answer, Granted):
            answer = _unchecked("the fold refused the grant of this claim: claim anew")
        yield verdict_from_state(operation, answer, tenant_id=recheck.key[0], claim=claim, at_ms=recheck.decided.at_ms)

    # ---- groups -------------------------------------------------------------------------------------------------------

    def _unwind(self, waiting: Waiting) -> None:
        entry = waiting.entry
        key = (entry.event.tenant_id, entry.event.route)
        event = unwinding_event(self._view.ahead(key), entry)
        if event is None:
            return
        partition = entry.position.partition
        self._propose(key, partition, event)
        # What follows is decided when the transition has come back: only then does the group unwind.

    # ---- the outbox ---------------------------------------------------------------------------------------------------

    def _propose(
        self,
        key: RouteKey,
        partition: int,
        bare: ev.Event,
        *,
        claim_id: str | None = None,
        reply_to: str | None = None,
        claim_offset: int | None = None,
        claimed_at_ms: int | None = None,
    ) -> str | None:
        """Takes the decision *bare* into the outbox; the reason when the fold would refuse it, and then nothing is taken."""
        view = self._view
        event, value = _on_the_log(bare)
        overlay = ev.Entry(
            event=event,
            position=ev.Position(partition=partition, offset=_NOT_YET),
            at_ms=self._now_ms,
            digest=hashlib.sha256(value).hexdigest(),
        )
        folded = fold(view.ahead(key), overlay)
        if not folded.accepted:
            return folded.reason or "repeated"
        number = self._numbers[partition] = self._numbers.get(partition, 0) + 1
        view.sent(
            key,
            OnItsWay(
                partition=partition,
                number=number,
                entry=overlay,
                claim_id=claim_id,
                reply_to=reply_to,
                claimed_at_ms=claimed_at_ms,
            ),
            folded.route,
        )
        self._found.made.append(
            Decided(
                partition=partition,
                number=number,
                event=event,
                value=value,
                decided_at_ms=self._now_ms,
                claim_id=claim_id,
                reply_to=reply_to,
                claim_offset=claim_offset,
            )
        )
        return None


def _on_the_log(bare: ev.Event) -> tuple[ev.Event, bytes]:
    """The event with its id and its bytes. A refusal whose details do not fit into a record goes without them."""
    try:
        event = with_event_id(bare)
        value = encode(event)
        if len(value) <= RECORD_BYTES_MAX:
            return event, value
    except EncodeError:
        if not isinstance(bare, ev.DispatchRefused) or not bare.detail:
            raise
    if not isinstance(bare, ev.DispatchRefused) or not bare.detail:
        raise EncodeError("event", f"must be at most {RECORD_BYTES_MAX} bytes encoded")
    return _on_the_log(msgspec.structs.replace(bare, detail={}))


def _unchecked(what: str) -> Refused:
    return Refused(reason=Refusal.LEDGER_UNAVAILABLE, detail={"unchecked": what})


def _contract(event: ev.OperationPrepared | None) -> Contract | None:
    return None if event is None or event.contract is None else readable_contract(event.contract)


def _never(at_ms: int | None) -> int:
    return _LAST if at_ms is None else at_ms


__all__ = ["AskedAgain", "Decided", "Decider", "Decisions", "KnownUnder"]
