"""What reconcilers share through the database: who is there, and the budgets of the providers. None of it carries a guarantee."""

from typing import Any

from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement


class PostgresReconcilers:
    """Services of one kind that are there and divide their work; safe under threads.

    Args:
        pool: of `open_pool`; stays the caller's.
        kind: `reconciler` or `compensator`.
    """

    def __init__(self, settings: PostgresSettings, pool: Any, kind: str = "reconciler") -> None:
        self._settings = settings
        self._pool = pool
        self._kind = kind

    def beat(self, name: str, *, dead_after_ms: int) -> tuple[str, ...]:
        """Says that *name* is there; those that said so within *dead_after_ms*, itself among them, in a fixed order.

        Raises:
            DatabaseError: it could not be said.
        """
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("reconciler_beat"), {"name": name, "kind": self._kind})
            there = {"kind": self._kind, "dead_after_ms": dead_after_ms}
            rows = connection.execute(statement("live_reconcilers"), there).fetchall()
        return tuple(sorted({name, *(row[0] for row in rows)}))

    def leave(self, name: str) -> None:
        """*name* is not there any more. Raises as `beat` does."""
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("reconciler_leaves"), {"name": name})


class PostgresProviderBudgets:
    """Tokens of providers: `landed.ports.ProviderBudgets`, shared by whoever uses this database.

    Args:
        pool: of `open_pool`; stays the caller's.
    """

    def __init__(self, settings: PostgresSettings, pool: Any) -> None:
        self._settings = settings
        self._pool = pool

    def take(self, provider: str, *, wanted: int, per_second: float) -> int:
        """Tokens that were taken, 0 to *wanted*. Raises `DatabaseError`: it could not be asked."""
        asked = {"provider": escaped(provider), "wanted": wanted, "per_second": per_second}
        with translated(self._settings), self._pool.connection() as connection:
            row = connection.execute(statement("take_tokens"), asked).fetchone()
        return int(row[0])

    def pause(self, provider: str, *, seconds: float, per_second: float) -> None:
        """Gives no token of *provider* for *seconds*. Raises as `take` does."""
        asked = {"provider": escaped(provider), "seconds": seconds, "per_second": per_second}
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("pause_provider"), asked)
