"""The decision about a claim, made again from what it was made from: under the recorded terms, and under others. Pure.

Facts that their owners looked up elsewhere (another route of the id, a breaker, a held resource, what could not be checked) are
taken from the decision itself, which wrote them down. Where other terms lead past the check that it stopped at, they are counted
from the log as far as it was read.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from landed.adapters import authorizing
from landed.core import events as ev
from landed.core.asked import OnRecord, authorized, is_to_be_authorized
from landed.core.authorization import Context
from landed.core.contract import readable_contract
from landed.core.decide import UNREGISTERED, Facts, Granted, Refused, approval_for, decide
from landed.core.policy import Policies, ToolRules
from landed.core.projection import claim_in
from landed.core.state import Operation, Route
from landed.core.vocabulary import Decision, Refusal
from landed_services.replay.compared import Found, Said, Unjudged, compared
from landed_services.replay.moments import Moments, State
from landed_services.replay.rooms import Room, Rooms
from landed_services.replay.terms import Book, Terms, lease_under, rules_given

NO_POLICY_ON_RECORD = "the policies that it names are not on this log"
Decided = ev.DispatchGranted | ev.DispatchRefused


class _Try(NamedTuple):
    state: State
    now_ms: int


def said_of(event: Decided) -> Said:
    """The recorded decision in words."""
    if isinstance(event, ev.DispatchGranted):
        return _granted(event.attempt, event.replay, event.observe)
    return Said(word="let through" if event.observe else "refused", reason=str(event.reason))


def _granted(attempt: int, replay: bool, observed: str | None) -> Said:
    if observed is not None:
        # With or without an attempt of its own: whoever asked goes on.
        return Said(word="let through", reason=observed)
    return Said(word="granted", reason=("again, " if replay else "") + f"attempt {attempt}")


def _said(answer: Granted | Refused) -> Said:
    if isinstance(answer, Refused):
        return Said(word="refused", reason=str(answer.reason))
    return _granted(answer.attempt, answer.replay, None if answer.observe is None else str(answer.observe.reason))


class Claims:
    """Decides claims again.

    Args:
        terms: those that are given; None: the recorded ones only.
        whole: whether all of a tenant is read, so that what its groups share can be counted.
    """

    def __init__(self, book: Book, terms: Terms | None, rooms: Rooms, *, whole: bool) -> None:
        self._book, self._terms, self._rooms, self._whole = book, terms, rooms, whole

    def judged(self, moments: Moments, claimed: ev.Entry, decision: ev.Entry) -> Found:
        """The decision on the log beside what would be decided about the claim in *claimed* (as recorded)."""
        event, claim = decision.event, claim_in(claimed.event)
        assert isinstance(event, ev.DispatchGranted | ev.DispatchRefused)
        assert claim is not None
        operation_id = event.operation_id or ""
        intended = claimed.event.tool if isinstance(claimed.event, ev.OperationPrepared) else ""
        tool = moments.now.was.operation(operation_id).tool or intended
        policies = self._book.of_tool(event.tenant_id, tool, event.policy_version)
        given = self._terms is not None
        if policies is None and not given and _by_policy(event):
            return Unjudged(why=NO_POLICY_ON_RECORD)
        rules = (policies or Policies()).rules(tool)
        if policies is None:
            rules = _as_it_shows(event)

        def old(one: _Try) -> Said:
            facts = _facts(event, claimed, one.now_ms, rules, event.policy_version)
            return _said(decide(one.state.was, operation_id, claim, facts))

        def new(one: _Try) -> Said | Unjudged:
            return self._under_terms(one, claimed, claim, event, policies, rules, tool)

        states = moments.seen_by(operation_id, event.seen_version, since=claimed.position.offset)
        clocks = list(_clocks(event, claimed, decision))
        return compared(said_of(event), (_Try(s, now) for s in states for now in clocks), old, new if given else None)

    # ---- under other terms --------------------------------------------------------------------------------------------

    def _under_terms(
        self,
        one: _Try,
        claimed: ev.Entry,
        claim: ev.Claim,
        event: Decided,
        policies: Policies | None,
        recorded: ToolRules,
        tool: str,
    ) -> Said | Unjudged:
        terms = self._terms
        assert terms is not None
        route, name = one.state.would, event.operation_id or ""
        operation = route.operation(name)
        was = one.state.was.operation(name)
        asked = terms.rewritten(claimed)
        claim = claim_in(asked.event) or claim
        if asked is claimed and operation.contract_text != was.contract_text:
            claim = replace(claim, lease_ms=lease_under(claim.lease_ms, was.contract, operation.contract))
        approval = approval_for(operation, claim)
        rules = recorded if policies is None else rules_given(terms, policies, tool, approval)
        if policies is None and any(key in terms.policies for key in ("tool:*", f"tool:{tool}")):
            rules = rules_given(terms, Policies(), tool, approval)
        # A person's answer stands for the same request, also where the policies that it names were not read.
        version = approval.policy_version if policies is None and approval is not None else rules.version
        facts = replace(
            _facts(event, asked, one.now_ms, rules, version),
            authorization=Decision.ALLOW,
            authorization_detail={},
            breaker=None,
            resource_holders={},
        )
        answer = decide(route, name, claim, facts)
        if is_to_be_authorized(route, operation, answer):
            facts = self._ruled(route, operation, claim, event, facts)
            answer = decide(route, name, claim, facts)
        if _past_rooms(answer):
            room = self._room(route, operation, event, one.now_ms, changed=was.effect_type != operation.effect_type)
            if room.unknown:
                return Unjudged(why=room.unknown)
            answer = decide(route, name, claim, replace(facts, breaker=room.breaker, resource_holders=room.holders))
        return _said(answer)

    def _ruled(self, route: Route, operation: Operation, claim: ev.Claim, event: Decided, facts: Facts) -> Facts:
        """The ruling about the claim of an inverse, under the policy that is given."""
        assert self._terms is not None
        denied = isinstance(event, ev.DispatchRefused) and event.reason is Refusal.COMPENSATION_DENIED
        if operation.authorization is not None and _rules_the_same(self._terms, event):
            # It was ruled about right before; another policy would have made that another ruling (see `rulings`).
            return replace(facts, authorization=Decision.DENY if denied else Decision.ALLOW)
        policies = self._terms.given(self._book.newest(route.tenant_id))
        found = authorized(route, operation, claim, policies, authorizing.ask, now_ms=facts.now_ms)
        return replace(facts, authorization=found.ruling.decision, authorization_detail=found.detail)

    def _room(self, route: Route, operation: Operation, event: Decided, now_ms: int, *, changed: bool) -> Room:
        assert self._terms is not None
        terms, refused = self._terms, isinstance(event, ev.DispatchRefused)
        looked = isinstance(event, ev.DispatchGranted) or event.reason in (Refusal.SURGE_EXCEEDED, Refusal.RESOURCE_BUSY)
        if looked and not terms.changes_ceilings and not changed:
            # As its owner found it then.
            held = isinstance(event, ev.DispatchRefused) and event.reason is Refusal.RESOURCE_BUSY
            full = isinstance(event, ev.DispatchRefused) and event.reason is Refusal.SURGE_EXCEEDED
            detail = event.detail if isinstance(event, ev.DispatchRefused) else {}
            return Room(
                breaker=detail.get("breaker", "{}") if refused and full else None,
                holders={detail.get("resource", ""): detail.get("holder", "")} if held else {},
            )
        policies = terms.given(self._book.newest(route.tenant_id))
        return self._rooms.room(policies, route, operation, now_ms=now_ms, whole=self._whole)


def _facts(event: Decided, claimed: ev.Entry, now_ms: int, rules: ToolRules, version: str | None) -> Facts:
    prepared = claimed.event if isinstance(claimed.event, ev.OperationPrepared) else None
    reason, detail = _stopped_at(event)
    denied = reason is Refusal.COMPENSATION_DENIED and detail.get("rule") != UNREGISTERED
    return Facts(
        now_ms=now_ms,
        claimed_at_ms=claimed.at_ms,
        invalid=detail.get("rule", "?") if reason is Refusal.INVALID_REQUEST else None,
        known_route=detail.get("known_route", "?") if reason is Refusal.ROUTE_MISMATCH else None,
        presented_contract=None if prepared is None or prepared.contract is None else readable_contract(prepared.contract),
        presented_hash=None if prepared is None else prepared.request_hash,
        presented_digests={} if prepared is None else prepared.argument_digests,
        tool_disabled=rules.disabled,
        policy_version=version,
        approval_needed=rules.approval,
        approval_wait_ms=rules.approval_wait_ms,
        approval_lifetime_ms=rules.approval_lifetime_ms,
        four_eyes=rules.four_eyes,
        observe=rules.observe,
        authorization=Decision.DENY if denied else Decision.ALLOW,
        resource_holders={detail.get("resource", "?"): detail.get("holder", "?")} if reason is Refusal.RESOURCE_BUSY else {},
        breaker=detail.get("breaker", "{}") if reason is Refusal.SURGE_EXCEEDED else None,
        unavailable=detail.get("unchecked", "?") if reason is Refusal.LEDGER_UNAVAILABLE else None,
    )


def _stopped_at(event: Decided) -> tuple[Refusal | None, dict[str, str]]:
    if isinstance(event, ev.DispatchRefused):
        return event.reason, event.detail
    return (None, {}) if event.observe is None else (Refusal(event.observe), {})


def _clocks(event: Decided, claimed: ev.Entry, decision: ev.Entry) -> Iterator[int]:
    """What the clock that decided may have shown: on the log stand the broker's times, and bounds that the decision names."""
    if isinstance(event, ev.DispatchGranted) and event.decided_at_ms is not None:
        yield event.decided_at_ms
        return
    yield decision.at_ms
    yield claimed.at_ms
    detail = event.detail if isinstance(event, ev.DispatchRefused) else {}
    for name, value in detail.items():
        if name.endswith("_ms") and value.lstrip("-").isdigit():
            yield from (int(value) + 1, int(value), int(value) - 1)


_OF_POLICY = (Refusal.POLICY_DENIED, Refusal.APPROVAL_REQUIRED, Refusal.APPROVAL_EXPIRED)


def _by_policy(event: Decided) -> bool:
    reason, _ = _stopped_at(event)
    return reason in _OF_POLICY or (isinstance(event, ev.DispatchGranted) and event.observe is not None)


def _as_it_shows(event: Decided) -> ToolRules:
    """Of policies that were not read: what the decision shows of them."""
    reason, detail = _stopped_at(event)
    observe = event.observe is not None if isinstance(event, ev.DispatchGranted) else event.observe
    asked = isinstance(event, ev.DispatchGranted) and event.approval_id is not None
    return ToolRules(
        version=event.policy_version,
        disabled=detail.get("rule") == "tool disabled",
        approval=asked or (reason in _OF_POLICY and detail.get("rule") != "tool disabled"),
        observe=observe,
    )


def _past_rooms(answer: Granted | Refused) -> bool:
    observed = answer.observe if isinstance(answer, Granted) else answer
    return observed is None or observed.reason is Refusal.LEDGER_UNAVAILABLE


def _rules_the_same(terms: Terms, event: Decided) -> bool:
    return isinstance(event, ev.DispatchGranted) or event.reason is Refusal.COMPENSATION_DENIED


def foreign(forward: Operation, context: Context) -> list[OnRecord]:
    """What makes a reference somebody else's again, where a ruling found it so."""
    return [OnRecord("", "", forward.tool)] if context.foreign_reference else []
