"""``landed compensator``: undoes failed work."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from ._exit import Exit, require
from ._output import note
from ._settings import database_settings, ledger_servers, log_settings
from ._tools import registry_named


def compensator(
    *,
    tools: Annotated[str, Parameter(help="Your registry of tools, as module:attribute.")],
    read_limit: Annotated[float, Parameter(help="Seconds that a read before an inverse may take.")] = 10.0,
) -> int:
    """Run a compensator: it undoes groups with your inverses, where contract and tenant allow it. Ends with SIGTERM.

    For example:

        landed compensator --tools acme.tools:registry
    """
    require("--read-limit", 0 < read_limit <= 3600, "must be greater than 0 and at most 3600 (seconds)")
    registry = registry_named(tools)
    registry.check()
    servers = ledger_servers()
    from landed_services.compensator.main import run_until_signal
    from landed_services.logs import log_as_json
    from landed_services.metrics import metrics_settings

    log_as_json()
    note(f"compensator: {len(list(registry))} tools of {tools}")
    run_until_signal(
        log_settings(servers, client_id="landed-compensator"),
        database_settings(servers),
        registry,
        read_limit_s=read_limit,
        door=metrics_settings(os.environ),
    )
    return Exit.DONE
