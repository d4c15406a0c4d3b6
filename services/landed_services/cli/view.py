"""``landed migrate``, ``landed rebuild``: the view of the log on PostgreSQL."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from ._confirm import confirm
from ._exit import Exit
from ._output import Format, note, print_value
from ._progress import progress
from ._settings import database_settings, ledger_servers, log_settings


def migrate(*, output: Format = "text") -> int:
    """Bring the tables to this release. Repeating it is safe; processes that do it at the same time wait for each other.

    For example:

        landed migrate
    """
    servers = ledger_servers()
    from landed.adapters.postgres import migrate as apply_migrations

    applied = apply_migrations(database_settings(servers))
    if output != "text":
        print_value({"applied": list(applied)}, output)
    else:
        print("\n".join(f"applied {name}" for name in applied) or "The tables are those of this release")
    return Exit.DONE


def rebuild(
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask before dropping the view.")] = False,
    output: Format = "text",
) -> int:
    """Drop the view and fold the log from its beginning. Stop the projector before; claims are not answered meanwhile.

    For example:

        landed rebuild --yes
    """
    servers = ledger_servers()
    database = database_settings(servers)
    question = f"Drop the view in {database.shown} and fold it anew?"
    confirm(question, yes=yes, why="the view is dropped first", otherwise="Nothing was dropped.")
    from landed_services.collecting import collect_never
    from landed_services.projector.rebuilding import rebuild as fold_anew

    collect_never()
    with progress() as say:
        done = fold_anew(log_settings(servers, client_id="landed-rebuild"), database, say=say)
    if output != "text":
        print_value(msgspec.to_builtins(done), output)
    else:
        print(f"{done.events} events folded into {done.operations} operations in {done.seconds:.1f} s")
    note("Compare with the log: landed verify")
    return Exit.DONE
