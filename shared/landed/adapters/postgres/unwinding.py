"""Groups that are being undone, from the view: whole, with the policies of their tenants."""

from collections.abc import Collection
from typing import Any

import msgspec

from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.policies import load_policies
from landed.adapters.postgres.routes import RouteKey, load_routes
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.core.policy import Policies
from landed.core.state import Route

BEGINNING: RouteKey = ("", "")


class UnwindingGroup(msgspec.Struct, frozen=True):
    """A group in state `unwinding`, or an operation that is a group of its own."""

    route: Route
    policies: Policies
    """Of its tenant, as the view has them."""


class PostgresUnwindingGroups:
    """Groups that something may be undone in; safe under threads.

    Args:
        pool: of `open_pool`; stays the caller's.
        partitions: those that this service works for.
    """

    def __init__(self, settings: PostgresSettings, pool: Any, partitions: Collection[int]) -> None:
        self._settings = settings
        self._pool = pool
        self._partitions = sorted(partitions)

    def work_for(self, partitions: Collection[int]) -> None:
        """From now on of these partitions only."""
        self._partitions = sorted(partitions)

    def page(self, *, limit: int, after: RouteKey = BEGINNING) -> list[UnwindingGroup]:
        """At most *limit* groups that come after the key *after*.

        Raises:
            DatabaseError: the view could not be read.
        """
        asked = {"partitions": self._partitions, "limit": limit, "tenant_id": escaped(after[0]), "route": escaped(after[1])}
        with translated(self._settings), self._pool.connection() as connection:
            rows = connection.execute(statement("unwinding_groups"), asked, binary=True).fetchall()
            keys = [(unescaped(tenant_id), unescaped(route)) for tenant_id, route in rows]
            if not keys:
                return []
            routes = load_routes(connection, keys)
            policies = load_policies(connection, {tenant_id for tenant_id, _ in keys})
        return [UnwindingGroup(routes[key].route, policies[key[0]]) for key in keys]
