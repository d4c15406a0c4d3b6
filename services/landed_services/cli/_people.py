"""What the commands share that people decide with: whose ledger, who decides, how lists are printed, and the question before."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from landed.core.contract import Problem
from landed.core.identity import check_id
from landed.sdk.errors import SettingsError

from ._exit import CommandFailed, Exit
from ._output import print_json
from ._settings import database_settings, ledger_servers, log_settings

Tenant = Annotated[str | None, Parameter(help="Whose ledger; else LANDED_TENANT.")]
Person = Annotated[str | None, Parameter(help="Who decides, recorded with the decision; else LANDED_USER, else your login name.")]
Listed = Annotated[Literal["text", "json", "jsonl"], Parameter(name=["--output", "-o"], help="jsonl: one JSON object a line.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")]


class Desk(NamedTuple):
    """The view that people read, and the log that they decide on."""

    tenant_id: str
    connection: Any
    log: Any
    """None for a command that only reads."""


@contextmanager
def desk(tenant: str | None, *, decides: bool = False) -> Iterator[Desk]:
    """The ledger of *tenant*; with the log only where the command *decides*."""
    tenant_id = tenant or os.environ.get("LANDED_TENANT")
    if not tenant_id:
        raise SettingsError("settings", [Problem("tenant", "say whose ledger: --tenant, or LANDED_TENANT")])
    check_id("tenant", tenant_id)
    servers = ledger_servers()
    from landed.adapters.kafka import KafkaEventLog
    from landed.adapters.postgres import check_schema, connect, translated

    database = database_settings(servers)
    with connect(database) as connection, translated(database):
        check_schema(database, connection)
        if not decides:
            yield Desk(tenant_id, connection, None)
            return
        with closing(KafkaEventLog(log_settings(servers))) as log:
            yield Desk(tenant_id, connection, log)


def person(given: str | None) -> str:
    """Who decides."""
    return given or os.environ.get("LANDED_USER") or getpass.getuser()


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless the person agrees to *question*."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed("nobody is there to be asked, so say --yes as well.", Exit.USAGE)
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandFailed("Nothing was changed.", Exit.FOUND)


def print_values(
    values: Sequence[Any], output: str, *, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str
) -> None:
    """A list: a table for people, or *values* as JSON. *empty* is said to people where there is nothing."""
    if output == "json":
        print_json(msgspec.to_builtins(list(values)))
    elif output == "jsonl":
        for value in values:
            print(msgspec.json.encode(value).decode())
    elif not rows:
        print(empty)
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under their names, each as wide as its widest value; the last one as it comes."""
    lines = [columns, *rows]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns) - 1)]
    for line in lines:
        print(
            "  ".join([*(plain(text).ljust(width) for text, width in zip(line, widths, strict=False)), plain(line[-1])]).rstrip()
        )


def plain(text: str) -> str:
    """*text* without what would move the cursor of a terminal: ids and reasons come from elsewhere."""
    return "".join(character if character.isprintable() else "�" for character in text)


def print_one(value: Any, output: str, text: str) -> None:
    """One answer, for people or as JSON."""
    if output == "text":
        print(text)
    elif output == "json":
        print_json(msgspec.to_builtins(value))
    else:
        print(msgspec.json.encode(value).decode())
