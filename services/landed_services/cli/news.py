"""``landed news``: what providers said that matches no operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ._exit import Exit, require
from ._output import Format
from ._people import Desk, Tenant, desk, print_values

if TYPE_CHECKING:
    from landed.adapters.postgres.news import UnmatchedRow

LIMIT_MAX = 10_000

news = App(
    name="news",
    help="News of providers that matches no operation.\n\nFor example:\n\n    landed news list -o jsonl",
    help_format="plaintext",
)


@news.command(name="list")
def list_(
    *,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """List news that matches no operation, newest first, and until when it is matched again.

    For example:

        landed news list

        landed news list -o jsonl
    """
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    with desk(tenant) as at:
        found = unmatched_news(at, limit)
    columns, rows = as_table(found)
    print_values(found, output, columns=columns, rows=rows, empty="Nothing is unmatched.")
    return Exit.DONE


def unmatched_news(at: Desk, limit: int) -> list[UnmatchedRow]:
    """News of the tenant that matches no operation, newest first."""
    from landed.adapters.postgres import open_pool
    from landed.adapters.postgres.news import PostgresNews

    with open_pool(at.database, size_max=1) as pool:
        return PostgresNews(at.database, pool).unmatched(at.tenant_id, limit=limit)


def as_table(found: list[UnmatchedRow]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows for people."""
    from landed_services.people.times import utc

    rows: list[tuple[str, ...]] = [
        (
            utc(one.at_ms),
            one.endpoint,
            one.webhook_id,
            one.operation_key or one.reference or "",
            one.status,
            "" if one.keep_until_ms is None else utc(one.keep_until_ms),
        )
        for one in found
    ]
    return ("came", "endpoint", "news", "names", "status", "matched until"), rows
