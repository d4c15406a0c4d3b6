"""An inverse moves its forward operation in the same step of the fold, and a decision about the forward one moves its inverse.

Source: docs/semantics.md §8.
"""

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.inverse import came_undone, leads_to_next
from landed.core.state import Operation, Route, has_attempt_left
from landed.core.tasks import escalated, without_doubt_task
from landed.core.vocabulary import Choice, EscalationReason, State
from landed.core.writing import settled


def put(route: Route, *operations: Operation) -> Route:
    return replace(route, operations={**route.operations, **{op.operation_id: op for op in operations}})


def couple(route: Route, before: Operation, inverse: Operation, entry: ev.Entry) -> tuple[Route, tuple[str, ...]]:
    """Moves X in the same step as `compensate:X` (§8), and the inverse when a reviewer decides about X."""
    event = entry.event
    if isinstance(event, ev.ReviewDecided) and not inverse.is_inverse:
        return _review_of_forward(route, inverse, event, entry.at_ms)
    if before.state is State.NONE and isinstance(event, ev.OperationPrepared) and event.replaces in route.operations:
        old = route.operations[event.replaces]
        if old.replaced_by is None:
            return put(route, replace(old, replaced_by=inverse.operation_id)), (old.operation_id,)
    forward = route.forward_of(inverse.operation_id)
    if forward is None:
        return route, ()
    moved = forward
    if isinstance(event, ev.DispatchGranted):
        moved = replace(forward, state=State.COMPENSATING)
    elif inverse.state is State.CONFIRMED and before.state is not State.CONFIRMED:
        if forward.state is State.COMPENSATING or (forward.state is State.ESCALATED and not forward.escalated_for_doubt):
            moved = without_doubt_task(replace(forward, state=State.COMPENSATED))
    elif _counted_on(forward, event) and _ended_badly(inverse) and not leads_to_next(forward, inverse):
        # One problem, one task: it is held by the forward operation.
        quiet = replace(inverse, review=None)
        failed = escalated(forward, EscalationReason.INVERSE_FAILED, entry.at_ms)
        return put(route, quiet, failed), (forward.operation_id,)
    if moved is forward:
        return route, ()
    moved = settled(moved, forward, entry.at_ms)
    return put(route, moved), (moved.operation_id,)


def _counted_on(forward: Operation, event: ev.Event) -> bool:
    """Whether *forward* is undone by its inverse, or was until that came undone itself (a refund that fails days later)."""
    if forward.state is State.COMPENSATED and not forward.final:
        return isinstance(event, ev.EffectReverted)
    return forward.state is State.COMPENSATING


def _ended_badly(inverse: Operation) -> bool:
    match inverse.state:
        case State.ESCALATED | State.CANCELLED:
            return True
        case State.REJECTED | State.NOT_FOUND:
            return not has_attempt_left(inverse)
        case _:
            return False


def _review_of_forward(route: Route, forward: Operation, event: ev.ReviewDecided, at_ms: int) -> tuple[Route, tuple[str, ...]]:
    changed: list[Operation] = []
    for known in route.inverses_of(forward.operation_id):
        inverse = known
        if event.choice is Choice.COMPENSATING and forward.state is State.COMPENSATING:
            # What was denied before the person decided is asked anew, with that person's approval.
            inverse = replace(known, authorization=None)
            if known.state in (State.REJECTED, State.NOT_FOUND, State.CANCELLED) or came_undone(known):
                inverse = replace(
                    inverse,
                    state=State.NOT_FOUND,
                    review=None,
                    escalated_for=None,
                    attempts_by_review=known.attempts_counted + 1,
                )
        elif event.choice is Choice.KEPT and known.state in (State.PREPARED, State.ESCALATED):
            inverse = replace(known, state=State.CANCELLED, review=None, escalated_for=None)
        if inverse != known:
            changed.append(inverse)
    changed = [settled(moved, route.operation(moved.operation_id), at_ms) for moved in changed]
    return (put(route, *changed), tuple(op.operation_id for op in changed)) if changed else (route, ())
