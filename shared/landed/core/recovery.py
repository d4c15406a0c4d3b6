"""Undoing a group: what is unresolved, what depends on what, and which inverse comes first. Pure functions over a route.

Source: docs/semantics.md §8.
"""

from collections.abc import Iterator

from landed.core.contract import milliseconds
from landed.core.state import COMPENSATE, Attempt, Operation, Route, forward_id_of
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


class Order:
    """What is undone before what, of all forward operations of one route: made once for each look at it.

    Of steps that claim to depend on each other, which only a log with grants of observe mode can say, none depends on the other.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._forwards = [op for op in route.operations.values() if not op.is_inverse]
        self._place = {op.operation_id: at for at, op in enumerate(self._forwards)}
        self._above = self._dependents_of_each()
        self._standing = sum(1 << at for at, op in enumerate(self._forwards) if not nothing_to_undo(op))
        self._first = sorted(self._may_come_first(), key=lambda one: (one[1], confirmed_order(one[0])), reverse=True)
        self._first_of_all = [one for one in self._first if not parallel_safe(one[0])]

    def dependents(self, operation_id: str) -> tuple[Operation, ...]:
        """Forward operations that depend on *operation_id*, directly or through others: their inverses come first."""
        return tuple(self._forwards[at] for at in _bits(self._above_of(operation_id)))

    def waits_for_dependent(self, operation_id: str) -> bool:
        """Whether something that depends on *operation_id* is not undone."""
        return bool(self._above_of(operation_id) & self._standing)

    def comes_first(self, operation_id: str) -> Operation | None:
        """Forward operation whose inverse must be settled before that of *operation_id*; None when it is due (§8, Order).

        A dependent that is not undone always comes first. Of independent steps the one confirmed later comes first, unless it is
        blocked itself, waits for a person, or both are `parallel_safe`.
        """
        waited_for = [self._forwards[at] for at in _bits(self._above_of(operation_id) & self._standing)]
        if waited_for:
            return next((op for op in waited_for if not self.waits_for_dependent(op.operation_id)), waited_for[0])
        this = self._route.operation(operation_id)
        candidates = self._first_of_all if parallel_safe(this) else self._first
        other, under_way = next((one for one in candidates if one[0].operation_id != operation_id), (None, False))
        # The candidates after it are neither under way nor confirmed later than it.
        return other if other and (under_way or confirmed_order(other) > confirmed_order(this)) else None

    def _may_come_first(self) -> Iterator[tuple[Operation, bool]]:
        """Steps that others may have to wait for, and whether the inverse is under way."""
        operations = self._route.operations
        under_way = {forward_id_of(op.operation_id, operations) for op in operations.values() if op.state in IN_DOUBT}
        for op in self._forwards:
            if op.state not in (State.CONFIRMED, State.COMPENSATING) or op.kept or not op.compensation:
                continue
            if op.operation_id in under_way or not self.waits_for_dependent(op.operation_id):
                yield op, op.operation_id in under_way

    def _above_of(self, operation_id: str) -> int:
        at = self._place.get(operation_id)
        return 0 if at is None else self._above[at]

    def _dependents_of_each(self) -> list[int]:
        """By place, the places of all that depend on it, at any remove, as bits: a group may have thousands of steps."""
        below = [[at for name in prerequisites(op) if (at := self._place.get(name)) is not None] for op in self._forwards]
        above = [0] * len(self._forwards)
        # What depends on a step was confirmed after it, so that one turn reaches all but in a log with odd times.
        latest_first = sorted(range(len(above)), key=lambda at: confirmed_order(self._forwards[at]), reverse=True)
        again = True
        while again:
            again, passed = False, [False] * len(above)
            for at in latest_first:
                reached, passed[at] = above[at] | 1 << at, True
                for lower in below[at]:
                    more = above[lower] | reached
                    if more != above[lower]:
                        above[lower], again = more, again or passed[lower]
        # Only of a step in a circle are there dependents that it depends on, itself among them.
        return [
            sum(1 << other for other in _bits(all_above) if not above[other] >> at & 1) if all_above >> at & 1 else all_above
            for at, all_above in enumerate(above)
        ]


def _bits(places: int) -> Iterator[int]:
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def nothing_to_undo(operation: Operation) -> bool:
    return operation.kept or operation.state in _GONE


def comes_first(route: Route, operation_id: str) -> Operation | None:
    """See `Order.comes_first`."""
    return Order(route).comes_first(operation_id)


def confirmed_order(operation: Operation) -> tuple[int, str]:
    """Sorts independent steps by their confirmation; the last is undone first."""
    return operation.confirmed_at_ms or 0, operation.operation_id


def parallel_safe(operation: Operation) -> bool:
    """Whether every inverse that *operation* registered may run beside others."""
    contract = operation.contract
    return contract is not None and all(compensation.parallel_safe for compensation in contract.compensation)


def inverse_outstanding(route: Route) -> bool:
    """Whether an effect of *route* is still to be undone and nothing waits for a person before it (fold only)."""
    standing = [
        op
        for op in route.operations.values()
        if not op.is_inverse and not op.kept and op.state in (State.CONFIRMED, State.COMPENSATING)
    ]
    if not standing:
        return False
    people = any(op.state is State.ESCALATED or op.review is not None for op in route.operations.values() if not op.is_inverse)
    if not people:
        return True
    if unresolved(route, now_ms=None):
        return False
    if not all(op.compensation for op in standing):
        return True  # the projector escalates it as irreversible
    order = Order(route)
    return not all(order.waits_for_dependent(op.operation_id) for op in standing)


def derived_group_state(route: Route) -> GroupState:
    """State of a group once unwinding has started: a function of its operations (§8)."""
    forwards = [op for op in route.operations.values() if not op.is_inverse]
    if any(op.state in IN_DOUBT or op.frozen_at for op in route.operations.values()):
        return GroupState.UNWINDING
    if any(op.state is State.PREPARED for op in forwards):
        return GroupState.UNWINDING
    if inverse_outstanding(route):
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
