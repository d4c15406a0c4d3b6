"""What a compensator does next about an unwinding group. Pure: from the fold, the plan and what this process and tenant allow.

It claims an inverse as anybody does, so that order, STOP, calls in flight and authorization are the ledger's to refuse; this
function only keeps it from asking for what would be refused, and says when to look again.

Source: docs/semantics.md §8; docs/architecture.md §4.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from landed.core import events as ev
from landed.core import recovery
from landed.core.contract import Compensation, Contract, Requires, milliseconds
from landed.core.due import backed_off_s, window_end_ms
from landed.core.inverse import Chosen, Missing, chosen, inputs_for, unwind_inputs
from landed.core.plan import StepDecision, plan
from landed.core.reconciler_events import evidence
from landed.core.state import Operation, Route, choices_for, has_attempt_left
from landed.core.vocabulary import UNWINDING_OR_AFTER, ActionClass, EscalationReason, State

COMPENSATOR: Final = "compensator"
"""Actor and principal of the service: replicas are one actor, what two of them say alike is one event."""
NOT_REGISTERED: Final = "the inverse is not registered here"
UNMET: Final = "its precondition does not hold"


class Perform(msgspec.Struct, frozen=True, kw_only=True):
    """Claim the inverse and call it, after the read that it requires."""

    operation_id: str
    inverse_id: str
    tool: str
    arguments: dict[str, Any]
    requires: Requires | None = None
    gives_up_at_ms: int | None = None
    """Until when an unmet requirement is waited for."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    operation_id: str
    until_ms: int
    why: str


class HandOver(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing here can perform the inverse: a person takes over (`skipped`)."""

    operation_id: str
    why: str


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """The inverse is for the caller or a person to perform: contract and tenant do not say `automatic` both."""

    operation_id: str
    why: str


Action: TypeAlias = Perform | Wait | HandOver | Leave


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What this process has and the tenant allows."""

    contract_of: Callable[[str], Contract | None]
    """Contract of a tool that is registered here; None where it is not."""
    wanted: Callable[[str], Sequence[str]]
    """Names of the arguments that a registered tool takes."""
    allowed: Callable[[str], bool]
    """Whether the tenant's allowlist names an inverse tool."""


def next_actions(route: Route, means: Means, *, now_ms: int) -> tuple[Action, ...]:
    """What is to be done now about every step of the plan of *route* that is due; steps that wait for others are left out."""
    if route.group_state not in UNWINDING_OR_AFTER:
        return ()
    return tuple(_actions(route, means, now_ms))


def _actions(route: Route, means: Means, now_ms: int) -> Iterator[Action]:
    order = recovery.Order(route)
    for step in plan(route, now_ms=now_ms).steps:
        forward = route.operation(step.operation_id)
        following = chosen(route, forward)
        if step.decision is not StepDecision.COMPENSATE or following is None:
            continue
        if order.comes_first(forward.operation_id) is not None:
            continue
        yield _action(route, forward, following, means, now_ms)


def _action(route: Route, forward: Operation, following: Chosen, means: Means, now_ms: int) -> Action:
    compensation, name = following.compensation, forward.operation_id
    contract = means.contract_of(compensation.tool)
    if contract is None:
        return HandOver(operation_id=name, why=NOT_REGISTERED)
    left = _left_to_others(forward, compensation, contract, means)
    if left is not None:
        return Leave(operation_id=name, why=left)
    waits = _waits_ms(route, forward, following)
    if waits is not None and now_ms < waits[0]:
        return Wait(operation_id=name, until_ms=waits[0], why=waits[1])
    inverse = route.operations.get(following.inverse_id)
    arguments = _arguments(route, forward, compensation, inverse, means)
    if arguments is None:
        return HandOver(operation_id=name, why="required fields are missing")
    requires, begun = compensation.requires, inverse is not None and inverse.attempts_counted > 0
    return Perform(
        operation_id=name,
        inverse_id=following.inverse_id,
        tool=compensation.tool,
        arguments=arguments,
        # Read right before each attempt: what held for the first may not hold for the second.
        requires=requires,
        gives_up_at_ms=None if requires is None or begun else (route.unwinding_since_ms or 0) + milliseconds(requires.wait),
    )


def _left_to_others(forward: Operation, compensation: Compensation, contract: Contract, means: Means) -> str | None:
    if forward.undo_approved_by is not None:
        return None  # a person decided about this very inverse
    if contract.action_class is ActionClass.IRREVERSIBLE:
        return "an inverse that cannot be undone itself is never automatic"
    if not compensation.automatic:
        return "the contract does not declare the inverse automatic"
    if not means.allowed(compensation.tool):
        return "the tenant's allowlist does not name the inverse"
    return None


def _waits_ms(route: Route, forward: Operation, following: Chosen) -> tuple[int, str] | None:
    """When the inverse may be asked for, and why not before; None where nothing is waited for."""
    quiet_ms = recovery.quiet_at_ms(forward)
    inverse = route.operations.get(following.inverse_id)
    if inverse is None or inverse.last is None:
        return None if quiet_ms is None else (quiet_ms, "a call of the forward operation may still be under way")
    if inverse.contract is None or inverse.state not in (State.REJECTED, State.NOT_FOUND) or not has_attempt_left(inverse):
        return None
    ended_ms = recovery.last_attempt_ended_ms(inverse.last)
    again_ms = ended_ms + milliseconds(backed_off_s(inverse.contract, max(0, inverse.attempts_counted - 1)))
    if inverse.state is State.NOT_FOUND:
        again_ms = max(again_ms, window_end_ms(inverse) or 0)
    return again_ms, "the inverse failed and is tried again under its own policy"


def _arguments(
    route: Route, forward: Operation, compensation: Compensation, inverse: Operation | None, means: Means
) -> dict[str, Any] | None:
    """The arguments that the inverse was prepared with, else those that its contract finds; None where some are missing."""
    if inverse is not None and inverse.stored_args is not None and inverse.state is not State.NONE:
        stored: dict[str, Any] = msgspec.json.decode(inverse.stored_args, type=dict[str, Any])
        return stored
    given = unwind_inputs(route).get(forward.operation_id)
    found = inputs_for(forward, compensation, given=given, wanted=means.wanted(compensation.tool))
    return None if isinstance(found, Missing) else found.arguments


_HANDED_OVER: Final = {State.CONFIRMED: EscalationReason.SKIPPED, State.COMPENSATING: EscalationReason.INVERSE_FAILED}


def handed_over(route: Route, forward: Operation, why: str, *, group_id: str | None) -> ev.OperationEscalated | None:
    """The event, without `event_id`, that gives the inverse of *forward* to a person, with *why* as evidence.

    None where it is not automation's to give: nothing but an effect that stands, or an inverse that failed, is handed over.
    """
    reason = _HANDED_OVER.get(forward.state)
    if reason is None or forward.kept:
        return None
    return ev.OperationEscalated(
        event_id="",
        tenant_id=route.tenant_id,
        route=route.route,
        operation_id=forward.operation_id,
        group_id=group_id,
        actor=COMPENSATOR,
        seen_version=forward.version,
        attempt=forward.last.number if forward.last else 0,
        reason=reason,
        queue=forward.contract.queue if forward.contract else "default",
        choices=list(choices_for(reason, forward)),
        evidence=evidence(why=why),
    )
