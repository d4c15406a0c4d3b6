"""``landed notifier`` and ``landed notifications``: who is told what waits for people, and every try."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from landed.core.contract import Problem
from landed.sdk.errors import SettingsError

from ._exit import Exit, require
from ._output import Format, note
from ._people import Tenant, desk, print_values
from ._settings import database_settings, ledger_servers

SETTING = "LANDED_WEBHOOKS"
LIMIT_MAX = 10_000
KEEP_DAYS = 30.0
KEEP_DAYS_MIN = 7.0
"""More than the days for which a notification is tried."""

notifications = App(
    name="notifications",
    help="What receivers are told, and every try.\n\nFor example:\n\n    landed notifications list --state waiting",
    help_format="plaintext",
)


def notifier(
    *,
    settings: Annotated[Path | None, Parameter(help=f"TOML file with your receivers; else {SETTING}.")] = None,
    keep_days: Annotated[float, Parameter(help="How long what was told or given up stays on record.")] = KEEP_DAYS,
) -> int:
    """Run a notifier: it tells your receivers by signed webhooks what waits for a person. Ends with SIGTERM.

    For example:

        landed notifier --settings webhooks.toml
    """
    require("--keep-days", KEEP_DAYS_MIN <= keep_days <= 36_500, f"must be from {KEEP_DAYS_MIN:g} to 36500")
    path = settings or (Path(os.environ[SETTING]) if os.environ.get(SETTING) else None)
    if path is None:
        raise SettingsError("notifier", [Problem("receivers", f"say where they stand: --settings, or {SETTING}")])
    from landed_services.logs import log_as_json
    from landed_services.metrics import metrics_settings
    from landed_services.notifier.loop import Pace
    from landed_services.notifier.main import run_until_signal
    from landed_services.notifier.receivers import receivers_from
    from landed_services.secrets import settings_document

    receivers = receivers_from(settings_document(path).get("receiver", []), os.environ)
    if not receivers:
        raise SettingsError("webhook settings", [Problem("receiver", f"{path} names none")])
    servers = ledger_servers()
    log_as_json()
    note(f"notifier: {len(receivers)} receivers of {path}")
    pace = Pace(keep=keep_days * 86_400)
    run_until_signal(database_settings(servers), receivers, pace=pace, door=metrics_settings(os.environ))
    return Exit.DONE


@notifications.command(name="list")
def list_(
    *,
    state: Annotated[Literal["waiting", "delivered", "given_up"] | None, Parameter(help="Only those.")] = None,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """List notifications, newest first, with their last try.

    For example:

        landed notifications list --state waiting

        landed notifications list -o jsonl
    """
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    from landed.adapters.postgres import open_pool
    from landed.adapters.postgres.notifications import PostgresNotifications
    from landed_services.people.times import utc

    with desk(tenant) as at, open_pool(at.database, size_max=1) as pool:
        found = PostgresNotifications(at.database, pool).list(at.tenant_id, state=state, limit=limit)
    rows = [
        (utc(one.made_at_ms), one.kind, one.operation_id, one.receiver, one.state, str(one.attempts), one.last_result or "")
        for one in found
    ]
    columns = ("made", "kind", "operation", "receiver", "state", "tries", "last result")
    print_values(found, output, columns=columns, rows=rows, empty="No notification is on record.")
    return Exit.DONE
