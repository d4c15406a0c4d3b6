"""What is due, from the view: `landed.ports.DueOperations` for the partitions and tenants that a service works for."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.core.vocabulary import GroupState
from landed.ports.tables import DueOperation

_PLACE: Final = ("stakes_rank", "gives_up_at_ms", "tenant_id", "route", "operation_id")
_BEGINNING: Final = (0, 0, "", "", "")


class PostgresDueOperations:
    """Operations that something is to be done about; safe under threads.

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
        self._tenant_ids = None if tenant_ids is None else sorted(map(escaped, tenant_ids))
        self._partitions = sorted(partitions)

    def work_for(self, partitions: Collection[int]) -> None:
        """From now on of these partitions only."""
        self._partitions = sorted(partitions)

    @property
    def _scope(self) -> dict[str, object]:
        return {"partitions": self._partitions, "tenant_ids": self._tenant_ids}

    def due(
        self, *, now_ms: int, limit: int, after: Sequence[object] | None = None, closed_tools: Collection[str] = ()
    ) -> Sequence[DueOperation]:
        """A page of what is due at *now_ms*; see `landed.ports.DueOperations`.

        Raises:
            DatabaseError: the view could not be read.
        """
        place = dict(zip(_PLACE, after or _BEGINNING, strict=True))
        asked = {"now_ms": now_ms, "limit": limit, "closed_tools": [escaped(tool) for tool in closed_tools]}
        with translated(self._settings), self._pool.connection() as connection:
            rows = connection.execute(
                statement("due_operations"), {**self._scope, **place, **asked, "going_on": after is not None}, binary=True
            ).fetchall()
        return [
            DueOperation(
                tenant_id=unescaped(tenant_id),
                route=unescaped(route),
                group_id=unescaped(group_id),
                group_state=GroupState.NONE if group_state is None else GroupState(group_state),
                operation=operation_of(body),
                forward=None if forward_body is None else operation_of(forward_body),
                due_at_ms=due_at_ms,
                place=(stakes_rank, gives_up_at_ms, tenant_id, route, operation_id),
            )
            for (
                tenant_id,
                route,
                operation_id,
                group_id,
                due_at_ms,
                stakes_rank,
                gives_up_at_ms,
                body,
                group_state,
                forward_body,
            ) in rows
        ]

    def next_due_ms(self) -> int | None:
        """When the next one is due, milliseconds since the epoch, UTC; None when none is. Raises as `due` does."""
        with translated(self._settings), self._pool.connection() as connection:
            row = connection.execute(statement("next_due"), self._scope, binary=True).fetchone()
        return None if row is None else row[0]
