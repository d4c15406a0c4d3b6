"""``landed migrate``, ``landed verify``, ``landed rebuild``: the view of the log on PostgreSQL."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter

from landed.adapters.postgres import migrate as apply_migrations

from ._exit import CommandFailed, Exit
from ._output import Format, note, print_json
from ._settings import database_settings, ledger_servers, log_settings

SHOWN = 20


def migrate(*, output: Format = "text") -> int:
    """Bring the tables to this release. Repeating it is safe; processes that do it at the same time wait for each other.

    For example:

        landed migrate
    """
    applied = apply_migrations(database_settings(ledger_servers()))
    if output == "json":
        print_json({"applied": list(applied)})
    else:
        print("\n".join(f"applied {name}" for name in applied) or "The tables are those of this release")
    return Exit.DONE


def verify(*, output: Format = "text") -> int:
    """Fold the log anew and compare with the tables, byte by byte. Changes nothing; a projector may run meanwhile.

    Exit code 1: they differ. Each difference names operation, offset and both values.

    For example:

        landed verify

        landed verify -o json
    """
    servers = ledger_servers()
    from landed_services.projector.main import collect_never
    from landed_services.projector.verifying import verify as compare

    collect_never()
    report = compare(log_settings(servers, client_id="landed-verify"), database_settings(servers))
    if output == "json":
        print_json(msgspec.to_builtins(report))
    else:
        for difference in report.differences[:SHOWN]:
            print(difference)
        if report.differences_total > SHOWN:
            print(f"… and {report.differences_total - SHOWN} more; -o json lists them")
        answer = "equal" if report.equal else f"{report.differences_total} differences"
        print(f"{report.partitions} partitions, {report.events} events, {report.operations} operations: {answer}")
    return Exit.DONE if report.equal else Exit.FOUND


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
    if not yes:
        _confirm(f"Drop the view in {database.shown} and fold it anew? [y/N] ")
    from landed_services.projector.main import collect_never
    from landed_services.projector.rebuilding import rebuild as fold_anew

    collect_never()
    done = fold_anew(log_settings(servers, client_id="landed-rebuild"), database)
    if output == "json":
        print_json(msgspec.to_builtins(done))
    else:
        print(f"{done.events} events folded into {done.operations} operations in {done.seconds:.1f} s")
    note("Compare with the log: landed verify")
    return Exit.DONE


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise CommandFailed("the view is dropped first: nobody is there to be asked, so say --yes as well.", Exit.USAGE)
    if input(question).strip().lower() not in ("y", "yes"):
        raise CommandFailed("Nothing was dropped.", Exit.FOUND)
