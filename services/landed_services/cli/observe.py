"""``landed observe report``: what observe mode let through, beside what the providers showed."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import App, Parameter

from ._exit import Exit, require
from ._output import Format, plain, print_table
from ._people import Tenant, desk, print_one

observe = App(
    name="observe",
    help="Observe mode: what would have been refused.\n\nFor example:\n\n    landed observe report --days 1",
    help_format="plaintext",
)


@observe.command
def report(
    *,
    tool: Annotated[list[str] | None, Parameter(help="Only these tools; may be repeated.", negative="")] = None,
    days: Annotated[float, Parameter(help="Operations prepared in the last so many days.")] = 7.0,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Compare what the ledger would have refused, and what it said of each call, with what the providers showed.

    For example:

        landed observe report --tool refund --days 1
    """
    require("--days", 0 < days <= 3650, "must be greater than 0 and at most 3650")
    from landed_services.queries.observing import observed
    from landed_services.queries.observing import report as made
    from landed_services.queries.policies import observing_tools

    since_ms = int((time.time() - days * 86_400) * 1000)
    with desk(tenant) as at:
        operations = observed(at.connection, at.tenant_id, tools=tool or None, since_ms=since_ms)
        names = frozenset(one.tool for one in operations)
        found = made(operations, observing=observing_tools(at.connection, at.tenant_id, names))
    if output != "text":
        print_one(found, output, "")
        return Exit.DONE
    print(f"{found.operations} operations of tools in observe mode, or let through by it")
    if found.would_refuse:
        print("\nWould have been refused:")
        print_table(
            ("tool", "reason", "calls", "effect", "second effect", "none", "nothing yet", "such as"),
            [
                (
                    one.tool,
                    one.reason,
                    str(one.calls),
                    str(one.had_effect),
                    str(one.second_effects),
                    str(one.had_none),
                    str(one.nothing_yet),
                    ", ".join(one.operations),
                )
                for one in found.would_refuse
            ],
        )
    for again in found.would_send_again:
        such = plain(", ".join(again.operations))
        print(f"\n{plain(again.tool)}: {again.replays} requests would have been sent again by themselves, such as {such}")
    if found.classified:
        print("\nWhat was said of a call, and what others showed:")
        print_table(
            ("tool", "said", "shown", "calls", "", "such as"),
            [
                (
                    one.tool,
                    one.said,
                    one.shown,
                    str(one.calls),
                    "contradicts" if one.contradicts else "",
                    plain(", ".join(one.operations)),
                )
                for one in found.classified
            ],
        )
    return Exit.DONE
