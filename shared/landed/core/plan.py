"""The plan of an unwinding group: which inverses, in which order, why each, and why not. A pure function of the route.

The caller, the compensator, the command line and a person all look at this one plan. It is made anew from the fold whenever it is
asked for, so it follows by itself once what was in doubt is settled. Field names are those of docs/semantics.md §8.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from landed.core import recovery
from landed.core.inverse import Obstacle, chosen, obstacle, unwind_inputs
from landed.core.state import Operation, Route
from landed.core.vocabulary import IN_DOUBT, UNWINDING_OR_AFTER, GroupState, State

LATER_STEP_FAILED: Final = "later_step_failed"
FORWARD_OUTCOME_UNKNOWN: Final = "forward_outcome_unknown"
INVERSE_UNDER_WAY: Final = "inverse_under_way"


class StepDecision(StrEnum):
    COMPENSATE = "compensate"
    RECONCILE = "reconcile"
    """The inverse was sent and its outcome is not known: it is looked up, never sent blindly again."""
    ESCALATE = "escalate"


class PlannedInverse(msgspec.Struct, frozen=True):
    effect_type: str
    tool: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One effect of the group that is to be undone."""

    order: int
    """Steps of one order may run at the same time; a lower one comes first."""
    operation_id: str
    original_effect_type: str
    compensation: PlannedInverse | None
    suggested_idempotency_key: str
    decision: StepDecision
    reason: str
    after: tuple[str, ...] = ()
    """Steps of this plan whose effects depend on this one: they are undone before it."""
    explanation: str


class Irreversible(msgspec.Struct, frozen=True):
    operation_id: str
    effect_type: str


class Unresolved(msgspec.Struct, frozen=True):
    operation_id: str
    effect_type: str
    state: str


class Skipped(msgspec.Struct, frozen=True):
    """An operation of the group that needs no undoing, and why."""

    operation_id: str
    effect_type: str
    state: str
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    state: GroupState
    steps: tuple[Step, ...]
    irreversible: tuple[Irreversible, ...]
    """Effects that exist or may exist and that nothing takes back; listed before anything starts."""
    unresolved: tuple[Unresolved, ...]
    skipped: tuple[Skipped, ...]
    next_step: str


def plan(
    route: Route,
    *,
    now_ms: int,
    effect_types: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for *route* as of *now_ms*. Before the group unwinds it says what unwinding would do.

    Args:
        now_ms: decides which calls may still be in flight and which windows have closed (milliseconds, UTC).
        effect_types: effect type of each inverse tool where it is known; else the tool's name stands for it.
    """
    forwards = [op for op in route.operations.values() if not op.is_inverse]
    stopping = recovery.unresolved(route, now_ms=now_ms)
    standing = [op for op in forwards if _stands(op)]
    irreversible = tuple(Irreversible(op.operation_id, _kind(op)) for op in forwards if _nothing_takes_back(op))
    steps = () if stopping else _steps(route, standing, now_ms=now_ms, types=effect_types or {})
    named = {op.operation_id for op in (*standing, *stopping)}
    return Plan(
        group_id=route.route,
        state=route.group_state,
        steps=steps,
        irreversible=irreversible,
        unresolved=tuple(Unresolved(op.operation_id, _kind(op), "frozen" if op.frozen_at else op.state) for op in stopping),
        skipped=tuple(
            Skipped(op.operation_id, _kind(op), op.state, _why_skipped(op)) for op in forwards if op.operation_id not in named
        ),
        next_step=_next_step(route, steps, tuple(op.operation_id for op in stopping)),
    )


def _kind(operation: Operation) -> str:
    return operation.effect_type or operation.tool or "unknown"


def _stands(operation: Operation) -> bool:
    """Whether there is an effect, or may be one, that this plan has to deal with."""
    return not recovery.nothing_to_undo(operation) and operation.state is not State.DISPATCHED


def _nothing_takes_back(operation: Operation) -> bool:
    stands = not recovery.nothing_to_undo(operation)
    return stands and operation.state is not State.NONE and not operation.compensation


def _why_skipped(operation: Operation) -> str:
    return "kept" if operation.kept else str(operation.state)


def _steps(
    route: Route,
    standing: list[Operation],
    *,
    now_ms: int,
    types: Mapping[str, str],
) -> tuple[Step, ...]:
    order_of_all, names = recovery.Order(route), frozenset(op.operation_id for op in standing)
    before = {
        name: names.intersection(op.operation_id for op in order_of_all.dependents(name))
        for name in (op.operation_id for op in standing)
    }
    return tuple(
        _step(
            route,
            op,
            order=order,
            after=tuple(sorted(before[op.operation_id])),
            obstacle=_obstacle(route, op, now_ms=now_ms),
            types=types,
        )
        for order, wave in enumerate(waves(standing, before), start=1)
        for op in wave
    )


def waves(standing: list[Operation], before: Mapping[str, frozenset[str]]) -> list[list[Operation]]:
    """*standing* in the order of undoing: dependents first, among independent ones the one confirmed last.

    Neighbours share a wave only if they are independent and every one of them is `parallel_safe` (§8).
    """
    left = sorted(standing, key=recovery.confirmed_order, reverse=True)
    done: set[str] = set()
    ordered: list[Operation] = []
    while left:
        # Nothing is free only where the log claims a circle of dependencies: then the one confirmed last goes first.
        following = next((op for op in left if before[op.operation_id] <= done), left[0])
        left.remove(following)
        done.add(following.operation_id)
        ordered.append(following)
    found: list[list[Operation]] = []
    for op in ordered:
        together = found and recovery.parallel_safe(op) and all(recovery.parallel_safe(one) for one in found[-1])
        if together and before[op.operation_id].isdisjoint(one.operation_id for one in found[-1]):
            found[-1].append(op)
        else:
            found.append([op])
    return found


def _obstacle(route: Route, operation: Operation, *, now_ms: int) -> Obstacle | None:
    if operation.state in (State.ESCALATED, State.COMPENSATING):
        return None
    return obstacle(route, operation, now_ms=now_ms, given=unwind_inputs(route).get(operation.operation_id))


def _step(
    route: Route,
    operation: Operation,
    *,
    order: int,
    after: tuple[str, ...],
    obstacle: Obstacle | None,
    types: Mapping[str, str],
) -> Step:
    following = chosen(route, operation)
    decision, reason = _decision(route, operation, obstacle)
    planned = None
    if following is not None:
        tool = following.compensation.tool
        planned = PlannedInverse(types.get(tool, tool), tool)
    return Step(
        order=order,
        operation_id=operation.operation_id,
        original_effect_type=_kind(operation),
        compensation=planned,
        suggested_idempotency_key=following.inverse_id if following else recovery.inverse_id(operation.operation_id),
        decision=decision,
        reason=reason,
        after=after,
        explanation=_explained(operation, decision, reason, after),
    )


def _decision(route: Route, operation: Operation, obstacle: Obstacle | None) -> tuple[StepDecision, str]:
    if operation.state is State.ESCALATED:
        return StepDecision.ESCALATE, str(operation.escalated_for or "needs_human")
    if obstacle is not None:
        return StepDecision.ESCALATE, obstacle.value
    if operation.state is State.COMPENSATING:
        doubt = any(inverse.state in IN_DOUBT for inverse in route.inverses_of(operation.operation_id))
        return (StepDecision.RECONCILE, INVERSE_UNDER_WAY) if doubt else (StepDecision.COMPENSATE, LATER_STEP_FAILED)
    if operation.state in IN_DOUBT:
        return StepDecision.COMPENSATE, FORWARD_OUTCOME_UNKNOWN
    return StepDecision.COMPENSATE, LATER_STEP_FAILED


_WHY: Final = {
    "irreversible": "Nothing takes this effect back; a person decides whether it is kept.",
    "no_registered_compensation": "No inverse was registered before the call; a person decides.",
    "unsafe": "The registered inverse is not safe in the present state; a person decides.",
    "expired": "The window of the inverse has passed; a person decides.",
    "required_fields_missing": "The inverse needs fields that no declared source has; a person decides.",
    "unauthorized": "The policy denied the inverse; a person decides.",
    "inverse_failed": "The inverse failed and has no attempt left; a person decides.",
    "skipped": "The inverse was skipped; a person decides.",
    "effect_reverted": "The effect was taken back elsewhere; a person decides.",
}


def _explained(operation: Operation, decision: StepDecision, reason: str, after: tuple[str, ...]) -> str:
    """Why this step is here, or why it is skipped."""
    match decision:
        case StepDecision.ESCALATE:
            return _WHY.get(reason, "A person decides.")
        case StepDecision.RECONCILE:
            return "Its inverse was sent and the outcome is not known: it is looked up."
        case StepDecision.COMPENSATE:
            place = "Nothing that still stands depends on it."
            if after:
                place = f"Undone after {', '.join(after)}, which {'depends' if len(after) == 1 else 'depend'} on it."
            if reason == FORWARD_OUTCOME_UNKNOWN:
                return f"Whether it happened is not known; its inverse is declared safe even so. {place}"
            return f"It happened and a later step failed. {place}"


def _next_step(route: Route, steps: tuple[Step, ...], stopping: tuple[str, ...]) -> str:
    if stopping:
        count = len(stopping)
        return (
            f"STOP. {count} effect(s) in this group have an unknown outcome. Nothing is undone before they are settled: "
            f"{', '.join(stopping)}. The plan follows by itself."
        )
    todo = [step for step in steps if step.decision is not StepDecision.ESCALATE]
    people = [step.operation_id for step in steps if step.decision is StepDecision.ESCALATE]
    parts = []
    if todo:
        parts.append(f"Perform the {len(todo)} compensation(s) in the order given.")
    if people:
        parts.append(f"A person decides about {', '.join(people)}.")
    if not parts:
        parts.append("Nothing is left to undo.")
    if route.group_state not in UNWINDING_OR_AFTER:
        parts.insert(0, "The group does not unwind yet: this is what unwinding would do.")
    return " ".join(parts)
