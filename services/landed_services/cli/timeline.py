"""``landed timeline``: what happened to an operation or a group, event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._exit import Exit
from ._output import Format, print_text
from ._people import Tenant, desk, print_values

if TYPE_CHECKING:
    from landed_services.queries.timeline import TimelineRow


def timeline(
    name: Annotated[str, Parameter(help="Operation id, or its beginning where that fits only one.")],
    *,
    group: Annotated[bool, Parameter(negative="", help="NAME is a group: its events and those of all its operations.")] = False,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Show what happened to an operation, oldest first: when, what, by whom, on what evidence, and where it stands on the log.

    An event that changed nothing is marked with the reason why it was not taken.

    For example:

        landed timeline refund-17

        landed timeline trip-9 --group -o jsonl
    """
    from landed_services.queries.groups import group_named, operation_named
    from landed_services.queries.operations import timeline_of, timeline_of_route

    with desk(tenant) as at:
        if group:
            rows = timeline_of_route(at.connection, at.tenant_id, group_named(at.connection, at.tenant_id, name).route.route)
        else:
            rows = timeline_of(at.connection, operation_named(at.connection, at.tenant_id, name))
    if output == "text":
        print_rows(rows, places=True, operations=group)
    else:
        print_values(rows, output, columns=(), rows=(), empty="")
    return Exit.DONE


def print_rows(rows: Iterable[TimelineRow], *, places: bool = False, operations: bool = False) -> None:
    """Events for people.

    Args:
        places: with partition and offset of each.
        operations: with the operation of each.
    """
    from landed_services.people.times import utc

    for row in rows:
        place = f"{row.partition}:{row.offset}  " if places else ""
        about = f" of {row.operation_id}" if operations and row.operation_id else ""
        taken = "" if row.accepted else f" [not taken: {row.reason}]"
        print_text(f"{utc(row.at_ms)}  {place}{row.event}{about} by {row.actor}{taken}", rest="    ")
        if row.evidence:
            print_text(row.evidence, indent="    ")
