"""A reviewer's decision: checked against the task as it stands, appended, and what the fold says about it (semantics.md §10)."""

from typing import Any

import msgspec

from landed.core import events as ev
from landed.core.offers import Offer, offers
from landed.core.vocabulary import Choice
from landed.ports.log import EventLog
from landed_services.people.appending import put
from landed_services.people.errors import DecisionRefused, NotThere, PeopleError
from landed_services.people.times import utc
from landed_services.queries.operations import Known, events_of, named, route_of
from landed_services.queries.reviews import known_reviews

LISTED = 5


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that holds."""

    operation_id: str
    review_id: int
    choice: Choice
    state: str
    """State of the operation after it."""
    at_ms: int


def review_named(connection: Any, tenant_id: str, name: str) -> tuple[Known, int | None]:
    """The operation whose task *name* means (`<operation id or its beginning>[#<review id>]`), and the review id that it gives.

    Raises:
        NotThere: no operation of the tenant fits, or several do.
    """
    wanted, mark, number = name.rpartition("#")
    if not mark or not number.isdigit():
        wanted, number = name, ""
    known = known_reviews(connection, tenant_id, prefix=wanted, limit=LISTED + 1) if wanted else []
    exact = [one for one in known if one.operation.operation_id == wanted] or named(connection, tenant_id, wanted)
    fitting = exact or known
    if not fitting:
        raise NotThere(f"no operation of tenant {tenant_id!r} begins with {wanted!r} and has an open review: landed reviews list")
    if len(fitting) > 1:
        open_ones = [one for one in fitting if one.operation.review is not None]
        if len(open_ones) != 1:
            names = ", ".join(one.operation.operation_id for one in fitting[:LISTED])
            raise NotThere(f"{wanted!r} fits several: {names}{', …' if len(fitting) > LISTED else ''}")
        fitting = open_ones
    return fitting[0], int(number) if number else None


def decide(
    log: EventLog,
    connection: Any,
    known: Known,
    review_id: int,
    choice: Choice,
    *,
    reviewer: str,
    reason: str,
    reference: str | None = None,
    evidence: str | None = None,
) -> Decided:
    """Takes the decision of *reviewer* about the task *review_id* of *known*, as they saw it.

    Args:
        evidence: JSON, redacted.

    Raises:
        PeopleError: reviewer or reason is missing.
        DecisionRefused: the task is closed or another one by now, or the choice is not offered (now).
        NotSeenYet, AppendFailed: see `put`.
    """
    for field, text in (("reviewer", reviewer), ("reason", reason)):
        if not text.strip():
            raise PeopleError(f"{field}: must not be empty")
    if reference is not None and choice is not Choice.CONFIRMED:
        raise PeopleError("reference: goes with the choice `confirmed` only")
    _check(connection, known, review_id, choice)
    operation = known.operation
    event = ev.ReviewDecided(
        event_id="",
        tenant_id=known.tenant_id,
        route=known.route,
        operation_id=operation.operation_id,
        group_id=known.group_id,
        actor=reviewer,
        seen_version=operation.version,
        review_id=review_id,
        choice=choice,
        reviewer=reviewer,
        reason=reason,
        reference=reference,
        evidence=evidence,
    )
    folded = put(log, connection, event)
    now = next(one for one in named(connection, known.tenant_id, operation.operation_id) if one.route == known.route)
    if not folded.accepted:
        # Somebody, or some news, was faster: say what is so now.
        _check(connection, now, review_id, choice)
        raise DecisionRefused(f"review {operation.operation_id}#{review_id}: refused ({folded.reason})")
    return Decided(
        operation_id=operation.operation_id,
        review_id=review_id,
        choice=choice,
        state=now.operation.state,
        at_ms=folded.at_ms,
    )


def _check(connection: Any, known: Known, review_id: int, choice: Choice) -> None:
    operation, task = known.operation, known.operation.review
    name = f"review {operation.operation_id}#{review_id}"
    if task is None:
        raise DecisionRefused(f"{name} is closed: {_closed_by(connection, known)}")
    if review_id < task.review_id:
        raise DecisionRefused(
            f"{name} is an older one: since then {', '.join(task.reasons[-(task.review_id - review_id) :])} was added. "
            f"Look at it again: landed reviews show {operation.operation_id}"
        )
    if review_id > task.review_id:
        raise DecisionRefused(f"{name} does not exist; the open one is {operation.operation_id}#{task.review_id}")
    offered = offers(route_of(connection, known), operation, now_ms=known.now_ms)
    offer = next((one for one in offered if one.choice is choice), None)
    if offer is None:
        raise DecisionRefused(f"{name} does not offer {choice}; it offers {', '.join(one.choice for one in offered)}")
    if not offer.is_open:
        raise DecisionRefused(f"{name}: {choice} {_waits(offer)}")


def _waits(offer: Offer) -> str:
    if offer.blocked_by is not None:
        return f"has to wait: nobody knows yet whether {offer.blocked_by} happened"
    return f"leads to another call, so it is offered only once nothing can be under way: from {utc(offer.from_ms or 0)}"


def _closed_by(connection: Any, known: Known) -> str:
    """Who or what closed the last task of *known*."""
    operation = known.operation
    if not operation.reviews:
        return "there never was one"
    for entry, accepted, _ in reversed(events_of(connection, known)):
        event = entry.event
        if isinstance(event, ev.ReviewDecided) and accepted:
            return f"{event.reviewer} decided {event.choice} at {utc(entry.at_ms)} ({event.reason})"
        if isinstance(event, ev.OutcomeConfirmed | ev.OutcomeRejected) and accepted:
            return f"news settled the operation at {utc(entry.at_ms)}: it is {operation.state}"
    return f"the operation is {operation.state}"
