"""The embedded PostgreSQL: a cluster of its own, on TCP at 127.0.0.1 only, with a random password.

No socket file is made, so the length of the path does not matter. Without the password every account of the machine
could become the one that runs the server, since a superuser of the database may start programs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from ._account import POSTGRES_MAJOR, Account, account, data_place, environment, outside_place, programs
from ._errors import FolderUnusable, ServerFailed
from ._ports import ADDRESS
from ._processes import Child, find, run, spawn

USER = "landed"
DATABASE = "landed"
INITDB_SECONDS = 120.0
ENDING = signal.SIGQUIT  # immediate shutdown: no checkpoint, but also nothing left in shared memory as SIGKILL would
GENTLE = signal.SIGINT  # fast shutdown


class Postgres:
    """The PostgreSQL of one data folder, made ready to start."""

    version = str(POSTGRES_MAJOR)
    port_count = 1
    ready_seconds = 60.0
    port_taken = "could not bind"

    def __init__(self, folder: Path) -> None:
        self.log = folder / "postgres.log"
        self.account: Account = account()
        self.name = f"PostgreSQL {POSTGRES_MAJOR} (run as {self.account.description})"
        self.programs = programs(self.account)
        self.place = data_place(folder, self.account)
        self.data = self.place / "data"
        self._make()

    def start(self, ports: tuple[int, ...], *, tied: bool) -> Child:
        """Start the server; it is not ready yet."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # no server of ours lives: see `leftovers`
        settings = {
            "listen_addresses": ADDRESS,
            "port": str(ports[0]),
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # in the data folder: never left behind in /dev/shm
            "max_connections": "200",
            "landed.folder": str(self.data),  # marks the process
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return spawn(
            [str(self.programs / "postgres"), "-D", str(self.data), *options],
            run_as=self.account.run_as,
            cwd=Path("/"),
            log=self.log,
            environment=environment(),
            tied=tied,
            ending=ENDING,
        )

    def answers(self, ports: tuple[int, ...]) -> bool:
        """Whether the server takes connections."""
        return answers(url(self.place, ports[0]))

    def _make(self) -> None:
        if self.data.exists():
            version = (self.data / "PG_VERSION").read_text().strip()
            if version != str(POSTGRES_MAJOR):
                raise FolderUnusable(
                    f"{self.data} was made by PostgreSQL {version}; this version runs {POSTGRES_MAJOR}. "
                    "Name another folder, or delete this one and what is in it with: landed down --wipe"
                )
            return
        password = self.place / "password"
        if not password.exists():
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe(24))
            if self.account.uid is not None and self.account.gid is not None:
                os.chown(password, self.account.uid, self.account.gid)
        draft = self.place / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        command = [str(self.programs / "initdb"), "--pgdata", str(draft), "--username", USER, "--pwfile", str(password)]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        words = [*self.account.run_as, *command]
        result = run(words, cwd=Path("/"), environment=environment(), timeout_seconds=INITDB_SECONDS)
        if result.returncode != 0:
            tail = tuple(result.stdout.splitlines()[-10:])
            raise ServerFailed(f"PostgreSQL could not create its cluster in {draft}.", tail)
        draft.rename(self.data)


def url(place: Path, port: int) -> str:
    """The URL of the database kept in *place*.

    Raises:
        FolderUnusable: its password cannot be read.
    """
    try:
        password = (place / "password").read_text()
    except OSError as error:
        raise FolderUnusable(f"cannot read the password of PostgreSQL: {error}") from error
    return f"postgresql://{USER}:{quote(password, safe='')}@{ADDRESS}:{port}/{DATABASE}"


def answers(database_url: str) -> bool:
    """Whether the server takes connections; creates its database the first time."""
    import psycopg

    try:
        psycopg.connect(database_url, connect_timeout=2).close()
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            return False
        return _create_database(database_url.removesuffix(DATABASE) + "postgres")
    return True


def _create_database(maintenance_url: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(maintenance_url, connect_timeout=2, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    except psycopg.Error:
        return False
    return True


def places(folder: Path) -> tuple[Path, ...]:
    """Where the data of *folder* may lie."""
    return tuple(place for place in (folder / "postgres", outside_place(folder)) if place.exists())


def leftovers(folder: Path) -> tuple[Child, ...]:
    """Servers of this folder that run, whatever ``state.json`` says."""
    found = (find("postgres", _mark(place / "data")) for place in (folder / "postgres", outside_place(folder)))
    return tuple(Child(identity) for identities in found for identity in identities)


def _mark(data: Path) -> str:
    return f"landed.folder={data}"
