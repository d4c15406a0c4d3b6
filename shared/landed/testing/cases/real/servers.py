"""Where cases in real time are played: on the servers that the settings name, else on embedded ones for the time of the run."""

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from landed.adapters import embedded
from landed.testing.cases.loading import Case
from landed.testing.cases.real.playing import play
from landed.testing.cases.running import Outcome


def play_on_servers(cases: Sequence[Case]) -> list[Outcome]:
    """Plays *cases* at once, see `play`; nothing of it is left behind but two topics, where the broker is not an embedded one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded.servers(Path(folder), wipe=True) as used,
        _database(used.database_url) as url,
    ):
        return play(cases, bootstrap=used.bootstrap, database_url=url)


@contextmanager
def _database(url: str) -> Iterator[str]:
    name = f"cases_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield urlsplit(url)._replace(path=f"/{name}").geturl()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
