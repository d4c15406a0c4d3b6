"""Servers for every test layer: those named by the settings, else one embedded instance per test process.

``LANDED_KAFKA_BOOTSTRAP`` and ``LANDED_DATABASE_URL`` win, as everywhere. Else an instance is started in a temporary
folder the first time a test asks for it; it ends with the test process, however that ends. Under pytest-xdist every
worker is a process of its own and has its own instance, so tests of different workers never meet.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest
from psycopg import sql

from landed.adapters import embedded
from landed.adapters.embedded import Servers

# An example's milliseconds say more about the machine than about the code; a test that hangs is ended by pytest-timeout.
hypothesis.settings.register_profile("landed", deadline=None)
hypothesis.settings.load_profile("landed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts into the background with Ctrl-C ignored, and every process begun here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Servers]:
    """A Kafka and a PostgreSQL that answer: ``.bootstrap`` and ``.database_url``. Topics and databases are the test's."""
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    say = print if terminal is None else lambda text: terminal.write_line(f"\n{text}")
    with embedded.servers(tmp_path_factory.mktemp("servers"), wipe=True, say=say) as used:
        yield used


@pytest.fixture
def fresh_database(servers: Servers) -> Iterator[str]:
    """URL of an empty database for one test, cloned from ``template0`` and dropped at the end whoever is connected."""
    with new_database(servers) as url:
        yield url


@contextmanager
def new_database(servers: Servers) -> Iterator[str]:
    """URL of an empty database until the block ends."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield _with_database(servers.database_url, name)
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _with_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
