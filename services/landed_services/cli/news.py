"""``landed news``: what providers said that matches no operation."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from ._exit import Exit, require
from ._people import Listed, Tenant, desk, print_values
from ._settings import database_settings, ledger_servers

LIMIT_MAX = 10_000

news = App(name="news", help="News of providers that matches no operation.", help_format="plaintext")


@news.command(name="list")
def list_(
    *,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    tenant: Tenant = None,
    output: Listed = "text",
) -> int:
    """List news that matches no operation, newest first, and until when it is matched again.

    For example:

        landed news list

        landed news list -o jsonl
    """
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    from landed.adapters.postgres import open_pool
    from landed.adapters.postgres.news import PostgresNews
    from landed_services.people.times import utc

    with desk(tenant) as at:
        database = database_settings(ledger_servers())
        with open_pool(database, size_max=1) as pool:
            found = PostgresNews(database, pool).unmatched(at.tenant_id, limit=limit)
    rows = [
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
    columns = ("came", "endpoint", "news", "names", "status", "matched until")
    print_values(found, output, columns=columns, rows=rows, empty="Nothing is unmatched.")
    return Exit.DONE
