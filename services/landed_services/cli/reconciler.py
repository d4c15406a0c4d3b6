"""``landed reconciler``: settles what is in doubt."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from ._exit import Exit, require
from ._output import note
from ._settings import database_settings, ledger_servers, log_settings
from ._tools import registry_named


def reconciler(
    *,
    tools: Annotated[str, Parameter(help="Your registry of tools, as module:attribute.")],
    probe_limit: Annotated[float, Parameter(help="Seconds that one probe may take.")] = 10.0,
) -> int:
    """Run a reconciler: it looks up operations in doubt with your probes and records what they prove. Ends with SIGTERM.

    For example:

        landed reconciler --tools acme.tools:registry
    """
    require("--probe-limit", 0 < probe_limit <= 3600, "must be greater than 0 and at most 3600 (seconds)")
    registry = registry_named(tools)
    registry.check()
    servers = ledger_servers()
    from landed_services.logs import log_as_json
    from landed_services.metrics import metrics_settings
    from landed_services.reconciler.main import run_until_signal

    log_as_json()
    note(f"reconciler: {len(list(registry))} tools of {tools}")
    run_until_signal(
        log_settings(servers, client_id="landed-reconciler"),
        database_settings(servers),
        registry,
        probe_limit_s=probe_limit,
        door=metrics_settings(os.environ),
    )
    return Exit.DONE
