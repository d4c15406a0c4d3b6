"""Brings the tables to this release: plain SQL files of `migrations/`, each with its rollback, run once, in order."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg

from landed.adapters.postgres.connections import connect, translated
from landed.adapters.postgres.errors import SchemaOutdated
from landed.adapters.postgres.settings import PostgresSettings

_LOCK: Final = 0x6C616E646564  # "landed": the advisory lock of whoever migrates

logging.getLogger("yoyo.migrations").setLevel(logging.WARNING)


def migrate(settings: PostgresSettings) -> tuple[str, ...]:
    """Applies what is missing and returns the names of what was applied; nothing missing is fine.

    Processes that migrate at the same time wait for each other. An interrupted one leaves nothing to clean up: each file runs in
    a transaction, and the lock goes with its connection.

    Raises:
        DatabaseUnreachable: the server did not answer.
        DatabaseDefect: a statement was refused.
    """
    with _locked(settings), _backend(settings) as backend, _migrations() as all_:
        missing = backend.to_apply(all_)
        names = tuple(one.id for one in missing)
        backend.apply_migrations(missing)
        return names


def roll_back(settings: PostgresSettings) -> tuple[str, ...]:
    """Takes every migration back, newest first, and with them all tables of the ledger; returns their names."""
    with _locked(settings), _backend(settings) as backend, _migrations() as all_:
        applied = backend.to_rollback(all_)
        names = tuple(one.id for one in applied)
        backend.rollback_migrations(applied)
        return names


def check_schema(settings: PostgresSettings, connection: Any) -> None:
    """Nothing when the tables are those of this release.

    Raises:
        SchemaOutdated: names the migrations that are missing.
    """
    with _migrations() as all_:
        wanted = [one.id for one in all_]
    try:
        applied = {row[0] for row in connection.execute("SELECT migration_id FROM _yoyo_migration").fetchall()}
    except psycopg.errors.UndefinedTable:
        applied = set()
    missing = [name for name in wanted if name not in applied]
    if missing:
        raise SchemaOutdated(f"{settings.shown}: the tables lack {', '.join(missing)}: run `landed migrate`")


@contextmanager
def _locked(settings: PostgresSettings) -> Iterator[None]:
    # Not the lock of the library: its row outlives a process that is killed, and then everybody waits for nobody.
    with connect(settings) as connection, translated(settings):
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        yield


@contextmanager
def _backend(settings: PostgresSettings) -> Iterator[Any]:
    from yoyo import get_backend

    parts = urlsplit(settings.url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backend = get_backend(parts._replace(scheme="postgresql+psycopg").geturl())
    with backend:
        yield backend


@contextmanager
def _migrations() -> Iterator[Any]:
    from yoyo import read_migrations

    with as_file(files("landed.adapters.postgres") / "migrations") as folder:
        yield read_migrations(str(folder))
