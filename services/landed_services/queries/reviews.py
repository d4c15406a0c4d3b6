"""Review tasks as people read them: a queue by tenant, and one task with everything needed to decide it. Presentation-free.

What is shown was redacted before it came to the log: only declared arguments, receipts and evidence are there.
"""

from typing import Any

import msgspec

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.offers import Offer, offers
from landed.core.state import Operation
from landed.core.statements import disagrees_now
from landed.core.vocabulary import Stakes
from landed.core.wording import label, sentence
from landed_services.queries.operations import Known, events_of, found, route_of, timeline_of
from landed_services.queries.timeline import TimelineRow

LIMIT = 200


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """An open review task in a queue."""

    id: str
    """Names the task as it stands: `<operation id>#<review id>`."""
    operation_id: str
    review_id: int
    route: str
    group_id: str | None
    queue: str
    """Owner of the task."""
    reasons: tuple[str, ...]
    opened_at_ms: int
    age_s: float
    stakes: Stakes
    tool: str | None
    effect_type: str | None
    state: str
    label: str
    sentence: str
    told: str | None
    """What an agent told its user last, where that is not what the ledger says."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of evidence, redacted, with its place on the log."""

    at_ms: int
    event: str
    by: str
    says: str
    """JSON where the evidence is a document."""


class ReviewDetail(msgspec.Struct, frozen=True, kw_only=True):
    review: Review
    offers: tuple[Offer, ...]
    request: dict[str, Any]
    """The intended request: tool, hash, and the arguments that the contract allows on the log."""
    attempts: int
    references: tuple[str, ...]
    receipt: str | None
    follow_up: str | None
    """What the contract offers where there is no inverse."""
    claimed_states: tuple[str, ...]
    """What agents told their users, oldest first."""
    children: tuple[tuple[str, str], ...]
    """Groups that were opened under this one, each with its state."""
    evidence: tuple[Evidence, ...]
    timeline: tuple[TimelineRow, ...]


def open_reviews(
    connection: Any,
    tenant_id: str,
    *,
    queue: str | None = None,
    reason: str | None = None,
    age_s: float = 0.0,
    prefix: str | None = None,
    limit: int = LIMIT,
) -> list[Review]:
    """Open tasks of *tenant_id*, oldest first.

    Args:
        reason: only tasks with this reason.
        age_s: only tasks that are open for at least so long, seconds.
        prefix: only operations whose id begins so.
    """
    return [review_of(known) for known in known_reviews(connection, tenant_id, queue, reason, age_s, prefix, limit)]


def known_reviews(
    connection: Any,
    tenant_id: str,
    queue: str | None = None,
    reason: str | None = None,
    age_s: float = 0.0,
    prefix: str | None = None,
    limit: int = LIMIT,
) -> list[Known]:
    """The operations behind `open_reviews`."""
    parameters = {
        "queue": escaped(queue),
        "reason": reason,
        "age_ms": round(age_s * 1000),
        "prefix": escaped(prefix),
        "limit": limit,
    }
    return found(connection, "reviews_open", tenant_id, parameters)


def review_of(known: Known) -> Review:
    operation, task = known.operation, known.operation.review
    if task is None:
        raise ValueError(f"{operation.operation_id!r} has no open review task")
    contract = operation.contract
    return Review(
        id=f"{operation.operation_id}#{task.review_id}",
        operation_id=operation.operation_id,
        review_id=task.review_id,
        route=known.route,
        group_id=known.group_id,
        queue=task.queue,
        reasons=task.reasons,
        opened_at_ms=task.opened_at_ms,
        age_s=max(0, known.now_ms - task.opened_at_ms) / 1000,
        stakes=contract.stakes if contract else Stakes.NONE,
        tool=operation.tool,
        effect_type=operation.effect_type,
        state=operation.state,
        label=label(operation, known.group_state),
        sentence=sentence(operation, known.group_state),
        told=operation.claimed_states[-1] if disagrees_now(operation) else None,
    )


def review_detail(connection: Any, known: Known) -> ReviewDetail:
    """Everything about the open task of *known*."""
    operation = known.operation
    contract = operation.contract
    return ReviewDetail(
        review=review_of(known),
        offers=offers(route_of(connection, known), operation, now_ms=known.now_ms),
        request=_request(operation),
        attempts=operation.attempts_counted,
        references=tuple(reference.value for reference in operation.references),
        receipt=operation.receipt,
        follow_up=contract.follow_up if contract else None,
        claimed_states=operation.claimed_states,
        children=_children(connection, known),
        evidence=tuple(_evidence(entry) for entry, _, _ in events_of(connection, known) if _says(entry.event) is not None),
        timeline=tuple(timeline_of(connection, known)),
    )


def _request(operation: Operation) -> dict[str, Any]:
    stored = None if operation.stored_args is None else msgspec.json.decode(operation.stored_args)
    return {"tool": operation.tool, "request_hash": operation.request_hash, "stored_args": stored}


def _children(connection: Any, known: Known) -> tuple[tuple[str, str], ...]:
    if known.group_id is None:
        return ()
    names = {"tenant_id": escaped(known.tenant_id), "group_id": escaped(known.group_id)}
    rows = connection.execute(statement("children_of_group"), names).fetchall()
    return tuple((unescaped(route) or "", state) for route, state in rows)


def _evidence(entry: ev.Entry) -> Evidence:
    return Evidence(at_ms=entry.at_ms, event=ev.TYPE_OF[type(entry.event)], by=entry.event.actor, says=_says(entry.event) or "")


def _says(event: ev.Event) -> str | None:
    """The document that *event* brings as evidence; None where it brings none."""
    match event:
        case ev.OutcomeConfirmed():
            return event.receipt
        case ev.OutcomeRejected() | ev.ProbeRecorded() | ev.OperationEscalated() | ev.EffectReverted() | ev.ReviewDecided():
            return event.evidence
        case _:
            return None
