"""The decision about a claim: granted, or the first refusal that applies, in the order of semantics.md §5.

Pure: whatever depends on a clock, a policy, a ceiling or another route is looked up before and handed in as `Facts`. Each check
below returns its refusal or None; their order in `CHECKS` is the precedence, and a test compares it with the order of `Refusal`.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from landed.core import recovery
from landed.core.contract import Contract
from landed.core.contract_rules import broken_rule
from landed.core.events import CeilingCount, Claim
from landed.core.guards import has_open_late_effect, inverse_is_safe, offers_retry, other_inverse, replay_refusal
from landed.core.inverse import chosen
from landed.core.state import Approval, Operation, Route, has_attempt_left, is_settled
from landed.core.vocabulary import ADMITS_FORWARD, UNWINDING_OR_AFTER, Decision, EqualCalls, GroupState, Refusal, State


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision needs besides the fold; looked up by its owner, written down with the decision."""

    now_ms: int
    """The clock of the database, which decides."""
    claimed_at_ms: int
    """Append time of the claim on the log."""
    invalid: str | None = None
    """Field and rule that the request breaks."""
    known_route: str | None = None
    """Route under which the tenant's operation id is known already."""
    presented_contract: Contract | None = None
    """Contract that came with the claim, where its intent was refused."""
    presented_hash: str | None = None
    """Request hash of the intent that came with the claim."""
    presented_digests: Mapping[str, str] = {}
    tool_disabled: bool = False
    policy_version: str | None = None
    approval_needed: bool = False
    approval_lifetime_ms: int = 3_600_000
    """How long a request for approval stands, and an approval that was given."""
    approval_wait_ms: int = 0
    """How long the caller waits for it."""
    four_eyes: bool = False
    observe: bool = False
    """Observe mode: nothing is refused, what would have been is recorded."""
    authorization: Decision | None = Decision.ALLOW
    """Decision about an inverse; None: none could be made."""
    authorization_detail: Mapping[str, str] = {}
    """What the refusal says where that denies."""
    resource_holders: Mapping[str, str] = {}
    """Operation that holds each resource that this one needs."""
    breaker: str | None = None
    """JSON of the breaker that refuses the claim."""
    ceilings: tuple[CeilingCount, ...] = ()
    unavailable: str | None = None
    """What could not be checked."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    lease_ms: int
    replay: bool = False
    approval_id: str | None = None
    resources: tuple[str, ...] = ()
    ceilings: tuple[CeilingCount, ...] = ()
    decided_at_ms: int | None = None
    """The clock of the database, where ceilings count it or it takes resources."""
    observe: "Refused | None" = None
    """Observe mode: the refusal that would have been."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    reason: Refusal
    detail: dict[str, str] = {}
    observe: bool = False
    """Observe mode: the caller was let through although the fold would not allow a grant."""


WOULD_BE_SENT_AGAIN: Final = "observe mode: it would be sent again by itself"
"""Detail `rule` of the refusal of a replay in observe mode."""

UNREGISTERED: Final = "no contract registered this inverse"

Check = Callable[[Route, Operation, Claim, Facts], Refused | None]


def _refused(reason: Refusal, **detail: object) -> Refused:
    return Refused(reason=reason, detail={name: str(value) for name, value in detail.items() if value is not None})


# ---- the claim itself -------------------------------------------------------------------------------------------------


def claim_expired(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """Nobody waits any more: append time plus the time that the caller waits has passed."""
    until_ms = facts.claimed_at_ms + (claim.answer_by_ms - claim.asked_at_ms)
    return _refused(Refusal.CLAIM_EXPIRED, answer_by_ms=until_ms) if facts.now_ms > until_ms else None


def invalid_request(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if facts.invalid is not None:
        return _refused(Refusal.INVALID_REQUEST, rule=facts.invalid)
    if claim.lease_ms <= 0:
        return _refused(Refusal.INVALID_REQUEST, rule="lease_ms: must be greater than 0, a lease of zero is over")
    return None


def route_mismatch(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if facts.known_route is None or facts.known_route == route.route:
        return None
    return _refused(Refusal.ROUTE_MISMATCH, known_route=facts.known_route)


def request_mismatch(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    # A claim that came with an intent is a claim for that intent, whatever hash it carries itself.
    if op.request_hash is None or {claim.request_hash, facts.presented_hash or claim.request_hash} == {op.request_hash}:
        return None
    presented, known = facts.presented_digests, op.argument_digests
    names = sorted(name for name in {*presented, *known} if presented.get(name) != known.get(name)) if presented else []
    return _refused(Refusal.REQUEST_MISMATCH, differs=", ".join(names) or None)


def operation_frozen(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if not op.frozen_at:
        return None
    place = op.frozen_at[0]
    return _refused(Refusal.OPERATION_FROZEN, partition=place.partition, offset=place.offset)


# ---- what the state already answers -----------------------------------------------------------------------------------


def in_flight(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state is not State.DISPATCHED:
        return None
    if op.last is None:  # erased: only the state is left
        return _refused(Refusal.IN_FLIGHT)
    return _refused(Refusal.IN_FLIGHT, holder=op.last.claim_id, attempt=op.last.number, lease_end_ms=op.last.lease_end_ms)


def unresolved(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state not in (State.UNKNOWN, State.RECONCILING):
        return None
    if not claim.replay:
        return _refused(Refusal.UNRESOLVED, next_check_at_ms=op.next_check_at_ms, since_ms=op.doubt_since_ms)
    why = replay_refusal(op, now_ms=facts.now_ms, lease_ms=claim.lease_ms)
    return None if why is None else _refused(Refusal.UNRESOLVED, replay=why, next_check_at_ms=op.next_check_at_ms)


def already_confirmed(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state is not State.CONFIRMED:
        return None
    return _refused(
        Refusal.ALREADY_CONFIRMED,
        receipt=op.receipt,
        reference=op.references[-1].value if op.references else None,
        at_ms=op.confirmed_at_ms,
        removed_at_ms=op.removed_at_ms,
    )


def needs_human(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state is not State.ESCALATED and not has_open_late_effect(op):
        return None
    review = op.review
    return _refused(
        Refusal.NEEDS_HUMAN,
        review_id=review.review_id if review else None,
        reasons=", ".join(review.reasons) if review else None,
        since_ms=review.opened_at_ms if review else None,
    )


def cancelled(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    never_more = op.final and op.state in (State.NONE, State.PREPARED)
    return _refused(Refusal.CANCELLED, at_ms=op.settled_at_ms) if op.state is State.CANCELLED or never_more else None


def compensated(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state not in (State.COMPENSATED, State.COMPENSATING):
        return None
    return _refused(Refusal.COMPENSATED, state=op.state, at_ms=op.settled_at_ms)


def replaced(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    return None if op.replaced_by is None else _refused(Refusal.REPLACED, by=op.replaced_by)


def already_rejected(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state is not State.REJECTED or has_attempt_left(op):
        return None
    return _refused(Refusal.ALREADY_REJECTED, error_code=op.error_code, at_ms=op.settled_at_ms)


def attempts_exhausted(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.state is not State.NOT_FOUND or has_attempt_left(op):
        return None
    return _refused(Refusal.ATTEMPTS_EXHAUSTED, attempts=op.attempts_counted, allowed=op.attempts_allowed)


def retry_offered(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    offered = op.state is State.NOT_FOUND and offers_retry(op) and not claim.retry
    return _refused(Refusal.RETRY_OFFERED, attempts=op.attempts_counted, allowed=op.attempts_allowed) if offered else None


# ---- what a new dispatch needs ----------------------------------------------------------------------------------------


def no_contract(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.contract_text is not None and (rule := broken_rule(op.contract_text)) is not None:
        return _refused(Refusal.NO_CONTRACT, rule=rule)
    return _refused(Refusal.NO_CONTRACT) if op.contract is None and facts.presented_contract is None else None


def group_unwinding(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if op.is_inverse or route.group_state in ADMITS_FORWARD:
        return None
    return _refused(Refusal.GROUP_UNWINDING, group_state=route.group_state, unwind_reason=route.unwind_reason)


def group_closed(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """A closed group takes no new step; one that was prepared before may still run."""
    closed = not op.is_inverse and op.state is State.NONE and route.group_state is GroupState.CLOSED
    return _refused(Refusal.GROUP_CLOSED) if closed else None


def intent_refused(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """No intent on record although a contract was presented: its `operation_prepared` was refused."""
    return _refused(Refusal.NO_CONTRACT) if op.state is State.NONE else None


def prerequisite_unconfirmed(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    missing = [name for name in op.depends_on or () if route.operation(name).state is not State.CONFIRMED]
    return _refused(Refusal.PREREQUISITE_UNCONFIRMED, prerequisites=", ".join(missing)) if missing else None


def replaced_unresolved(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """The corrected request waits while the one that it replaces is in doubt (§1)."""
    if op.replaces is None:
        return None
    old, contract = route.operation(op.replaces), op.contract
    if (contract is not None and contract.supersedes) or not recovery.is_unresolved(old, now_ms=None):
        return None
    return _refused(Refusal.UNRESOLVED, replaces=old.operation_id, state=old.state)


# ---- for an inverse ---------------------------------------------------------------------------------------------------


def compensation_unsafe(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    forward = route.forward_of(op.operation_id)
    if forward is None or inverse_is_safe(forward, op.tool):
        return None
    allowed = sorted(forward.contract.safe_when(op.tool or "")) if forward.contract else []
    return _refused(Refusal.COMPENSATION_UNSAFE, state=forward.state, kept=forward.kept or None, safe_when=", ".join(allowed))


def forward_in_flight(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    forward = route.forward_of(op.operation_id)
    if forward is None or not recovery.in_flight(forward, now_ms=facts.now_ms):
        return None
    return _refused(Refusal.FORWARD_IN_FLIGHT, quiet_at_ms=recovery.quiet_at_ms(forward))


def group_unresolved(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """STOP: no inverse while an effect of the group is in doubt (§8)."""
    if not op.is_inverse:
        return None
    names = [one.operation_id for one in recovery.unresolved(route, now_ms=facts.now_ms)]
    return _refused(Refusal.UNRESOLVED, operations=", ".join(names)) if names else None


def not_due(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    forward = route.forward_of(op.operation_id)
    if forward is None:
        return None
    if route.group_state not in UNWINDING_OR_AFTER:
        return _refused(Refusal.NOT_DUE, group_state=route.group_state)
    other = other_inverse(route, op.operation_id)
    if other is not None:
        return _refused(Refusal.NOT_DUE, comes_first=other.operation_id, state=other.state)
    following = chosen(route, forward)
    if following is not None and following.inverse_id != op.operation_id:
        return _refused(Refusal.NOT_DUE, comes_first=following.inverse_id)
    first = recovery.comes_first(route, forward.operation_id)
    return None if first is None else _refused(Refusal.NOT_DUE, comes_first=recovery.inverse_id(first.operation_id))


def compensation_denied(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    forward = route.forward_of(op.operation_id)
    if forward is None:
        return None
    if op.tool not in forward.compensation:
        return _refused(Refusal.COMPENSATION_DENIED, rule=UNREGISTERED)
    if facts.authorization is Decision.ALLOW:
        return None
    return _refused(Refusal.COMPENSATION_DENIED, **facts.authorization_detail)


# ---- intent, policy, room ---------------------------------------------------------------------------------------------


def open_intent(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """An agent that lost its memory comes back with a new id for the same intent (§1).

    Of two that were never dispatched the earlier on the log goes first, so that they cannot refuse each other.
    """
    contract = op.contract
    if op.is_inverse or (contract is not None and contract.equal_calls is EqualCalls.DISTINCT):
        return None
    before = True
    for other in route.operations.values():
        if other.operation_id == op.operation_id:
            before = False
            continue
        same = other.tool == op.tool and other.request_hash == op.request_hash and other.operation_id != op.replaces
        open_ = not is_settled(other) and other.state is not State.NONE and not other.is_inverse
        if same and open_ and (before or other.attempts_counted):
            return _refused(Refusal.OPEN_INTENT, operation_id=other.operation_id, state=other.state)
    return None


def policy_denied(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if facts.tool_disabled:
        return _refused(Refusal.POLICY_DENIED, rule="tool disabled", policy_version=facts.policy_version)
    if facts.observe and claim.replay:
        return _refused(Refusal.POLICY_DENIED, rule=WOULD_BE_SENT_AGAIN, replay_reason=claim.replay_reason)
    approval = approval_for(op, claim) if facts.approval_needed else None
    if approval is None or approval.decision is None:
        return None
    if approval.decision is Decision.DENY:
        return _refused(Refusal.POLICY_DENIED, rule="approval denied", approval_id=approval.approval_id)
    if approval.policy_version == facts.policy_version:
        return None
    return _refused(
        Refusal.POLICY_DENIED,
        rule="approved under another policy version",
        approved_under=approval.policy_version,
        policy_version=facts.policy_version,
    )


def approval_required(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    if not facts.approval_needed:
        return None
    approval = approval_for(op, claim)
    if approval is None or (approval.decision is None and facts.now_ms < approval.expires_at_ms):
        return _refused(
            Refusal.APPROVAL_REQUIRED,
            approval_id=approval.approval_id if approval else None,
            expires_at_ms=approval.expires_at_ms if approval else facts.now_ms + facts.approval_lifetime_ms,
            approval_wait_ms=facts.approval_wait_ms or None,
        )
    return None


def approval_expired(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    approval = approval_for(op, claim) if facts.approval_needed else None
    if approval is None or facts.now_ms < approval.expires_at_ms:
        return None
    return _refused(Refusal.APPROVAL_EXPIRED, approval_id=approval.approval_id, expires_at_ms=approval.expires_at_ms)


def approval_for(op: Operation, claim: Claim) -> Approval | None:
    """The newest approval for just this request; changed arguments need a new one."""
    return next((one for one in reversed(op.approvals) if one.request_hash == claim.request_hash), None)


def resource_busy(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    for resource, holder in facts.resource_holders.items():
        if holder != op.operation_id:
            return _refused(Refusal.RESOURCE_BUSY, resource=resource, holder=holder)
    return None


def surge_exceeded(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    return None if facts.breaker is None else _refused(Refusal.SURGE_EXCEEDED, breaker=facts.breaker)


def ledger_unavailable(route: Route, op: Operation, claim: Claim, facts: Facts) -> Refused | None:
    """What cannot be checked is refused, never waved through."""
    return None if facts.unavailable is None else _refused(Refusal.LEDGER_UNAVAILABLE, unchecked=facts.unavailable)


CHECKS: Final[tuple[Check, ...]] = (
    claim_expired,
    invalid_request,
    route_mismatch,
    request_mismatch,
    operation_frozen,
    in_flight,
    unresolved,
    already_confirmed,
    needs_human,
    cancelled,
    compensated,
    replaced,
    already_rejected,
    attempts_exhausted,
    retry_offered,
    no_contract,
    group_unwinding,
    group_closed,
    intent_refused,
    prerequisite_unconfirmed,
    replaced_unresolved,
    compensation_unsafe,
    forward_in_flight,
    group_unresolved,
    not_due,
    compensation_denied,
    open_intent,
    policy_denied,
    approval_required,
    approval_expired,
    resource_busy,
    surge_exceeded,
    ledger_unavailable,
)
"""Precedence of §5: the first hit wins."""


def decide(route: Route, operation_id: str, claim: Claim, facts: Facts) -> Granted | Refused:
    """The decision about *claim* of *operation_id*, against the fold plus the decisions that have not come back yet.

    Args:
        route: fold of the route, with decisions that are still on their way folded in.
        claim: the claim as it stands on the log; neither decided nor withdrawn.
        facts: what the decision depends on besides the log.

    Returns:
        `Granted` with the next attempt number, or the first refusal that applies. Total: never raises.
    """
    op = route.operation(operation_id)
    refused = next((found for check in CHECKS if (found := check(route, op, claim, facts)) is not None), None)
    # Observe mode lets callers through, not the ledger's own automation: what it would send again is recorded, and not sent.
    if refused is not None and (not facts.observe or claim.replay or refused.reason in _REFUSED_EVEN_SO):
        return refused
    approval = approval_for(op, claim) if facts.approval_needed and refused is None else None
    return Granted(
        attempt=op.attempts[-1].number + 1 if op.attempts else 1,
        lease_ms=claim.lease_ms,
        replay=claim.replay and op.state in (State.UNKNOWN, State.RECONCILING),
        approval_id=approval.approval_id if approval else None,
        resources=op.resources,
        ceilings=facts.ceilings,
        decided_at_ms=facts.now_ms,
        observe=refused,
    )


_REFUSED_EVEN_SO: Final = frozenset({Refusal.CLAIM_EXPIRED, Refusal.INVALID_REQUEST})
"""Refused in observe mode too: nobody waits for the answer, or there is no request that could be let through."""
