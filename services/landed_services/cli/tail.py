"""``landed tail``: the log as it grows."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._exit import Exit, require
from ._output import Format, print_json, print_text, print_value
from ._replaying import AllTenants, Tenant, tenant_of
from ._settings import kafka_alone, log_settings
from ._times import instant

if TYPE_CHECKING:
    from landed_services.queries.following import Followed


def tail(
    *,
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    group: Annotated[str | None, Parameter(help="Only groups whose id begins so.")] = None,
    operation: Annotated[str | None, Parameter(help="Only operations whose id begins so.")] = None,
    event: Annotated[tuple[str, ...], Parameter(negative="", help="Only this type of event; may be repeated.")] = (),
    actor: Annotated[str | None, Parameter(help="Only events of this actor.")] = None,
    from_: Annotated[
        str | None, Parameter(name="--from", help="Begin: a time (ISO 8601, else UTC) or a span before now as 10m; else now.")
    ] = None,
    no_follow: Annotated[bool, Parameter(name="--no-follow", negative="", help="End at the end that the log has now.")] = False,
    limit: Annotated[int | None, Parameter(help="End after so many events.")] = None,
    output: Format = "text",
) -> int:
    """Follow the log: every event as it is appended, until Ctrl-C. Needs no database, changes nothing.

    Whether an event was taken the log alone does not say: `landed timeline` does.

    For example:

        landed tail --event operation_escalated --event outcome_unknown

        landed tail --operation refund-17 --from 10m --no-follow -o jsonl
    """
    ends = no_follow or limit is not None
    tenant_id = tenant_of(tenant, all_tenants)
    require("--limit", limit is None or limit >= 1, "must be at least 1")
    require("--output", output != "json" or ends, "json is one array: it needs an end, --no-follow or --limit; else take jsonl")
    require("--no-follow", not no_follow or from_ is not None, "needs a beginning that lies back: --from")
    from landed.core.events import CATALOGUE

    for one in event:
        require("--event", one in CATALOGUE, f"{one!r} is no type of event; docs/events.md lists them, such as outcome_unknown")
    since_ms = None if from_ is None else instant("--from", from_, time.time_ns() // 1_000_000)
    servers = kafka_alone()
    from landed_services.queries.following import Wanted, follow

    wanted = Wanted(tenant_id=tenant_id, group=group, operation=operation, types=frozenset(event), actor=actor)
    kept: list[Followed] = []
    shown = 0
    for batch in follow(log_settings(servers, client_id="landed-tail"), wanted, since_ms=since_ms, to_end=no_follow):
        for row in batch[: None if limit is None else limit - shown]:
            shown += 1
            if output == "text":
                _print(row)
            elif output == "jsonl":
                print_value(row, output)
            else:
                kept.append(row)
        sys.stdout.flush()
        if limit is not None and shown >= limit:
            break
    if output == "json":
        print_json(kept)
    return Exit.DONE


def _print(row: Followed) -> None:
    from landed_services.people.times import utc

    at = "time unknown" if row.at_ms is None else utc(row.at_ms)
    about = row.operation_id or row.route or "the topic"
    by = f" by {row.actor}" if row.actor else ""
    print_text(f"{at}  {row.partition}:{row.offset}  {row.event or 'UNREADABLE'} of {about}{by}", rest="    ")
    if row.evidence:
        print_text(row.evidence, indent="    ")
