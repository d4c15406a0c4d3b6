"""Four questions about a group, answered for each of its operations from the state alone: which effects exist, which might exist,
what can be undone safely, who may decide what comes next. Pure.

Source: docs/semantics.md §3, §8, §10.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from landed.core.inverse import chosen
from landed.core.plan import Plan, Step, StepDecision
from landed.core.recovery import Order, is_unresolved, nothing_to_undo
from landed.core.state import Operation, Route
from landed.core.vocabulary import IN_DOUBT, UNWINDING_OR_AFTER, State
from landed.core.wording import label


class Exists(StrEnum):
    """Whether there is an effect at the provider."""

    YES = "yes"
    MIGHT = "might"
    NO = "no"


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The four questions about one operation of a group; an inverse is answered with the operation that it undoes."""

    operation_id: str
    effect_type: str
    state: str
    label: str
    exists: Exists
    undo: str
    """`safe`, `after <operation>`, `under way`, `done`, `kept`, `not needed`, or `no: <why>`."""
    inverse: str | None
    """Tool that takes the effect back; None where none is registered."""
    decides: str
    """Who may decide what comes next: `caller`, `compensator`, `reconciler`, `person (<queue>)` or `nobody`."""


NOBODY: Final = "nobody"


def answers(route: Route, plan: Plan, *, now_ms: int, is_automatic: Callable[[str], bool]) -> tuple[Answers, ...]:
    """The answers for every forward operation of *route*, in the order in which they came up.

    Args:
        plan: of the same route at the same moment.
        now_ms: decides which calls may still be in flight (milliseconds, UTC).
        is_automatic: whether the tenant lets the compensator run an inverse tool.
    """
    steps, order = {step.operation_id: step for step in plan.steps}, Order(route)
    return tuple(
        _answers(route, operation, steps.get(operation.operation_id), plan, order, now_ms=now_ms, is_automatic=is_automatic)
        for operation in route.operations.values()
        if not operation.is_inverse
    )


def _answers(
    route: Route,
    operation: Operation,
    step: Step | None,
    plan: Plan,
    order: Order,
    *,
    now_ms: int,
    is_automatic: Callable[[str], bool],
) -> Answers:
    following = chosen(route, operation)
    compensation = None if following is None else following.compensation
    automatic = compensation is not None and compensation.automatic and is_automatic(compensation.tool)
    return Answers(
        operation_id=operation.operation_id,
        effect_type=operation.effect_type or operation.tool or "unknown",
        state="frozen" if operation.frozen_at else operation.state.value,
        label=label(operation, route.group_state),
        exists=exists(operation),
        undo=_undo(operation, step, plan, order, now_ms),
        inverse=None if compensation is None else compensation.tool,
        decides=_decides(route, operation, step, automatic=automatic),
    )


def exists(operation: Operation) -> Exists:
    """Whether the effect of *operation* exists as far as the ledger knows."""
    if operation.frozen_at or operation.state in IN_DOUBT:
        return Exists.MIGHT
    if operation.state is State.ESCALATED:
        return Exists.MIGHT if operation.escalated_for_doubt else Exists.YES
    if operation.state is State.CANCELLED and operation.attempts_counted:
        return Exists.MIGHT
    if operation.state is State.CONFIRMED:
        return Exists.NO if operation.removed_at_ms is not None else Exists.YES
    return Exists.MIGHT if operation.state is State.COMPENSATING else Exists.NO


def _undo(operation: Operation, step: Step | None, plan: Plan, order: Order, now_ms: int) -> str:
    if operation.state is State.COMPENSATED:
        return "done"
    if is_unresolved(operation, now_ms=now_ms):
        return "no: its outcome is unknown"
    if exists(operation) is Exists.NO or nothing_to_undo(operation):
        return "kept" if operation.kept else "not needed"
    if not operation.compensation:
        return "no: irreversible"
    if step is None:
        return "no: another outcome is unknown" if plan.unresolved else "not needed"
    match step.decision:
        case StepDecision.COMPENSATE:
            if operation.state is State.COMPENSATING:
                return "under way"
            first = order.comes_first(operation.operation_id)
            return "safe" if first is None else f"after {first.operation_id}"
        case StepDecision.RECONCILE:
            return "under way"
        case StepDecision.ESCALATE:
            return f"no: {step.reason}"


def _decides(route: Route, operation: Operation, step: Step | None, *, automatic: bool) -> str:
    queue = operation.contract.queue if operation.contract is not None else "default"
    if operation.review is not None:
        return f"person ({operation.review.queue})"
    if operation.frozen_at:
        return "person (whoever runs the ledger)"
    if operation.state in IN_DOUBT or (step is not None and step.decision is StepDecision.RECONCILE):
        return "caller" if operation.state is State.DISPATCHED else "reconciler"
    if route.group_state not in UNWINDING_OR_AFTER:
        return NOBODY if operation.state in (State.CANCELLED, State.COMPENSATED) else "caller"
    if step is None:
        return NOBODY
    if step.decision is StepDecision.ESCALATE:
        return f"person ({queue})"
    return "compensator" if automatic else "caller"


__all__ = ["NOBODY", "Answers", "Exists", "answers", "exists"]
