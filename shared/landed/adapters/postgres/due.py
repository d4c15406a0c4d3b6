"""What is due, from the view: `landed.ports.DueOperations` for the partitions and tenants that a service works for."""

from collections.abc import Collection, Sequence
from typing import Any

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.ports.tables import DueOperation


class PostgresDueOperations:
    """Operations by when something is to be done about them; safe under threads.

    Args:
        pool: of `open_pool`; stays the caller's.
        partitions: those that this service works for.
        tenant_ids: those that it works for; None: all.
    """

    def __init__(
        self, settings: PostgresSettings, pool: Any, partitions: Collection[int], *, tenant_ids: Collection[str] | None = None
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._scope = {
            "partitions": sorted(partitions),
            "tenant_ids": None if tenant_ids is None else sorted(map(escaped, tenant_ids)),
        }

    def due(self, *, now_ms: int, limit: int) -> Sequence[DueOperation]:
        """Operations due at *now_ms*, earliest first, at most *limit*.

        Raises:
            DatabaseError: the view could not be read.
        """
        with translated(self._settings), self._pool.connection() as connection:
            rows = connection.execute(
                statement("due_operations"), {**self._scope, "now_ms": now_ms, "limit": limit}, binary=True
            ).fetchall()
        return [
            DueOperation(
                tenant_id=unescaped(tenant_id),
                route=unescaped(route),
                group_id=unescaped(group_id),
                operation=operation_of(body),
                due_at_ms=due_at_ms,
            )
            for tenant_id, route, group_id, due_at_ms, body in rows
        ]

    def next_due_ms(self) -> int | None:
        """When the next one is due, milliseconds since the epoch, UTC; None when none is. Raises as `due` does."""
        with translated(self._settings), self._pool.connection() as connection:
            row = connection.execute(statement("next_due"), self._scope, binary=True).fetchone()
        return None if row is None else row[0]
