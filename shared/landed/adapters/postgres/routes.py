"""Routes as the view holds them, whole: what their operations say and what the group knows beyond that."""

from collections.abc import Iterable
from typing import Any

import msgspec

from landed.adapters.postgres.bodies import operation_of, route_of_body
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.rows import Place
from landed.adapters.postgres.statements import statement
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState

RouteKey = tuple[str, str]
"""Tenant and route."""


class StoredRoute(msgspec.Struct):
    """A route with the places on the log of what it holds."""

    route: Route
    places: dict[str, Place] = {}
    """Of each operation."""
    head_place: Place | None = None


def load_routes(connection: Any, keys: Iterable[RouteKey]) -> dict[RouteKey, StoredRoute]:
    """The routes of *keys*; one that the view does not know comes back empty."""
    return collect_routes(keys, *start_loading(connection, keys))


def start_loading(connection: Any, keys: Iterable[RouteKey]) -> tuple[Any, Any]:
    """Cursors of the statements behind `load_routes`, for `collect_routes`: inside a pipeline they cost one round trip."""
    names = list(keys)
    parameters = {
        "tenant_ids": [escaped(tenant_id) for tenant_id, _ in names],
        "routes": [escaped(route) for _, route in names],
    }
    heads = connection.execute(statement("load_heads"), parameters, binary=True)
    operations = connection.execute(statement("load_operations"), parameters, binary=True)
    return heads, operations


def collect_routes(keys: Iterable[RouteKey], heads: Any, operations: Any) -> dict[RouteKey, StoredRoute]:
    """Routes from the cursors of `start_loading`."""
    found: dict[RouteKey, StoredRoute] = {}
    for tenant_id, route, last_offset, updated_at_ms, body in heads.fetchall():
        key = (unescaped(tenant_id), unescaped(route))
        found[key] = StoredRoute(route=route_of_body(body), head_place=Place(-1, last_offset, last_offset, updated_at_ms))
    held: dict[RouteKey, dict[str, Operation]] = {}
    places: dict[RouteKey, dict[str, Place]] = {}
    for tenant_id, route, partition, first_offset, last_offset, updated_at_ms, body in operations.fetchall():
        key = (unescaped(tenant_id), unescaped(route))
        operation = operation_of(body)
        held.setdefault(key, {})[operation.operation_id] = operation
        places.setdefault(key, {})[operation.operation_id] = Place(partition, first_offset, last_offset, updated_at_ms)
    return {key: _whole(key, found.get(key), held.get(key, {}), places.get(key, {})) for key in keys}


def _whole(key: RouteKey, stored: StoredRoute | None, operations: dict[str, Operation], places: dict[str, Place]) -> StoredRoute:
    if stored is not None:
        return StoredRoute(
            route=msgspec.structs.replace(stored.route, operations=operations), places=places, head_place=stored.head_place
        )
    # Without events of its own a group is open from its first intent on (`rows.has_row`).
    opened = any(operation.prepared_at_ms is not None for operation in operations.values())
    state = GroupState.OPEN if opened else GroupState.NONE
    return StoredRoute(route=Route(tenant_id=key[0], route=key[1], group_state=state, operations=operations), places=places)
