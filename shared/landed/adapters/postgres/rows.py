"""Rows of the view: what each table holds of a state. Pure; the projector writes them, `landed verify` compares them."""

from typing import Any, Final, NamedTuple

from landed.adapters.postgres.bodies import operation_body, route_body
from landed.adapters.postgres.escaping import escaped
from landed.core.approvals import open_approval
from landed.core.identity import route_of
from landed.core.reconciliation import due_at_ms, priority
from landed.core.recovery import inverse_until_ms
from landed.core.state import Operation, Route, forward_id_of, shown_outcome

OPERATION_COLUMNS: Final = {
    "tenant_id": "text",
    "route": "text",
    "operation_id": "text",
    "partition": "int4",
    "group_id": "text",
    "first_offset": "int8",
    "last_offset": "int8",
    "updated_at_ms": "int8",
    "state": "text",
    "outcome": "text",
    "tool": "text",
    "effect_type": "text",
    "version": "int8",
    "attempt": "int8",
    "claim_id": "text",
    "lease_end_ms": "int8",
    "next_check_at_ms": "int8",
    "doubt_since_ms": "int8",
    "due_at_ms": "int8",
    "stakes_rank": "int2",
    "gives_up_at_ms": "int8",
    "prepared_at_ms": "int8",
    "settled_at_ms": "int8",
    "reference": "text",
    "error_code": "text",
    "escalated_for": "text",
    "review_id": "int8",
    "review_since_ms": "int8",
    "review_queue": "text",
    "review_reasons": "text[]",
    "approval_id": "text",
    "approval_expires_at_ms": "int8",
    "replaces": "text",
    "replaced_by": "text",
    "earlier_references": "text[]",
    "inverse_until_ms": "int8",
    "frozen": "bool",
    "final": "bool",
    "body": "bytea",
}
"""Columns of `operations` in the order of `operation_row`, with their types."""

ROUTE_COLUMNS: Final = {
    "tenant_id": "text",
    "route": "text",
    "partition": "int4",
    "last_offset": "int8",
    "updated_at_ms": "int8",
    "group_state": "text",
    "workflow_type": "text",
    "parent_group": "text",
    "version": "int8",
    "body": "bytea",
}
"""Columns of `routes` in the order of `route_row`."""

EVENT_COLUMNS: Final = {
    "partition": "int4",
    "log_offset": "int8",
    "event_id": "text",
    "tenant_id": "text",
    "route": "text",
    "operation_id": "text",
    "type": "text",
    "at_ms": "int8",
    "accepted": "bool",
    "reason": "text",
    "mark": "text",
    "digest": "bytea",
    "value": "bytea",
}
"""Columns of `events` in the order in which they are written."""

REFUSED_COLUMNS: Final = {
    "partition": "int4",
    "log_offset": "int8",
    "reason": "text",
    "field": "text",
    "at_ms": "int8",
    "digest": "bytea",
    "record_key": "bytea",
    "first_bytes": "bytea",
    "froze": "bool",
}
"""Columns of `refused_records` in the order in which they are written."""

Row = tuple[Any, ...]

_BIGINT: Final = 2**63 - 1


class Place(NamedTuple):
    """Where on the log an operation or a group came up and changed last."""

    partition: int
    first_offset: int
    last_offset: int
    updated_at_ms: int | None


def group_id_of(route: Route, operation: Operation) -> str | None:
    """Group of *operation*; None when it is a group of its own."""
    alone = forward_id_of(operation.operation_id, route.operations) or route_of(operation.operation_id, None)
    return None if route.route == alone else route.route


def operation_row(route: Route, operation: Operation, place: Place) -> Row:
    """Row of `operations`, in the order of `OPERATION_COLUMNS`."""
    last, review, approval = operation.last, operation.review, open_approval(operation)
    outcome = shown_outcome(operation)
    due_ms = None if operation.final else due_at_ms(operation)
    urgent = None if due_ms is None else priority(operation)
    return (
        escaped(route.tenant_id),
        escaped(route.route),
        escaped(operation.operation_id),
        place.partition,
        escaped(group_id_of(route, operation)),
        place.first_offset,
        place.last_offset,
        place.updated_at_ms,
        operation.state.value,
        None if outcome is None else outcome.value,
        escaped(operation.tool),
        escaped(operation.effect_type),
        operation.version,
        None if last is None else last.number,
        None if last is None else escaped(last.claim_id),
        None if last is None else _bigint(last.lease_end_ms),
        operation.next_check_at_ms,
        operation.doubt_since_ms,
        _bigint(due_ms),
        None if urgent is None else urgent.stakes,
        None if urgent is None else _bigint(urgent.gives_up_at_ms),
        operation.prepared_at_ms,
        operation.settled_at_ms,
        escaped(operation.references[-1].value) if operation.references else None,
        escaped(operation.error_code),
        None if operation.escalated_for is None else operation.escalated_for.value,
        None if review is None else review.review_id,
        None if review is None else review.opened_at_ms,
        None if review is None else escaped(review.queue),
        None if review is None else list(review.reasons),
        None if approval is None else escaped(approval.approval_id),
        None if approval is None else _bigint(approval.expires_at_ms),
        escaped(operation.replaces),
        escaped(operation.replaced_by),
        [escaped(one.value) for one in operation.references[:-1]] if len(operation.references) > 1 else None,
        _bigint(inverse_until_ms(operation)),
        bool(operation.frozen_at),
        operation.final,
        operation_body(operation),
    )


def route_row(route: Route, place: Place) -> Row:
    """Row of `routes`, in the order of `ROUTE_COLUMNS`."""
    return (
        escaped(route.tenant_id),
        escaped(route.route),
        place.partition,
        place.last_offset,
        place.updated_at_ms,
        route.group_state.value,
        escaped(route.workflow_type),
        escaped(route.parent_group),
        route.version,
        route_body(route),
    )


def has_row(route: Route) -> bool:
    """Whether *route* knows more than its operations say; `group_state` without events of the group follows from them."""
    return route.version > 0 or bool(route.seen) or bool(route.frozen_at)


def _bigint(value: int | None) -> int | None:
    # A lease of 2^63 ms is a caller's mistake, not a reason to stop a partition.
    return value if value is None else max(-_BIGINT, min(value, _BIGINT))
