"""Operations as people ask for them: by tenant, with their route, from the view. Every query names the tenant."""

from collections.abc import Mapping
from typing import Any

import msgspec

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.routes import load_routes
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState
from landed.wire.codec import decode
from landed.wire.errors import DecodeError
from landed_services.queries.timeline import TimelineRow, evidence_of


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as the view holds it."""

    tenant_id: str
    route: str
    group_id: str | None
    group_state: GroupState
    operation: Operation
    now_ms: int
    """The database's clock, which decides."""


def found(connection: Any, name: str, tenant_id: str, parameters: Mapping[str, Any]) -> list[Known]:
    """Operations of *tenant_id* that the statement *name* selects."""
    rows = connection.execute(statement(name), {**parameters, "tenant_id": escaped(tenant_id)}).fetchall()
    return [
        Known(
            tenant_id=tenant_id,
            route=unescaped(route) or "",
            group_id=unescaped(group_id),
            group_state=GroupState(group_state),
            operation=operation_of(bytes(body)),
            now_ms=now_ms,
        )
        for route, group_id, group_state, body, now_ms in rows
    ]


def named(connection: Any, tenant_id: str, operation_id: str) -> list[Known]:
    """Operations of *tenant_id* under that id."""
    return found(connection, "operations_named", tenant_id, {"operation_id": escaped(operation_id)})


def route_of(connection: Any, known: Known) -> Route:
    """The whole route of *known*."""
    key = (known.tenant_id, known.route)
    return load_routes(connection, [key])[key].route


def events_of(connection: Any, known: Known) -> list[tuple[ev.Entry, bool, str | None]]:
    """Events of *known* in log order: each with whether the fold took it, and why not. What cannot be decoded is left out."""
    parameters = {"tenant_id": known.tenant_id, "route": known.route, "operation_id": known.operation.operation_id}
    return entries(connection, "events_of_operation", parameters)


def timeline_of(connection: Any, known: Known) -> list[TimelineRow]:
    """The timeline of *known* as the view holds it."""
    return [_row(*one) for one in events_of(connection, known)]


def timeline_of_route(connection: Any, tenant_id: str, route: str) -> list[TimelineRow]:
    """The timeline of a group and of all its operations, as the view holds it."""
    return [_row(*one) for one in entries(connection, "events_of_route", {"tenant_id": tenant_id, "route": route})]


def entries(connection: Any, name: str, parameters: Mapping[str, str]) -> list[tuple[ev.Entry, bool, str | None]]:
    """The events that the statement *name* selects, with what the fold made of each; what cannot be read is passed over."""
    rows = connection.execute(statement(name), {field: escaped(text) for field, text in parameters.items()}).fetchall()
    listed = []
    for partition, offset, at_ms, accepted, reason, value in rows:
        try:
            event = decode(bytes(value))
        except DecodeError:
            continue
        entry = ev.Entry(event=event, position=ev.Position(partition=partition, offset=offset), at_ms=at_ms or 0, digest="")
        listed.append((entry, accepted, unescaped(reason)))
    return listed


def _row(entry: ev.Entry, accepted: bool, reason: str | None) -> TimelineRow:
    return TimelineRow(
        at_ms=entry.at_ms,
        event=ev.TYPE_OF[type(entry.event)],
        operation_id=entry.event.operation_id,
        actor=entry.event.actor,
        partition=entry.position.partition,
        offset=entry.position.offset,
        evidence=evidence_of(entry.event),
        accepted=accepted,
        reason=reason,
    )
