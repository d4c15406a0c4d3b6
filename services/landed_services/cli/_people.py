"""What the commands share that people decide with: whose ledger, who decides, and how lists are printed."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from landed.core.contract import Problem
from landed.core.identity import check_id
from landed.sdk.errors import SettingsError

from ._output import print_list, print_table, print_value
from ._settings import database_settings, ledger_servers, log_settings

if TYPE_CHECKING:
    from landed.adapters.postgres import PostgresSettings

Tenant = Annotated[str | None, Parameter(help="Whose ledger; else LANDED_TENANT.")]
Person = Annotated[str | None, Parameter(help="Who decides, recorded with the decision; else LANDED_USER, else your login name.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")]


class Desk(NamedTuple):
    """The view that people read, and the log that they decide on."""

    tenant_id: str
    connection: Any
    log: Any
    """None for a command that only reads."""
    database: PostgresSettings


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
            yield Desk(tenant_id, connection, None, database)
            return
        with closing(KafkaEventLog(log_settings(servers))) as log:
            yield Desk(tenant_id, connection, log, database)


def person(given: str | None) -> str:
    """Who decides."""
    return given or os.environ.get("LANDED_USER") or getpass.getuser()


def print_values(
    values: Sequence[Any], output: str, *, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str
) -> None:
    """A list: a table for people, or *values* as JSON. *empty* is said to people where there is nothing."""
    if output != "text":
        print_list(values, output)
    elif not rows:
        print(empty)
    else:
        print_table(columns, rows)


def print_one(value: Any, output: str, text: str) -> None:
    """One answer, for people or as JSON."""
    if output == "text":
        print(text)
    else:
        print_value(value, output)
