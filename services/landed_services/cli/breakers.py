"""``landed breakers``: ceilings, what is used of them, and which of them refuse claims now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ._exit import CommandFailed, Exit
from ._output import Format, plain, print_table, print_text
from ._people import Tenant, desk, print_values

if TYPE_CHECKING:
    from landed_services.queries.ceilings import BreakerShown

breakers = App(
    name="breakers",
    help="Ceilings, what is used of them, and which refuse claims."
    "\n\nFor example:\n\n    landed breakers list\n\n    landed breakers show refund.create -o json",
    help_format="plaintext",
)
Key = Annotated[str, Parameter(help="ceiling:<effect type> or ceiling:*, or only the effect type.")]
_COLUMNS = ("effect type", "state", "action", "resets at", "reason")


@breakers.command(name="list")
def list_(*, tenant: Tenant = None, output: Format = "text") -> int:
    """List the breakers of all ceilings that are set.

    For example:

        landed breakers list

        landed breakers list -o json
    """
    from landed_services.queries.ceilings import breakers as known

    with desk(tenant) as at:
        found = known(at.connection, at.tenant_id)
    print_values(found, output, columns=_COLUMNS, rows=_rows(found), empty="No ceiling is set: landed policies set.")
    _tell_containments(found, output)
    return Exit.DONE


@breakers.command
def show(key: Key, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show the breakers of one ceiling; a policy may hold several.

    For example:

        landed breakers show dns.delete -o json
    """
    from landed.core.policy import CEILING, check_key
    from landed_services.queries.ceilings import breakers as known

    named = key if key.startswith(CEILING) else CEILING + key
    check_key(named)
    with desk(tenant) as at:
        found = [one for one in known(at.connection, at.tenant_id) if one.key == named]
    if not found:
        raise CommandFailed(f"there is no ceiling {plain(named)}: landed breakers list", Exit.FOUND)
    if output == "text":
        print_table(_COLUMNS, _rows(found))
        _tell_containments(found, output)
    else:
        print_values(found, output, columns=(), rows=(), empty="")
    return Exit.DONE


def _tell_containments(found: Sequence[BreakerShown], output: str) -> None:
    for name in dict.fromkeys(one.containment for one in found if output == "text" and one.containment is not None):
        print_text(f"What got through stands in group {plain(name)}: landed plan {plain(name)}")


def _rows(found: Sequence[BreakerShown]) -> list[tuple[str, ...]]:
    from landed_services.people.times import utc

    rows: list[tuple[str, ...]] = []
    for one in found:
        resets = "" if one.resets_at is None else utc(one.resets_at)
        rows.append((one.effect_type, one.state, one.action, resets, one.reason))
    return rows
