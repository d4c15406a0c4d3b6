"""``landed projector``: folds the log into the view and decides claims."""

from __future__ import annotations

from ._exit import Exit
from ._settings import database_settings, ledger_servers, log_settings


def projector() -> int:
    """Run a projector: it folds the log into PostgreSQL, decides claims and answers them. Ends with SIGTERM after its batch.

    For example:

        landed projector
    """
    servers = ledger_servers()
    from landed_services.projector.main import run_projector

    run_projector(log_settings(servers, client_id="landed-projector"), database_settings(servers))
    return Exit.DONE
