"""What a reviewer may choose now, and why a choice has to wait: the rules that the fold checks, told before it refuses. Pure.

Source: docs/semantics.md §10.
"""

import msgspec

from landed.core.guards import choice_safe_from_ms, inverse_in_doubt
from landed.core.state import Operation, Route, choices_of
from landed.core.vocabulary import Choice


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One choice of an open review task."""

    choice: Choice
    meaning: str
    from_ms: int | None = None
    """From when it may be chosen, where that is not now; milliseconds since the epoch, UTC."""
    blocked_by: str | None = None
    """What has to be settled first: an inverse of which nobody knows whether it happened."""

    @property
    def is_open(self) -> bool:
        return self.from_ms is None and self.blocked_by is None


MEANINGS = {
    Choice.CONFIRMED: "the effect exists; name its reference if you know it",
    Choice.REJECTED: "the provider refused it, it had no effect",
    Choice.NOT_FOUND: "it does not exist; one more attempt is allowed",
    Choice.UNKNOWN: "nobody knows yet; it is probed again from the start",
    Choice.CANCELLED: "give it up; nothing more is sent, whatever happened",
    Choice.KEPT: "the effect stays, its inverse is cancelled",
    Choice.COMPENSATED: "it was undone by hand",
    Choice.COMPENSATING: "its inverse gets one more attempt",
    Choice.ACKNOWLEDGED: "seen; the state stays as it is",
}


def offers(route: Route, operation: Operation, *, now_ms: int) -> tuple[Offer, ...]:
    """Choices of the open task of *operation*, in the order of the norm; none where no task is open."""
    task = operation.review
    if task is None:
        return ()
    choices = (Choice.ACKNOWLEDGED,) if operation.final else choices_of(task, operation)
    return tuple(_offer(route, operation, choice, now_ms) for choice in choices)


def _offer(route: Route, operation: Operation, choice: Choice, now_ms: int) -> Offer:
    safe_from_ms = choice_safe_from_ms(route, operation, choice)
    blocking = inverse_in_doubt(route, operation) if choice is Choice.COMPENSATING else None
    return Offer(
        choice=choice,
        meaning=MEANINGS[choice],
        from_ms=safe_from_ms if safe_from_ms is not None and now_ms < safe_from_ms else None,
        blocked_by=None if blocking is None else blocking.operation_id,
    )
