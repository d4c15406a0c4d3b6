"""The timeline of an operation: what happened, when, by whom, where on the log, and on what evidence. Presentation-free."""

from collections.abc import Iterable
from typing import Any

import msgspec

from landed.core import events as ev
from landed.core.fold import Folded, empty_route, fold
from landed.core.state import Route


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a person reads it."""

    at_ms: int
    """Append time of the log, milliseconds since the epoch, UTC."""
    event: str
    operation_id: str | None
    actor: str
    partition: int
    offset: int
    evidence: str
    accepted: bool
    reason: str | None = None
    """Why the fold refused it."""
    state: str | None = None
    """State of the operation after it."""


def timeline(entries: Iterable[ev.Entry], operation_id: str | None = None) -> tuple[list[TimelineRow], Route | None]:
    """Rows of the events of one route in log order, and the state that they fold to.

    Args:
        operation_id: only rows of this operation (the route is folded whole all the same).
    """
    route: Route | None = None
    rows = []
    for entry in entries:
        event = entry.event
        route = route or empty_route(event.tenant_id, event.route)
        folded = fold(route, entry)
        route = folded.route
        if operation_id is None or event.operation_id == operation_id:
            rows.append(_row(entry, folded))
    return rows, route


def _row(entry: ev.Entry, folded: Folded) -> TimelineRow:
    event = entry.event
    reason = "repeated" if folded.repeated else folded.reason
    return TimelineRow(
        at_ms=entry.at_ms,
        event=ev.TYPE_OF[type(event)],
        operation_id=event.operation_id,
        actor=event.actor,
        partition=entry.position.partition,
        offset=entry.position.offset,
        evidence=evidence_of(event),
        accepted=folded.accepted,
        reason=None if folded.accepted else reason,
        state=str(folded.route.operation(event.operation_id).state) if event.operation_id else str(folded.route.group_state),
    )


def evidence_of(event: ev.Event) -> str:
    """What *event* rests on, in one line, without content that is not on the log."""
    match event:
        case ev.OperationPrepared():
            inverse = ", ".join(event.compensation) or "no inverse"
            claim = f", claim {event.claim.claim_id[:8]}" if event.claim else ""
            return f"{event.tool}, request {event.request_hash[:12]}, inverse: {inverse}{claim}"
        case ev.DispatchRequested():
            return f"claim {event.claim.claim_id[:8]} of {event.claim.worker}"
        case ev.DispatchGranted():
            return f"claim {event.claim_id[:8]}, attempt {event.attempt}, lease {event.lease_ms / 1000:g} s"
        case ev.DispatchRefused():
            return f"claim {event.claim_id[:8]}: {event.reason}{_details(event.detail)}"
        case ev.DispatchReleased():
            return f"claim {event.claim_id[:8]}: {event.why}"
        case ev.LeaseRenewed():
            return f"attempt {event.attempt}, renewal {event.lease_number}"
        case ev.LeaseExpired():
            return f"attempt {event.attempt}, nobody answered before the lease ended"
        case ev.OutcomeUnknown():
            return f"attempt {event.attempt}, {event.error_class}, bytes left: {event.bytes_left}{_reference(event.reference)}"
        case ev.OutcomeConfirmed():
            matched = f", by {', '.join(event.matched_on)}" if event.matched_on else ""
            return f"{_by(event)}{_reference(event.reference)}{matched}"
        case ev.OutcomeRejected():
            return f"{_by(event)}, {event.error_code}"
        case ev.ProbeRecorded():
            status = f" ({event.status})" if event.status else ""
            matched = f", by {', '.join(event.matched_on)}" if event.matched_on else ""
            return f"look {event.number} ({event.read_kind}): {event.result}{status}{_reference(event.reference)}{matched}"
        case ev.AbsenceEstablished():
            return f"attempt {event.attempt}, absent {event.safe_window_ms / 1000:g} s after it ended ({event.read_kind})"
        case ev.OperationEscalated():
            return f"{event.reason}, queue {event.queue}"
        case ev.ReviewDecided():
            return f"review {event.review_id}: {event.choice} by {event.reviewer}, {event.reason}"
        case _:
            return ", ".join(f"{name}={_plain(value)}" for name, value in _body(event) if value not in (None, [], {}))


def _by(event: ev.OutcomeConfirmed | ev.OutcomeRejected) -> str:
    return f"by {event.source}" + ("" if event.webhook_id is None else f" {event.webhook_id}")


def _reference(reference: str | None) -> str:
    return "" if reference is None else f", reference {reference}"


def _details(detail: dict[str, str]) -> str:
    shown = {name: value for name, value in detail.items() if name != "receipt"}
    return "".join(f", {name} {value}" for name, value in shown.items())


def _body(event: ev.Event) -> Iterable[tuple[str, Any]]:
    envelope = set(ev.Event.__struct_fields__)
    return ((name, getattr(event, name)) for name in event.__struct_fields__ if name not in envelope)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
