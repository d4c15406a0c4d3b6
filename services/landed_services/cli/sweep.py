"""``landed sweep``: what the provider shows against what the ledger knows."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from landed.sdk.listing import ListRequest

from ._exit import Exit, require
from ._output import Format, note, print_text, print_value
from ._people import person
from ._progress import progress
from ._settings import database_settings, ledger_servers, log_settings
from ._times import instant
from ._tools import registry_named, tool_in


def sweep(
    tool: Annotated[str, Parameter(help="Name of the tool.")],
    *,
    tools: Annotated[str, Parameter(help="Your registry of tools, as module:attribute.")],
    from_: Annotated[str, Parameter(name="--from", help="Begin: a time (ISO 8601, else UTC), or a span before now as 7d, 36h.")],
    to: Annotated[str, Parameter(help="End, as --from; 0s is now.")] = "0s",
    tenant: Annotated[str | None, Parameter(help="Tenant whose effects are compared; else LANDED_TENANT.")] = None,
    time_limit: Annotated[float, Parameter(help="Seconds that the listing may take.")] = 60.0,
    dry_run: Annotated[bool, Parameter(negative="", help="Compare only, append nothing.")] = False,
    by: Annotated[str | None, Parameter(help="Who runs it, recorded; else LANDED_USER, else your login name.")] = None,
    output: Format = "text",
) -> int:
    """Compare the provider's list of a tool's effects with the ledger, and record what the ledger did not know.

    An effect that carries our mark and has no operation becomes `unmatched_news`; one whose operation knows nothing of it becomes
    evidence. Exit code 1: there are such effects, or some that only look like ours. Doing it again appends nothing new.

    For example:

        landed sweep payments.refund --tools acme.tools:registry --tenant acme --from 7d

        landed sweep payments.refund --tools acme.tools:registry --tenant acme --from 2026-11-01 --to 2026-12-01 -o json
    """
    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = instant("--from", from_, now_ms), instant("--to", to, now_ms)
    require("--from", from_ms < to_ms, "must be before --to")
    require("--time-limit", 0 < time_limit <= 86_400, "must be greater than 0 and at most 86400 (seconds)")
    tenant_id = tenant or os.environ.get("LANDED_TENANT") or ""
    require("--tenant", bool(tenant_id), "is required, or LANDED_TENANT")
    found = tool_in(registry_named(tools), tool, tools)
    servers = ledger_servers()
    from landed_services.trust.sweeping import sweep as compare

    request = ListRequest(tenant_id=tenant_id, tool=tool, from_ms=from_ms, to_ms=to_ms, timeout_s=time_limit)
    log, database = log_settings(servers, client_id="landed-sweep"), database_settings(servers)
    note(f"sweep: asking the provider for the effects of {tool} of tenant {tenant_id}, for {time_limit:g} s at most")
    with progress("effects") as say:
        report = compare(log, database, found, request, by=person(by), record=not dry_run, say=say)
    if output != "text":
        print_value(msgspec.to_builtins(report), output)
    else:
        for one in report.found:
            of = f" of operation {one.operation_id}" if one.operation_id else ""
            state = f" ({one.state})" if one.state else ""
            event = f": {one.event} at {one.position.partition}/{one.position.offset}" if one.event and one.position else ""
            print_text(f"{one.finding:10}  {one.reference}, {one.status}{of}{state}{event}", rest=" " * 12)
        counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in report.counts.items()) or "nothing"
        odd = f"; {report.unreadable} entries without a believable form" if report.unreadable else ""
        print_text(f"{report.tool}, tenant {report.tenant_id}: {report.listed} effects listed: {counts}{odd}")
    wrong = any(one.finding in ("unmatched", "unrecorded", "similar") for one in report.found)
    return Exit.FOUND if wrong or report.unreadable else Exit.DONE
