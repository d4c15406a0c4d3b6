"""What runs in a data folder: ``state.json``, changed only under ``state.lock``.

A pid alone proves nothing, since the system hands it out again: each is kept with the start time of its process. The
ports stay in the file after ``down``, so that the settings a user exported still hold after the next ``up``.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ._errors import FolderInUse
from ._part import Part
from ._processes import Identity

LOCK_WAIT_SECONDS = 120.0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a data folder; ``process`` is None while it is down. The first port is the one for clients."""

    version: str
    ports: tuple[int, ...]
    process: Identity | None = None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``state.json``. ``owner``: the process whose end ends the servers, None in the background."""

    owner: Identity | None = None
    servers: dict[Part, Server] = {}

    def holding(self, part: Part, server: Server) -> State:
        """This state with another record of *part*."""
        return msgspec.structs.replace(self, servers={**self.servers, part: server})

    def ended(self, parts: Iterable[Part]) -> State:
        """This state with *parts* down, their ports kept; without an owner once nothing runs."""
        servers = {
            part: msgspec.structs.replace(server, process=None) if part in parts else server
            for part, server in self.servers.items()
        }
        runs = any(server.process is not None for server in servers.values())
        return State(owner=self.owner if runs else None, servers=servers)


def load(folder: Path) -> State:
    """The recorded state; an absent or unreadable file is an empty state, since all in it can be found out again."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return State()


def save(folder: Path, state: State) -> None:
    """Replace ``state.json`` in one step, so that a reader without the lock never sees half a file."""
    draft = folder / "state.json.new"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
    draft.replace(folder / "state.json")


@contextmanager
def locked(folder: Path, *, wait_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when the process ends in whatever way.

    Raises:
        FolderInUse: another process held it for longer than *wait_seconds*.
    """
    path = folder / "state.lock"
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever wiped the folder meanwhile removed the file that was locked: only the one at the path counts.
            if _same_file(descriptor, path):
                break
            os.close(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise FolderInUse(
                    f"another process has been starting or stopping the servers in {folder} for {wait_seconds:.0f} s. "
                    "Wait for it or end it, then try again."
                ) from None
            time.sleep(0.05)
    try:
        yield
    finally:
        os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
