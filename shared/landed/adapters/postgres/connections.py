"""Connections and pools; errors of the driver come out as those of `errors`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow

from landed.adapters.postgres.errors import DatabaseDefect, DatabaseUnreachable, SchemaOutdated
from landed.adapters.postgres.settings import PostgresSettings

Connection = psycopg.Connection[TupleRow]

_MISSING: Final = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
_BROKEN: Final = (psycopg.OperationalError, psycopg.InterfaceError)


def connect(settings: PostgresSettings) -> Connection:
    """A connection of its own, in autocommit: transactions are opened explicitly.

    Raises:
        DatabaseUnreachable: the server did not answer, or refused the login.
    """
    with translated(settings):
        return psycopg.connect(settings.url, autocommit=True, **_options(settings))


@contextmanager
def translated(settings: PostgresSettings) -> Iterator[None]:
    """Errors of the driver inside the block as errors of the ledger.

    Raises:
        DatabaseUnreachable: the connection broke or was cut off; what was not committed is not there.
        SchemaOutdated: a table or column is missing.
        DatabaseDefect: anything else that the server refused.
    """
    try:
        yield
    except _MISSING as error:
        raise SchemaOutdated(f"{settings.shown}: {_first_line(error)}: run `landed migrate`") from error
    except _BROKEN as error:
        raise DatabaseUnreachable(f"{settings.shown}: {_first_line(error)}") from error
    except psycopg.Error as error:
        raise DatabaseDefect(f"{settings.shown}: {_first_line(error)}") from error


def open_pool(settings: PostgresSettings, *, size_max: int = 8) -> Any:
    """A pool (`psycopg_pool.ConnectionPool`) for readers; the caller closes it.

    Raises:
        DatabaseUnreachable: no connection within the time limit of *settings*.
    """
    from psycopg_pool import ConnectionPool, PoolTimeout

    pool: ConnectionPool[Any] = ConnectionPool(
        settings.url,
        kwargs={"autocommit": True, **_options(settings)},
        min_size=1,
        max_size=size_max,
        open=False,
        name=settings.application,
    )
    try:
        pool.open(wait=True, timeout=settings.connect_timeout_s)
    except PoolTimeout as error:
        pool.close()
        raise DatabaseUnreachable(f"{settings.shown}: no connection within {settings.connect_timeout_s} s") from error
    return pool


def _options(settings: PostgresSettings) -> dict[str, Any]:
    return {
        "application_name": settings.application,
        "connect_timeout": settings.connect_timeout_s,
        # A dead peer is noticed within half a minute, whatever the operating system thinks.
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": f"-c idle_in_transaction_session_timeout={settings.idle_in_transaction_timeout_ms} -c timezone=UTC",
    }


def _first_line(error: psycopg.Error) -> str:
    # Further lines may quote rows.
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
