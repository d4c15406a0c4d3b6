"""The projector of the in-memory ledger: folds entries in order, decides claims, and says what follows, with the core alone.

It holds what the tables of a real projector hold, as values: so a copy of `Tables` is a snapshot, and reading the log again from
any place changes nothing that was read before.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from landed.adapters import authorizing
from landed.core import events as ev
from landed.core.approvals import request_of
from landed.core.asked import Authorized, OnRecord, authorization_event, authorized, is_to_be_authorized, possible_references
from landed.core.contract import readable_contract
from landed.core.decide import Facts, Granted, Refused, decide
from landed.core.fold import empty_route, fold, freeze
from landed.core.policy import Policies, ToolRules, policies_of
from landed.core.projection import awaits_decision, claim_in, consequences, decision_event, unwinding_event
from landed.core.state import Operation, Route, is_settled
from landed.core.surge import Grant, counted
from landed.core.verdict import Verdict, approval_news, verdict_from_state, verdict_of
from landed.core.vocabulary import Decision, Refusal
from landed.ports import Clock
from landed.wire.ids import with_event_id

Put = Callable[[ev.Event], ev.Entry]
"""Appends a decision to the log; gives it at its place."""


class Tables(msgspec.Struct, kw_only=True):
    """What the projector has made of the log so far."""

    next_offset: int = 0
    routes: dict[tuple[str, str], Route] = {}
    route_of: dict[tuple[str, str], str] = {}
    """Route under which an operation id of a tenant was seen first."""
    holders: dict[tuple[str, str], tuple[str, str]] = {}
    """Route and operation that were granted each resource last."""
    grants: list[Grant] = []
    """Grants that ceilings count, in order."""
    counted: set[tuple[str, str, str, str]] = set()
    """Tenant, route, operation and claim of each: the first decision about a claim takes room, a second one no more."""
    refused: dict[int, str] = {}
    """Reason of each event that the fold refused, by offset."""
    awaited: dict[tuple[str, str], dict[str, str]] = {}
    """Callers that wait for an approval, by tenant and operation: name of each by its claim."""
    made: set[str] = set()
    """Ids of the decisions that were made: each is appended once."""

    def copy(self) -> "Tables":
        """These tables as they are now; values are frozen, so that is a snapshot."""
        return Tables(
            next_offset=self.next_offset,
            routes=dict(self.routes),
            route_of=dict(self.route_of),
            holders=dict(self.holders),
            grants=list(self.grants),
            counted=set(self.counted),
            refused=dict(self.refused),
            awaited={key: dict(callers) for key, callers in self.awaited.items()},
            made=set(self.made),
        )

    def route(self, tenant_id: str, route: str) -> Route:
        return self.routes.get((tenant_id, route)) or empty_route(tenant_id, route)

    def policies(self, tenant_id: str) -> Policies:
        """The tenant's policies, looked for among all its routes."""
        return policies_of(route for (tenant, _), route in self.routes.items() if tenant == tenant_id)


class _Open(NamedTuple):
    entry: ev.Entry
    claim: ev.Claim


class MemoryProjector:
    """Reads the log, decides, and delivers verdicts.

    Args:
        clock: the clock that decides.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._tables = Tables()
        self.unreadable: frozenset[int] = frozenset()
        """Offsets of records that cannot be decoded: each freezes its operation (§2)."""
        self._policies: dict[str, Policies] = {}

    @property
    def tables(self) -> Tables:
        return self._tables

    @tables.setter
    def tables(self, tables: Tables) -> None:
        self._tables = tables
        self._policies.clear()

    def turn(self, entries: Iterable[ev.Entry], put: Put, *, decides: bool = True) -> list[Verdict]:
        """Folds *entries* and everything that follows from them; gives the verdicts that came of it.

        Args:
            decides: False: only folds, as a rebuild does: claims stay undecided, nothing follows.
        """
        behind, undecided, asked = deque(entries), deque[_Open](), dict[str, _Open]()
        verdicts: list[Verdict] = []
        while behind or undecided:
            if not behind:
                waits = undecided.popleft()
                behind.extend(put(event) for event in self._answers(waits))
                continue
            entry = behind.popleft()
            event = entry.event
            if entry.position.offset in self.unreadable:
                self.tables.routes[event.tenant_id, event.route] = freeze(self._route(event), event.operation_id, entry.position)
                self.tables.next_offset = max(self.tables.next_offset, entry.position.offset + 1)
                continue
            folded = fold(self._route(event), entry)
            route = self.tables.routes[event.tenant_id, event.route] = folded.route
            self.tables.next_offset = max(self.tables.next_offset, entry.position.offset + 1)
            if folded.reason is not None:
                self.tables.refused[entry.position.offset] = folded.reason
            if isinstance(event, ev.PolicyChanged):
                self._policies.pop(event.tenant_id, None)
            if isinstance(event, ev.DispatchGranted) and not folded.repeated:
                self._took(route, event, entry.at_ms, void=not folded.accepted)
            if not decides:
                continue
            if folded.accepted and isinstance(event, ev.ApprovalDecided):
                verdicts += self._heard(route, entry)
            claim = claim_in(event)
            if claim is not None and not folded.repeated and awaits_decision(route.operation(event.operation_id or ""), claim):
                asked[claim.claim_id] = _Open(entry, claim)
                undecided.append(asked[claim.claim_id])
            if isinstance(event, ev.DispatchGranted | ev.DispatchRefused) and event.claim_id in asked:
                verdicts += self._delivered(route, entry, asked[event.claim_id], accepted=folded.accepted)
            if folded.accepted:
                unwinding = unwinding_event(route, entry)
                follow = [*([] if unwinding is None else [unwinding]), *consequences(route, folded.touched, now_ms=entry.at_ms)]
                behind.extend(put(made) for made in self._once(follow))
        return verdicts

    def rebuild(self, entries: Iterable[ev.Entry]) -> None:
        """Folds *entries* into tables of their own, and decides nothing; decisions that are on the log were made."""
        before = self.tables
        self.tables = Tables(made=set(before.made), awaited=before.awaited)
        self.turn(entries, _nothing_follows, decides=False)

    # ---- what follows -------------------------------------------------------------------------------------------------

    def _once(self, events: Iterable[ev.Event]) -> Iterable[ev.Event]:
        """Each decision once: what follows from a state follows again until it has come back through the fold."""
        for event in map(with_event_id, events):
            if event.event_id not in self.tables.made:
                self.tables.made.add(event.event_id)
                yield event

    def _answers(self, waits: _Open) -> Iterable[ev.Event]:
        """The decision of an open claim, and the request for approval that may go with it."""
        event, claim = waits.entry.event, waits.claim
        route = self.tables.route(event.tenant_id, event.route)
        operation = route.operation(event.operation_id or "")
        if not awaits_decision(operation, claim):
            return
        facts = self._facts(waits, route, operation)
        answer = decide(route, operation.operation_id, claim, facts)
        asked = ruled = None
        if is_to_be_authorized(route, operation, answer):
            found = self._authorized(route, operation, claim, now_ms=facts.now_ms)
            ruled = authorization_event(route, operation, found, group_id=event.group_id)
            if not found.allowed:
                denied = replace(facts, authorization=Decision.DENY, authorization_detail=found.detail)
                answer = decide(route, operation.operation_id, claim, denied)
        if isinstance(answer, Refused):
            asked = request_of(operation, event, claim, answer, facts)
            if answer.reason is Refusal.APPROVAL_REQUIRED:
                waiting = self.tables.awaited.setdefault((route.tenant_id, operation.operation_id), {})
                waiting[claim.claim_id] = claim.reply_to
            if asked is not None:
                answer = replace(answer, detail={**answer.detail, "approval_id": asked.approval_id})
        decided = decision_event(waits.entry, answer, policy_version=facts.policy_version, version=operation.version)
        if isinstance(answer, Granted) and answer.observe is not None and not _stands(route, decided, facts.now_ms):
            # Observe mode: what the fold does not grant is recorded as refused, and the caller goes on all the same (§10).
            let_through = replace(answer.observe, observe=True)
            decided = decision_event(waits.entry, let_through, policy_version=facts.policy_version, version=operation.version)
        yield from self._once([one for one in (ruled, asked, decided) if one is not None])

    def _authorized(self, route: Route, operation: Operation, claim: ev.Claim, *, now_ms: int) -> Authorized:
        named = set(possible_references(operation.stored_args))
        return authorized(
            route,
            operation,
            claim,
            self._policies_of(route.tenant_id),
            authorizing.ask,
            now_ms=now_ms,
            on_record=[
                OnRecord(tenant_id, other.operation_id, other.tool)
                for (tenant_id, _), held in self.tables.routes.items()
                for other in held.operations.values()
                if not named.isdisjoint(reference.value for reference in other.references)
            ],
        )

    def _heard(self, route: Route, decided: ev.Entry) -> list[Verdict]:
        """Tells those who wait for an approval that somebody decided."""
        operation = route.operation(decided.event.operation_id or "")
        callers = self.tables.awaited.pop((route.tenant_id, operation.operation_id), {})
        return [approval_news(operation, decided, claim_id=name, reply_to=caller) for name, caller in callers.items()]

    def _took(self, route: Route, granted: ev.DispatchGranted, at_ms: int, *, void: bool) -> None:
        operation = route.operation(granted.operation_id or "")
        for resource in granted.resources if not void else ():
            self.tables.holders[route.tenant_id, resource] = (route.route, operation.operation_id)
        grant = Grant(
            tenant_id=route.tenant_id,
            route=route.route,
            operation_id=operation.operation_id,
            attempt=granted.attempt,
            effect_type=operation.effect_type or "",
            at_ms=at_ms if granted.decided_at_ms is None else granted.decided_at_ms,
            void=void,
        )
        name = (grant.tenant_id, grant.route, grant.operation_id, granted.claim_id)
        if name not in self.tables.counted:
            self.tables.counted.add(name)
            self.tables.grants.append(grant)

    def _route(self, event: ev.Event) -> Route:
        if event.operation_id is not None:
            self.tables.route_of.setdefault((event.tenant_id, event.operation_id), event.route)
        return self.tables.route(event.tenant_id, event.route)

    def _policies_of(self, tenant_id: str) -> Policies:
        policies = self._policies.get(tenant_id)
        if policies is None:
            policies = self._policies[tenant_id] = self.tables.policies(tenant_id)
        return policies

    # ---- facts --------------------------------------------------------------------------------------------------------

    def _facts(self, waits: _Open, route: Route, operation: Operation) -> Facts:
        event = waits.entry.event
        intent = event if isinstance(event, ev.OperationPrepared) else None
        contract = readable_contract(intent.contract) if intent is not None and intent.contract else None
        policies = self._policies_of(event.tenant_id)
        tool = operation.tool or (intent.tool if intent is not None else "")
        rules: ToolRules = policies.rules(tool)
        now_ms = max(self._clock.now_ms(), waits.entry.at_ms)
        surge = counted(
            policies.ceilings(operation.effect_type or ""),
            self.tables.grants,
            operation=operation,
            tenant_id=route.tenant_id,
            route=route.route,
            now_ms=now_ms,
            settled=self._settled,
        )
        return Facts(
            now_ms=now_ms,
            claimed_at_ms=waits.entry.at_ms,
            known_route=self.tables.route_of[event.tenant_id, operation.operation_id],
            presented_contract=contract,
            presented_hash=intent.request_hash if intent is not None else None,
            presented_digests=intent.argument_digests if intent is not None else {},
            tool_disabled=rules.disabled,
            policy_version=rules.version,
            approval_needed=rules.approval,
            approval_lifetime_ms=rules.approval_lifetime_ms,
            approval_wait_ms=rules.approval_wait_ms,
            four_eyes=rules.four_eyes,
            observe=rules.observe,
            resource_holders=self._busy(event.tenant_id, operation),
            breaker=surge.breaker,
            ceilings=surge.counts,
        )

    def _settled(self, grant: Grant) -> bool:
        operation = self.tables.route(grant.tenant_id, grant.route).operation(grant.operation_id)
        return (
            grant.void or is_settled(operation) or all(one.released for one in operation.attempts if one.number == grant.attempt)
        )

    def _busy(self, tenant_id: str, operation: Operation) -> dict[str, str]:
        """Holder of each resource that *operation* needs; a settled or released one holds nothing (§5)."""
        busy = {}
        for resource in operation.resources:
            route, name = self.tables.holders.get((tenant_id, resource), ("", ""))
            holder = self.tables.route(tenant_id, route).operation(name) if name else None
            if holder is not None and holder.last is not None and not holder.last.released and not is_settled(holder):
                busy[resource] = name
        return busy

    def _delivered(self, route: Route, decision: ev.Entry, waits: _Open, *, accepted: bool) -> list[Verdict]:
        operation, claim = route.operation(waits.entry.event.operation_id or ""), waits.claim
        verdict = verdict_of(operation, decision, claim=claim, accepted=accepted, route=route)
        if verdict is None:
            answer = decide(route, operation.operation_id, claim, self._facts(waits, route, operation))
            if not isinstance(answer, Refused):
                return []
            verdict = verdict_from_state(operation, answer, tenant_id=route.tenant_id, claim=claim, at_ms=decision.at_ms)
        return [verdict]


def _nothing_follows(event: ev.Event) -> ev.Entry:
    raise AssertionError("a rebuild decides nothing")


def _stands(route: Route, decision: ev.Event, now_ms: int) -> bool:
    """Whether the fold would take *decision*."""
    place = ev.Position(partition=0, offset=0)
    return fold(route, ev.Entry(event=with_event_id(decision), position=place, at_ms=now_ms, digest="")).accepted
