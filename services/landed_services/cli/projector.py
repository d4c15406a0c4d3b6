"""``landed projector``: folds the log into the view and decides claims."""

from __future__ import annotations

import os

from ._exit import Exit
from ._settings import database_settings, ledger_servers, log_settings


def projector() -> int:
    """Run a projector: it folds the log into PostgreSQL, decides claims and answers them. Ends with SIGTERM after its batch.

    For example:

        landed projector
    """
    servers = ledger_servers()
    from landed_services.metrics import metrics_settings
    from landed_services.projector.main import run_projector

    door = metrics_settings(os.environ)
    run_projector(log_settings(servers, client_id="landed-projector"), database_settings(servers), door=door)
    return Exit.DONE
