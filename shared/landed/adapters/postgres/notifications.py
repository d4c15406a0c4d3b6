"""The outbox of notifications: what receivers are to be told, what they were told, and every try."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.core.state import Operation

TryState = Literal["waiting", "delivered", "given_up"]


class ToTell(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a receiver is to be told and was not."""

    webhook_id: str
    kind: str
    since_ms: int
    """When the review opened; its age for `review_aged`; when the window closes for `inverse_window_closing`."""
    tenant_id: str
    route: str
    group_id: str | None
    operation: Operation
    version: int
    now_ms: int


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that is to be sent now."""

    webhook_id: str
    number: int
    """Of the try, from 1."""
    payload: str
    made_at_ms: int
    tenant_id: str
    kind: str
    now_ms: int


class NotificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A notification for people. Times are milliseconds since the epoch, UTC."""

    webhook_id: str
    receiver: str
    tenant_id: str
    kind: str
    operation_id: str
    made_at_ms: int
    state: str
    attempts: int
    next_try_at_ms: int | None
    delivered_at_ms: int | None
    last_try_at_ms: int | None
    last_result: str | None
    """null: the last try has not ended, or its process is gone."""


class PostgresNotifications:
    """The outbox; safe under threads. Every method raises DatabaseError.

    Args:
        pool: of `open_pool`; stays the caller's.
    """

    def __init__(self, settings: PostgresSettings, pool: Any) -> None:
        self._settings = settings
        self._pool = pool

    def know(self, receivers: dict[str, str]) -> None:
        """Has *receivers* (tenant by name) be told what happens from now on; those that are known already stay as they are."""
        names = {"names": list(receivers), "tenant_ids": [escaped(tenant_id) for tenant_id in receivers.values()]}
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("receivers_known"), names)

    def to_tell(
        self,
        receiver: str,
        *,
        kinds: Sequence[str],
        aged_ms: Sequence[int],
        inverse_before_ms: int,
        missed_ms: int = 0,
        limit: int = 200,
    ) -> list[ToTell]:
        """What *receiver* is to be told and was not, oldest first.

        Args:
            missed_ms: how far back reviews are looked for that opened and settled while nobody looked.
        """
        names = {
            "receiver": receiver,
            "kinds": list(kinds),
            "aged_ms": list(aged_ms),
            "inverse_before_ms": inverse_before_ms,
            "missed_ms": missed_ms,
            "limit": limit,
        }
        return [
            ToTell(
                webhook_id=row[0],
                kind=row[1],
                since_ms=row[3],
                tenant_id=unescaped(row[4]),
                route=unescaped(row[5]),
                group_id=unescaped(row[6]),
                version=row[8],
                operation=operation_of(row[9]),
                now_ms=row[10],
            )
            for row in self._rows("to_tell", names)
        ]

    def put(self, receiver: str, told: ToTell, payload: str) -> None:
        """Puts what is to be told into the outbox, once."""
        names = {
            "webhook_id": told.webhook_id,
            "receiver": receiver,
            "kind": told.kind,
            "tenant_id": escaped(told.tenant_id),
            "route": escaped(told.route),
            "operation_id": escaped(told.operation.operation_id),
            "version": told.version,
            "review_since_ms": told.since_ms if told.kind in ("review_opened", "review_settled") else None,
            "payload": escaped(payload),
            "made_at_ms": told.now_ms,
        }
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("insert_notification"), names)

    def take(self, receiver: str, *, hold_ms: int) -> Taken | None:
        """The next one that is due, with its try on record; nobody else gets it for *hold_ms*."""
        rows = self._rows("take_notification", {"receiver": receiver, "hold_ms": hold_ms})
        if not rows:
            return None
        webhook_id, number, payload, made_at_ms, tenant_id, kind, now_ms = rows[0]
        return Taken(
            webhook_id=webhook_id,
            number=number,
            payload=unescaped(payload),
            made_at_ms=made_at_ms,
            tenant_id=unescaped(tenant_id),
            kind=kind,
            now_ms=now_ms,
        )

    def ended(self, taken: Taken, *, result: str, state: TryState, wait_ms: int = 0) -> None:
        """Records what became of a try; *wait_ms*: how long the next one waits, where there is one."""
        names = {
            "webhook_id": taken.webhook_id,
            "number": taken.number,
            "result": result,
            "state": state,
            "wait_ms": wait_ms,
        }
        with translated(self._settings), self._pool.connection() as connection:
            connection.execute(statement("end_notification_try"), names)

    def forget(self, *, keep_ms: int, limit: int = 1_000) -> int:
        """Deletes at most *limit* of those that were told or given up more than *keep_ms* ago, with their tries; how many it did.
        What is about something that is open still stays, however old."""
        with translated(self._settings), self._pool.connection() as connection:
            found: int = connection.execute(statement("forget_notifications"), {"keep_ms": keep_ms, "limit": limit}).rowcount
            return found

    def list(self, tenant_id: str, *, state: TryState | None = None, limit: int = 100) -> list[NotificationRow]:
        """Notifications of a tenant, newest first."""
        rows = self._rows("notifications_list", {"tenant_id": escaped(tenant_id), "state": state, "limit": limit})
        return [
            NotificationRow(
                webhook_id=row[0],
                receiver=row[1],
                tenant_id=unescaped(row[2]),
                kind=row[3],
                operation_id=unescaped(row[4]),
                made_at_ms=row[5],
                state=row[6],
                attempts=row[7],
                next_try_at_ms=row[8],
                delivered_at_ms=row[9],
                last_try_at_ms=row[10],
                last_result=row[11],
            )
            for row in rows
        ]

    def _rows(self, name: str, names: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
        with translated(self._settings), self._pool.connection() as connection:
            rows: Sequence[tuple[Any, ...]] = connection.execute(statement(name), names, binary=True).fetchall()
            return rows
