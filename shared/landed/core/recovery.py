"""Undoing a group: what is unresolved, what depends on what, and which inverse comes first. Pure functions over a route.

Source: docs/semantics.md §8.
"""

from landed.core.contract import milliseconds
from landed.core.state import COMPENSATE, Attempt, Operation, Route
from landed.core.vocabulary import IN_DOUBT, ForwardOutcome, GroupState, State

_GONE = frozenset({State.NONE, State.PREPARED, State.REJECTED, State.NOT_FOUND, State.CANCELLED, State.COMPENSATED})
"""Nothing to undo: the effect does not exist, or exists no more."""


def quiet_at_ms(operation: Operation) -> int | None:
    """From when no open attempt of *operation* can take effect any more; None when no attempt is open.

    An attempt that its holder did not answer counts to its lease end, one that it did answer (`outcome_unknown`) to that answer:
    whoever says how its call ended sends nothing more. Any open one counts from then for `longest_processing` (§5).
    """
    contract = operation.contract
    longest_ms = contract.longest_processing_ms if contract else 0
    ends = [last_attempt_ended_ms(attempt) + longest_ms for attempt in operation.attempts if attempt.open]
    return max(ends, default=None)


def in_flight(operation: Operation, *, now_ms: int) -> bool:
    """Whether a call of *operation* may still take effect at *now_ms*."""
    quiet = quiet_at_ms(operation)
    return quiet is not None and now_ms < quiet


def last_attempt_ended_ms(attempt: Attempt) -> int:
    """End of *attempt* for the safe window: its holder's answer, or the end of its last lease (§7)."""
    return attempt.lease_end_ms if attempt.ended_at_ms is None else attempt.ended_at_ms


def is_unresolved(operation: Operation, *, now_ms: int | None) -> bool:
    """Whether nobody knows the effect of the forward *operation*; *now_ms* None: no doubt is taken as old enough."""
    if operation.frozen_at:
        return True
    if operation.state is State.ESCALATED:
        return operation.escalated_for_doubt
    if operation.state not in IN_DOUBT:
        return False
    if operation.state is State.DISPATCHED or now_ms is None:
        return True
    contract = operation.contract
    undoable = contract is not None and ForwardOutcome.UNKNOWN in contract.safe_when()
    return not undoable or in_flight(operation, now_ms=now_ms)


def unresolved(route: Route, *, now_ms: int | None) -> tuple[Operation, ...]:
    """Forward operations of *route* that stop any undoing."""
    return tuple(op for op in route.operations.values() if not op.is_inverse and is_unresolved(op, now_ms=now_ms))


def prerequisites(operation: Operation) -> tuple[str, ...]:
    """Operations that *operation* depends on: as declared, else every step confirmed before it was claimed (§8)."""
    return operation.confirmed_before if operation.depends_on is None else operation.depends_on


def dependents(route: Route, operation_id: str) -> tuple[Operation, ...]:
    """Forward operations that depend on *operation_id*, directly or through others: their inverses come first."""
    forwards = [op for op in route.operations.values() if not op.is_inverse and op.operation_id != operation_id]
    found: dict[str, Operation] = {}
    reached = {operation_id}
    while fresh := [op for op in forwards if op.operation_id not in found and not reached.isdisjoint(prerequisites(op))]:
        found |= {op.operation_id: op for op in fresh}
        reached = {op.operation_id for op in fresh}
    return tuple(found.values())


def nothing_to_undo(operation: Operation) -> bool:
    return operation.kept or operation.state in _GONE


def comes_first(route: Route, operation_id: str) -> Operation | None:
    """Forward operation whose inverse must be settled before that of *operation_id*; None when it is due (§8, Order).

    A dependent that is not undone always comes first. Of independent steps the one confirmed later comes first, unless it is
    blocked itself, waits for a person, or both are `parallel_safe`.
    """
    for dependent in dependents(route, operation_id):
        if not nothing_to_undo(dependent):
            return dependent
    this = route.operation(operation_id)
    for other in route.operations.values():
        if other.is_inverse or other.operation_id == operation_id or nothing_to_undo(other):
            continue
        if other.state not in (State.CONFIRMED, State.COMPENSATING) or not other.compensation:
            continue
        if parallel_safe(this) and parallel_safe(other):
            continue
        under_way = any(inverse.state in IN_DOUBT for inverse in route.inverses_of(other.operation_id))
        later = confirmed_order(other) > confirmed_order(this)
        blocked = any(not nothing_to_undo(op) for op in dependents(route, other.operation_id))
        if under_way or (later and not blocked):
            return other
    return None


def confirmed_order(operation: Operation) -> tuple[int, str]:
    """Sorts independent steps by their confirmation; the last is undone first."""
    return operation.confirmed_at_ms or 0, operation.operation_id


def parallel_safe(operation: Operation) -> bool:
    """Whether every inverse that *operation* registered may run beside others."""
    contract = operation.contract
    return contract is not None and all(compensation.parallel_safe for compensation in contract.compensation)


def inverse_outstanding(route: Route, operation: Operation) -> bool:
    """Whether the effect of a forward *operation* is still to be undone and nothing waits for a person before it (fold only)."""
    if operation.is_inverse or operation.kept or operation.state not in (State.CONFIRMED, State.COMPENSATING):
        return False
    people = any(op.state is State.ESCALATED or op.review is not None for op in route.operations.values() if not op.is_inverse)
    if not people:
        return True
    if unresolved(route, now_ms=None):
        return False
    if not operation.compensation:
        return True  # the projector escalates it as irreversible
    return all(nothing_to_undo(dependent) for dependent in dependents(route, operation.operation_id))


def derived_group_state(route: Route) -> GroupState:
    """State of a group once unwinding has started: a function of its operations (§8)."""
    forwards = [op for op in route.operations.values() if not op.is_inverse]
    if any(op.state in IN_DOUBT or op.frozen_at for op in route.operations.values()):
        return GroupState.UNWINDING
    if any(op.state is State.PREPARED for op in forwards):
        return GroupState.UNWINDING
    if any(inverse_outstanding(route, op) for op in forwards):
        return GroupState.UNWINDING
    # An inverse that a person took over is `escalated` without a task of its own: X holds it, until it is decided.
    if any(op.review is not None for op in route.operations.values()):
        return GroupState.NEEDS_HUMAN
    return GroupState.UNWOUND


def inverse_until_ms(operation: Operation) -> int | None:
    """When the window of the inverse of *operation* closes; None where there is no window, or nothing left to undo."""
    contract, from_ms = operation.contract, operation.confirmed_at_ms
    if contract is None or from_ms is None or operation.kept or operation.removed_at_ms is not None:
        return None
    if operation.state not in (State.CONFIRMED, State.ESCALATED):
        return None
    windows = [one.expires_after for one in contract.compensation if one.expires_after is not None]
    return from_ms + milliseconds(min(windows)) if windows else None


def inverse_id(operation_id: str, number: int = 1) -> str:
    """Id of the *number*-th inverse of *operation_id* (§8)."""
    return f"{COMPENSATE}{operation_id}" if number == 1 else f"{COMPENSATE}{operation_id}:{number}"
