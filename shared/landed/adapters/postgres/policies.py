"""Policies as the view holds them: each is the route of its key."""

from collections.abc import Iterable
from typing import Any

from landed.adapters.postgres.bodies import route_of_body
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement
from landed.core.policy import Policies, policies_of
from landed.core.state import Route


def load_policies(connection: Any, tenant_ids: Iterable[str]) -> dict[str, Policies]:
    """The policies of each of *tenant_ids*; one that never set any has `NO_POLICIES`."""
    found: dict[str, list[Route]] = {tenant_id: [] for tenant_id in tenant_ids}
    rows = connection.execute(
        statement("load_policies"), {"tenant_ids": [escaped(tenant_id) for tenant_id in found]}, binary=True
    ).fetchall()
    for tenant_id, body in rows:
        name = unescaped(tenant_id)
        if name is not None:
            found[name].append(route_of_body(body))
    return {tenant_id: policies_of(routes) for tenant_id, routes in found.items()}
