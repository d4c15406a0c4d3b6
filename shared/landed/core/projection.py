"""What follows from an event that was read: claims to decide, group transitions, and their consequences, as events to append.

The projector and the in-memory ledger run these same functions. They return decisions without `event_id` (the shell derives it
from the content, so the same decision made twice is one event) and never touch state: a decision becomes state only when it comes
back through the log.

Source: docs/semantics.md §5, §8; docs/architecture.md §3.
"""

from typing import Final

from landed.core import events as ev
from landed.core import recovery
from landed.core.decide import UNREGISTERED, Granted, Refused
from landed.core.inverse import Obstacle, is_denied, is_unregistered, obstacle, unwind_inputs
from landed.core.reconciler_events import evidence
from landed.core.state import Operation, Route, choices_for
from landed.core.vocabulary import IN_DOUBT, UNWINDING_OR_AFTER, EscalationReason, GroupState, State

PROJECTOR: Final = "projector"
"""Actor of every decision: replicas are one actor, so their decisions about one claim are one event."""


_DECISIONS: Final = (ev.DispatchGranted, ev.DispatchRefused)
_WITH_CLAIM: Final = (ev.DispatchRequested, ev.OperationPrepared)


def claim_in(event: ev.Event) -> ev.Claim | None:
    """Claim that *event* carries, if any."""
    if isinstance(event, _WITH_CLAIM):
        return event.claim
    return None


def is_decision(event: ev.Event) -> bool:
    return isinstance(event, _DECISIONS)


def awaits_decision(operation: Operation, claim: ev.Claim) -> bool:
    """Whether *claim* is neither decided nor withdrawn in the fold."""
    return claim.claim_id not in operation.withdrawn and all(one.claim_id != claim.claim_id for one in operation.answers)


def decision_event(claimed: ev.Entry, answer: Granted | Refused, *, policy_version: str | None, version: int) -> ev.Event:
    """The decision about the claim in *claimed*, as an event without `event_id`.

    Args:
        version: accepted events of the operation that the decision had seen.
    """
    event = claimed.event
    claim = claim_in(event)
    if claim is None or event.operation_id is None:
        raise ValueError("a decision needs a claim of an operation")
    if isinstance(answer, Granted):
        return ev.DispatchGranted(
            event_id="",
            tenant_id=event.tenant_id,
            route=event.route,
            operation_id=event.operation_id,
            group_id=event.group_id,
            actor=PROJECTOR,
            seen_version=version,
            policy_version=policy_version,
            claim_id=claim.claim_id,
            attempt=answer.attempt,
            lease_ms=answer.lease_ms,
            claim_position=claimed.position,
            ceilings=list(answer.ceilings),
            approval_id=answer.approval_id,
            resources=list(answer.resources),
            replay=answer.replay,
            observe=None if answer.observe is None else answer.observe.reason.value,
            decided_at_ms=answer.decided_at_ms,
        )
    return ev.DispatchRefused(
        event_id="",
        tenant_id=event.tenant_id,
        route=event.route,
        operation_id=event.operation_id,
        group_id=event.group_id,
        actor=PROJECTOR,
        seen_version=version,
        policy_version=policy_version,
        claim_id=claim.claim_id,
        reason=answer.reason,
        detail=answer.detail,
        observe=answer.observe,
    )


def unwinding_event(route: Route, requested: ev.Entry) -> ev.GroupUnwinding | None:
    """The transition that an `unwind_requested` leads to; None when the group unwinds already (idempotent)."""
    event = requested.event
    if not isinstance(event, ev.UnwindRequested) or route.group_state not in (GroupState.OPEN, GroupState.CLOSED):
        return None
    return ev.GroupUnwinding(
        event_id="",
        tenant_id=event.tenant_id,
        route=event.route,
        group_id=event.group_id,
        actor=PROJECTOR,
        seen_version=route.version,
        reason=event.reason,
        by=event.by,
        plan_version=route.version,
    )


def consequences(route: Route, touched: tuple[str, ...] = (), *, now_ms: int) -> tuple[ev.Event, ...]:
    """What follows by itself from the state of *route*: prepared operations withdrawn, blocked inverses handed to people.

    Args:
        touched: operations that the last event changed; where the group does not unwind only these are looked at.
        now_ms: clock of the decider (milliseconds, UTC): a window that has closed skips an inverse.
    """
    if route.group_state in UNWINDING_OR_AFTER:
        return _unwinding_consequences(route, now_ms)
    found = []
    for name in touched:
        operation = route.operation(name)
        if operation.state is State.PREPARED and operation.replaced_by is not None and not operation.attempts_counted:
            found.append(_cancelled(route, operation, "replaced"))
    return tuple(found)


def _unwinding_consequences(route: Route, now_ms: int) -> tuple[ev.Event, ...]:
    found: list[ev.Event] = []
    stopped = bool(recovery.unresolved(route, now_ms=None))
    given, inverses = unwind_inputs(route), _inverses(route)
    for operation in route.operations.values():
        if operation.is_inverse or operation.frozen_at:
            continue
        if operation.state is State.PREPARED and not operation.attempts_counted:
            found.append(_cancelled(route, operation, "unwinding"))
        elif operation.state is State.CONFIRMED and not operation.kept and not stopped:
            why = obstacle(route, operation, now_ms=now_ms, given=given.get(operation.operation_id))
            if why is not None:
                found.append(_blocked(route, operation, why, inverses.get(operation.operation_id, [])))
        elif operation.state is State.COMPENSATING:
            own = inverses.get(operation.operation_id, [])
            if _denied_again(operation, own):
                found.append(_blocked(route, operation, Obstacle.UNAUTHORIZED, own))
    return tuple(found)


def _inverses(route: Route) -> dict[str, list[Operation]]:
    """All inverses of *route* by what they undo."""
    found: dict[str, list[Operation]] = {}
    for inverse in route.operations.values():
        if inverse.is_inverse and (forward := route.forward_of(inverse.operation_id)) is not None:
            found.setdefault(forward.operation_id, []).append(inverse)
    return found


def _denied_again(operation: Operation, inverses: list[Operation]) -> bool:
    """Whether a further attempt of the inverse of *operation* was denied, and none is under way."""
    denied = any(is_denied(one) or is_unregistered(operation, one) for one in inverses)
    return denied and not any(one.state in IN_DOUBT for one in inverses)


def _reason(operation: Operation, why: Obstacle) -> EscalationReason:
    if operation.state is State.COMPENSATING:
        return EscalationReason.INVERSE_FAILED
    return EscalationReason.IRREVERSIBLE if why is Obstacle.IRREVERSIBLE else EscalationReason.SKIPPED


def _cancelled(route: Route, operation: Operation, reason: str) -> ev.OperationCancelled:
    return ev.OperationCancelled(
        event_id="",
        tenant_id=route.tenant_id,
        route=route.route,
        operation_id=operation.operation_id,
        actor=PROJECTOR,
        seen_version=operation.version,
        by=PROJECTOR,
        reason=reason,
    )


def _blocked(route: Route, operation: Operation, why: Obstacle, inverses: list[Operation]) -> ev.OperationEscalated:
    """A step that automation cannot undo: no doubt about the effect, but what comes after it in the plan waits (§8)."""
    contract = operation.contract
    denied = next((one for one in inverses if is_denied(one)), None)
    facts = {}
    unregistered = next((one for one in inverses if is_unregistered(operation, one)), None)
    if unregistered is not None:
        facts = {"inverse": unregistered.operation_id, "denied": UNREGISTERED, "tool": unregistered.tool or ""}
    elif denied is not None and denied.authorization is not None:
        facts = {"inverse": denied.operation_id, "denied": denied.authorization.reason}
        if denied.authorization.policy_version is not None:
            facts["policy_version"] = denied.authorization.policy_version
    reason = _reason(operation, why)
    return ev.OperationEscalated(
        event_id="",
        tenant_id=route.tenant_id,
        route=route.route,
        operation_id=operation.operation_id,
        actor=PROJECTOR,
        seen_version=operation.version,
        attempt=operation.last.number if operation.last else 0,
        reason=reason,
        queue=contract.queue if contract else "default",
        choices=list(choices_for(reason, operation)),
        evidence=evidence(why=why.value, **facts),
    )
