"""News of providers in the view: its rows, the operations that it names, and what is to be matched again."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.news import About, News
from landed.ports.news import OpenNews

Row = tuple[Any, ...]
NEWS_COLUMNS: Final = {
    "partition": "int4",
    "log_offset": "int8",
    "at_ms": "int8",
    "kind": "text",
    "tenant_id": "text",
    "webhook_id": "text",
    "endpoint": "text",
    "route": "text",
    "operation_id": "text",
    "tools": "text[]",
    "operation_key": "text",
    "reference": "text",
    "status": "text",
    "provider_time_ms": "int8",
    "digest": "text",
    "receipt": "text",
    "keep_ms": "int8",
}
"""Columns of `news` that follow from the event alone, in the order of `news_row`; `keep_until_ms` comes after them."""
_RECORDS: Final = {ev.WebhookReceived: "received", ev.UnmatchedNews: "unmatched"}
_TELLING: Final = frozenset({*_RECORDS, ev.OutcomeConfirmed, ev.OutcomeRejected, ev.EffectReverted})
TELLS_OF_NEWS: Final = (ev.WebhookReceived, ev.UnmatchedNews, ev.OutcomeConfirmed, ev.OutcomeRejected, ev.EffectReverted)
"""Events that may have a row."""
_BIGINT: Final = 2**63 - 1


def news_row(entry: ev.Entry) -> Row | None:
    """Row of `news` for an event that tells of news or follows from it; None for any other."""
    event, place = entry.event, entry.position
    if type(event) not in _TELLING:
        return None  # nearly all events
    if isinstance(event, ev.WebhookReceived | ev.UnmatchedNews):
        keep_until_ms = min(entry.at_ms + event.keep_ms, _BIGINT) if event.keep_ms > 0 else None
        return (
            place.partition,
            place.offset,
            entry.at_ms,
            _RECORDS[type(event)],
            escaped(event.tenant_id),
            escaped(event.webhook_id),
            escaped(event.endpoint),
            escaped(event.route),
            escaped(event.operation_id),
            [escaped(tool) for tool in event.tools],
            escaped(event.operation_key),
            escaped(event.reference),
            escaped(event.status),
            event.provider_time_ms,
            escaped(event.digest),
            escaped(event.receipt),
            event.keep_ms,
            keep_until_ms,
        )
    if isinstance(event, ev.OutcomeConfirmed | ev.OutcomeRejected | ev.EffectReverted) and event.webhook_id is not None:
        names = (escaped(event.tenant_id), escaped(event.webhook_id), None, escaped(event.route), escaped(event.operation_id))
        return (place.partition, place.offset, entry.at_ms, "outcome", *names, *[None] * 9)
    return None


class UnmatchedRow(msgspec.Struct, frozen=True, kw_only=True):
    """News that matches no operation, for people."""

    at_ms: int
    endpoint: str
    webhook_id: str
    reference: str | None
    operation_key: str | None
    status: str
    provider_time_ms: int | None
    keep_until_ms: int | None


class PostgresNews:
    """What the view knows of news; safe under threads.

    Args:
        pool: of `open_pool`; stays the caller's.
    """

    def __init__(self, settings: PostgresSettings, pool: Any) -> None:
        self._settings = settings
        self._pool = pool

    def known(self, tenant_id: str, endpoint: str, webhook_id: str) -> str | None:
        """Digest of the message that is on record under that id; None where none is. Raises DatabaseError."""
        names = {"tenant_id": escaped(tenant_id), "endpoint": escaped(endpoint), "webhook_id": escaped(webhook_id)}
        rows = self._rows("news_known", names)
        return rows[0][0] if rows else None

    def about(self, news: News) -> list[About]:
        """Operations of the tenant that *news* names; those by operation id first. Raises DatabaseError."""
        names = {
            "tenant_id": escaped(news.tenant_id),
            "operation_key": escaped(news.operation_key),
            "reference": escaped(news.reference),
        }
        return [_about(*row) for row in self._rows("news_about", names)]

    def open(self, *, now_ms: int, limit: int) -> list[OpenNews]:
        """News that names an operation and of which nothing followed yet, oldest first. Raises DatabaseError."""
        return [
            OpenNews(
                news=News(
                    tenant_id=unescaped(tenant_id),
                    endpoint=unescaped(endpoint),
                    webhook_id=unescaped(webhook_id),
                    tools=tuple(unescaped(tool) for tool in tools),
                    operation_key=unescaped(operation_key),
                    reference=unescaped(reference),
                    status=unescaped(status),
                    provider_time_ms=provider_time_ms,
                    digest=digest,
                    receipt=unescaped(receipt),
                    keep_ms=keep_ms,
                ),
                about=_about(route, group_id, body),
                recorded=kind == "received",
            )
            for (
                kind,
                tenant_id,
                endpoint,
                webhook_id,
                tools,
                operation_key,
                reference,
                status,
                provider_time_ms,
                digest,
                receipt,
                keep_ms,
                route,
                group_id,
                body,
            ) in self._rows("news_open", {"now_ms": now_ms, "limit": limit})
        ]

    def unmatched(self, tenant_id: str, *, limit: int = 100) -> list[UnmatchedRow]:
        """News of a tenant that matches no operation, newest first. Raises DatabaseError."""
        rows = self._rows("news_list", {"tenant_id": escaped(tenant_id), "limit": limit})
        return [
            UnmatchedRow(
                at_ms=row[0],
                endpoint=unescaped(row[1]),
                webhook_id=unescaped(row[2]),
                reference=unescaped(row[3]),
                operation_key=unescaped(row[4]),
                status=unescaped(row[5]),
                provider_time_ms=row[6],
                keep_until_ms=row[7],
            )
            for row in rows
        ]

    def _rows(self, name: str, names: dict[str, Any]) -> Sequence[Row]:
        with translated(self._settings), self._pool.connection() as connection:
            rows: Sequence[Row] = connection.execute(statement(name), names, binary=True).fetchall()
            return rows


def _about(route: str, group_id: str | None, body: bytes) -> About:
    return About(route=unescaped(route), group_id=unescaped(group_id), operation=operation_of(body))
