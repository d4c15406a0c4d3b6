"""Starting, reusing and ending the servers of one data folder."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from . import _kafka, _packages, _postgres, _state
from ._errors import FolderInUse, PortTaken
from ._folder import HOME_SETTING, data_folder, make_writable
from ._launch import Launch, Server, await_ready, launch
from ._part import BOTH, Part
from ._ports import ADDRESS
from ._processes import Child, alive, exited, stop, this_process
from ._progress import Progress, serialised, silent
from ._state import State

PORT_TRIES = 3
PATIENCE_SECONDS = 10.0  # for a gentle end; then SIGKILL
HUNG_SECONDS = 5.0  # a server that runs but does not answer for so long is started anew


Ended = Callable[[], Part | None]  # names a part that has ended by itself


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that run and answer.

    ``bootstrap`` and ``database_url`` (it holds a password) are what clients connect to; empty for a part that was not
    asked for. ``started`` names the parts that this call started; the others ran already. ``owner_pid``: the process
    with which they end, None in the background.
    """

    folder: Path
    bootstrap: str
    database_url: str
    started: frozenset[Part]
    owner_pid: int | None

    def __repr__(self) -> str:
        return f"Running(folder={str(self.folder)!r}, bootstrap={self.bootstrap!r}, owner_pid={self.owner_pid})"


def up(data_dir: str | os.PathLike[str] | None = None, *, progress: Progress = silent, parts: frozenset[Part] = BOTH) -> Running:
    """Start the servers of a data folder in the background, or find them running; they outlive this process.

    Calling it again is cheap and changes nothing; a part that died is started alone, on its old port if that is free.

    Args:
        data_dir: the data folder; None: ``$LANDED_HOME``, else ``.landed/`` in the current directory.
        progress: told what happens, downloads with bytes; from other threads too, one call at a time.
        parts: which servers; both unless named.

    Raises:
        EmbeddedError: one of its tree, with what to do; nothing that this call started is left running then.
    """
    return _start(data_folder(data_dir), progress, parts, tied=False)[0]


@contextmanager
def embedded(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = silent,
    parts: frozenset[Part] = BOTH,
    wipe: bool = False,
) -> Iterator[Running]:
    """Servers for the time of a ``with`` block, ended with it; and with this process, should it be killed.

    Servers that already ran in the background are used and left running. With *wipe* what was started here is
    killed at the end, and its data deleted.

    Raises:
        FolderInUse: the servers of the folder belong to another live process.
        EmbeddedError: as `up`.
    """
    with watched(data_dir, progress=progress, parts=parts, wipe=wipe) as (running, _ended):
        yield running


@contextmanager
def watched(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = silent,
    parts: frozenset[Part] = BOTH,
    wipe: bool = False,
) -> Iterator[tuple[Running, Ended]]:
    """As `embedded`, with a function that names a part which has ended by itself, else None."""
    folder = data_folder(data_dir)
    running, children = _start(folder, progress, parts, tied=True)
    try:
        yield running, lambda: next((part for part, child in children.items() if exited(child)), None)
    finally:
        for part, child in children.items():
            _stop(part, child, hurry=wipe)
        if children and folder.is_dir():  # else somebody has wiped it meanwhile
            with _state.locked(folder):
                _state.save(folder, _state.load(folder).ended(children))
                if wipe:
                    _wipe(folder, children)


def down(data_dir: str | os.PathLike[str] | None = None, *, wipe: bool = False) -> frozenset[Part]:
    """End the servers of a data folder, whoever started them; returns the parts that ran. Nothing running is fine.

    With *wipe* everything that was kept in the folder is deleted, and the folder when nothing else is in it.

    Raises:
        FolderUnusable: the folder cannot be written.
        FolderInUse: another process is just starting or stopping them.
    """
    folder = data_folder(data_dir)
    if not folder.is_dir():
        return frozenset()
    make_writable(folder, HOME_SETTING)
    with _state.locked(folder):
        ended = frozenset(part for part in Part if _stop_all(folder, part, hurry=wipe))
        _state.save(folder, _state.load(folder).ended(Part))
        if wipe:
            _wipe(folder, Part)
    return ended


def found(data_dir: str | os.PathLike[str] | None = None, *, parts: frozenset[Part] = BOTH) -> Running | None:
    """The servers of a data folder if the processes of all *parts* run, else None. Starts and changes nothing."""
    folder = data_folder(data_dir)
    state = _state.load(folder)
    if all(part in state.servers and alive(state.servers[part].process) for part in parts):
        return _running(folder, state, parts, frozenset())
    return None


def _start(folder: Path, progress: Progress, parts: frozenset[Part], *, tied: bool) -> tuple[Running, dict[Part, Child]]:
    make_writable(folder, f"{HOME_SETTING} or --data-dir")
    progress = serialised(progress)
    with _state.locked(folder):
        state = _state.load(folder)
        missing = frozenset(part for part in parts if not _runs_well(folder, state, part))
        owner = state.owner if alive(state.owner) and any(_runs(state, part) for part in Part) else None
        if tied and owner is not None and owner != this_process():
            raise FolderInUse(
                f"the servers in {folder} belong to process {owner.pid} and end with it. "
                f"Name another folder with {HOME_SETTING} or --data-dir."
            )
        children: dict[Part, Child] = {}
        if missing:
            state = msgspec.structs.replace(state, owner=this_process() if tied else owner)
            state, children = _start_missing(folder, state, missing, progress, tied)
        return _running(folder, state, parts, missing), children


def _start_missing(
    folder: Path, state: State, missing: frozenset[Part], progress: Progress, tied: bool
) -> tuple[State, dict[Part, Child]]:
    _packages.require(missing)
    for part in missing:
        _stop_all(folder, part, hurry=False)
    (folder / ".gitignore").write_text("*\n")
    servers = _made_ready(folder, missing, progress)
    children: dict[Part, Child] = {}

    def begin(part: Part, wanted: tuple[int, ...]) -> Launch:
        nonlocal state
        # From this thread: the tie to an owner belongs to it. Recorded at once, so that whatever comes next finds it.
        launched = launch(servers[part], wanted, progress, tied=tied)
        children[part] = launched.child
        record = _state.Server(version=servers[part].version, ports=launched.ports, process=launched.child.identity)
        state = state.holding(part, record)
        _state.save(folder, state)
        return launched

    try:
        remembered = {part: state.servers[part].ports if part in state.servers else () for part in servers}
        launches = {part: begin(part, remembered[part]) for part in servers}
        for part, server in servers.items():
            for attempt in range(PORT_TRIES):
                try:
                    await_ready(server, launches[part])
                    break
                except PortTaken:
                    if attempt + 1 == PORT_TRIES:
                        raise
                    _stop(part, children[part])
                    launches[part] = begin(part, ())
    except BaseException:
        for part, child in children.items():
            _stop(part, child)
        _state.save(folder, state.ended(children))
        raise
    return state, children


def _made_ready(folder: Path, missing: frozenset[Part], progress: Progress) -> Mapping[Part, Server]:
    """Download, format and initialise what is missing, both servers at the same time."""
    servers: dict[Part, Server] = {}
    with ThreadPoolExecutor(1) as pool:
        postgres = pool.submit(_postgres.Postgres, folder) if Part.POSTGRES in missing else None
        if Part.KAFKA in missing:
            servers[Part.KAFKA] = _kafka.Kafka(folder, progress)  # in this thread: Ctrl-C ends a long download
        if postgres is not None:
            servers[Part.POSTGRES] = postgres.result()
    return servers


def _runs(state: State, part: Part) -> bool:
    return part in state.servers and alive(state.servers[part].process)


def _runs_well(folder: Path, state: State, part: Part) -> bool:
    if not _runs(state, part):
        return False
    deadline = time.monotonic() + HUNG_SECONDS
    while not answering(folder, state, part):
        if time.monotonic() > deadline or not _runs(state, part):
            return False
    return True


def answering(folder: Path, state: State, part: Part) -> bool:
    """Whether the recorded server of *part* answers."""
    port = state.servers[part].ports[0]
    if part is Part.KAFKA:
        return _kafka.answers(f"{ADDRESS}:{port}", seconds=0.3, cluster=_kafka.cluster_id(folder / "kafka"))
    return any(_postgres.answers(_postgres.url(place, port)) for place in _postgres.places(folder))


def _running(folder: Path, state: State, parts: frozenset[Part], started: frozenset[Part]) -> Running:
    bootstrap = database_url = ""
    if Part.KAFKA in parts:
        bootstrap = f"{ADDRESS}:{state.servers[Part.KAFKA].ports[0]}"
    if Part.POSTGRES in parts:
        database_url = _postgres.url(_postgres.places(folder)[0], state.servers[Part.POSTGRES].ports[0])
    owner_pid = state.owner.pid if state.owner is not None and alive(state.owner) else None
    return Running(folder=folder, bootstrap=bootstrap, database_url=database_url, started=started, owner_pid=owner_pid)


def _stop_all(folder: Path, part: Part, *, hurry: bool) -> bool:
    """End every server of *part* that runs on this folder, recorded or not; whether there was one."""
    # The mark on the command line finds them all: also one whose record was lost or never written.
    running = _kafka.leftovers(folder) if part is Part.KAFKA else _postgres.leftovers(folder)
    for child in running:
        _stop(part, child, hurry=hurry)
    return bool(running)


def _stop(part: Part, child: Child, *, hurry: bool = False) -> None:
    ending: signal.Signals
    if part is Part.KAFKA:
        ending = _kafka.ENDING if hurry else _kafka.GENTLE
    else:
        ending = _postgres.ENDING if hurry else _postgres.GENTLE
    stop(child, ending, patience_seconds=PATIENCE_SECONDS)


def _wipe(folder: Path, parts: Iterable[Part]) -> None:
    """Delete what *parts* made, by name, and with the last of them the rest: nothing else in the folder is touched."""
    kept = {Part.KAFKA: [folder / "kafka"], Part.POSTGRES: list(_postgres.places(folder))}
    for part in parts:
        for place in filter(Path.exists, kept[part]):
            shutil.rmtree(place)
        for log in (folder / f"{part}.log", folder / f"{part}.log.1"):
            log.unlink(missing_ok=True)
    if not any(place.exists() for places in kept.values() for place in places):
        for name in (".gitignore", "state.json", "state.lock"):
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
