"""Starting, reusing and ending the servers of one data folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from . import _kafka, _ports, _postgres, _state
from ._account import POSTGRES_MAJOR
from ._downloads import KAFKA_VERSION
from ._errors import FolderInUse, PortTaken
from ._folder import HOME_SETTING, data_folder, make_writable
from ._processes import Child, Identity, alive, exited, stop, this_process
from ._progress import Progress, Step, silent
from ._state import State

PORT_TRIES = 3
PATIENCE_SECONDS = 10.0  # for a gentle end, then SIGKILL
HUNG_SECONDS = 5.0  # a recorded server that answers nothing for so long is started anew
LOG_KEPT_BYTES = 16_000_000

Part = str
KAFKA: Part = "Kafka"
POSTGRES: Part = "PostgreSQL"
BOTH = frozenset({KAFKA, POSTGRES})


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that run and answer.

    ``bootstrap`` and ``database_url`` (it holds a password) are what clients connect to; empty for a part that was not
    asked for. ``started`` names the parts that this call started; the others ran already. ``tied``: they end with
    the process that started them.
    """

    folder: Path
    bootstrap: str
    database_url: str
    started: frozenset[Part]
    tied: bool


def up(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = silent,
    parts: frozenset[Part] = BOTH,
) -> Running:
    """Start the servers of a data folder in the background, or find them running; they outlive this process.

    Calling it again is cheap and changes nothing; a part that died is started alone, on its old port if that is free.

    Args:
        data_dir: the data folder; None: ``$LANDED_HOME``, else ``.landed/`` in the current directory.
        progress: told what happens, downloads with bytes; from other threads too, one call at a time.
        parts: which servers; both unless named.

    Raises:
        EmbeddedError: one of its tree, with what to do; nothing that this call started is left running then.
    """
    running, _children = _start(data_folder(data_dir), progress, parts, tied=False)
    return running


@contextmanager
def embedded(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = silent,
    parts: frozenset[Part] = BOTH,
    wipe: bool = False,
) -> Iterator[Running]:
    """Servers for the time of a ``with`` block, ended with it; and with this process, should it be killed.

    Servers that already ran in the background are used and left running. With *wipe* the data folder is deleted
    at the end.

    Raises:
        FolderInUse: the servers of the folder belong to another live process.
        EmbeddedError: as `up`.
    """
    with _owned(data_folder(data_dir), progress, parts, wipe) as (running, _children):
        yield running


@contextmanager
def watched(
    data_dir: str | os.PathLike[str] | None = None, *, progress: Progress = silent
) -> Iterator[tuple[Running, Callable[[], Part | None]]]:
    """As `embedded`, with a function that names a part which has ended by itself, else None."""
    with _owned(data_folder(data_dir), progress, BOTH, wipe=False) as (running, children):

        def ended() -> Part | None:
            return next((part for part, child in children.items() if exited(child)), None)

        yield running, ended


def down(data_dir: str | os.PathLike[str] | None = None, *, wipe: bool = False) -> frozenset[Part]:
    """End the servers of a data folder; nothing running is fine. Returns the parts that ran.

    With *wipe* everything that was kept in the folder is deleted, and the folder when nothing else is in it.

    Raises:
        FolderInUse: another process is just starting or stopping them.
    """
    folder = data_folder(data_dir)
    if not folder.is_dir():
        return frozenset()
    make_writable(folder, HOME_SETTING)
    with _state.locked(folder):
        state = _state.load(folder)
        ended = _stop_all(folder, state, {})
        if wipe:
            _wipe(folder)
        else:
            _state.save(folder, _stopped(state))
    return ended


def found(data_dir: str | os.PathLike[str] | None = None, *, parts: frozenset[Part] = BOTH) -> Running | None:
    """The servers of a data folder if all *parts* run, else None. Starts and changes nothing."""
    folder = data_folder(data_dir)
    state = _state.load(folder)
    runs = {KAFKA: state.kafka is not None and alive(state.kafka.process)}
    runs[POSTGRES] = state.postgres is not None and alive(state.postgres.process)
    return _running(folder, state, parts, frozenset()) if all(runs[part] for part in parts) else None


@contextmanager
def _owned(
    folder: Path, progress: Progress, parts: frozenset[Part], wipe: bool
) -> Iterator[tuple[Running, dict[Part, Child]]]:
    running, children = _start(folder, progress, parts, tied=True)
    try:
        yield running, children
    finally:
        with _state.locked(folder):
            state = _state.load(folder)
            for part, child in children.items():
                _stop(part, child, hurry=wipe)
            if wipe and running.started == parts:
                _wipe(folder)
            else:
                _state.save(folder, _stopped(state, frozenset(children)))


def _start(
    folder: Path, progress: Progress, parts: frozenset[Part], *, tied: bool
) -> tuple[Running, dict[Part, Child]]:
    make_writable(folder, f"{HOME_SETTING} or --data-dir")
    with _state.locked(folder):
        state = _state.load(folder)
        missing = frozenset(part for part in parts if not _reusable(folder, state, part))
        owner = state.owner if alive(state.owner) and missing != parts else None
        if tied and owner is not None and owner != this_process():
            raise FolderInUse(
                f"the servers in {folder} belong to process {owner.pid} and end with it. "
                f"Name another folder with {HOME_SETTING} or --data-dir."
            )
        if missing:
            state = msgspec.structs.replace(state, owner=this_process() if tied else owner)
            state, children = _start_missing(folder, state, missing, progress, tied)
        else:
            children = {}
        return _running(folder, state, parts, missing), children


def _start_missing(
    folder: Path, state: State, missing: frozenset[Part], progress: Progress, tied: bool
) -> tuple[State, dict[Part, Child]]:
    """Make ready in parallel, start from this thread (an owner's tie belongs to it), then wait for both."""
    for part in missing:
        for child in _leftovers(folder, part):
            _stop(part, child)
    (folder / ".gitignore").write_text("*\n")
    with ThreadPoolExecutor(2) as pool:
        broker_made = pool.submit(_kafka.Broker, folder, progress) if KAFKA in missing else None
        cluster_made = pool.submit(_postgres.Cluster, folder) if POSTGRES in missing else None
        broker = broker_made.result() if broker_made else None
        cluster = cluster_made.result() if cluster_made else None

    children: dict[Part, Child] = {}
    try:
        for attempt in range(1, PORT_TRIES + 1):
            old_kafka, old_postgres = state.kafka, state.postgres
            remembered = [
                old_kafka.port if old_kafka else None,
                old_kafka.controller_port if old_kafka else None,
                old_postgres.port if old_postgres else None,
            ]
            if attempt > 1:
                remembered = []
            port, controller_port, postgres_port = _ports.choose(3, remembered)
            try:
                waits: list[Callable[[], None]] = []
                if broker and KAFKA not in children:
                    progress(Step(text=f"Starting Apache Kafka {KAFKA_VERSION} on {_ports.ADDRESS}:{port}"))
                    log_from = _log_start(broker.log)
                    child = children[KAFKA] = broker.start(port, controller_port, tied=tied)
                    record = _state.Kafka(
                        version=KAFKA_VERSION, port=port, controller_port=controller_port, process=child.identity
                    )
                    state = msgspec.structs.replace(state, kafka=record)
                    _state.save(folder, state)
                    waits.append(_waiting(broker.await_ready, child, port, log_from))
                if cluster and POSTGRES not in children:
                    what = f"PostgreSQL {POSTGRES_MAJOR} on {_ports.ADDRESS}:{postgres_port}"
                    progress(Step(text=f"Starting {what}, as {cluster.account.description}"))
                    log_from = _log_start(cluster.log)
                    child = children[POSTGRES] = cluster.start(postgres_port, tied=tied)
                    place = _state.Postgres(version=str(POSTGRES_MAJOR), port=postgres_port, process=child.identity)
                    state = msgspec.structs.replace(state, postgres=place)
                    _state.save(folder, state)
                    waits.append(_waiting(cluster.await_ready, child, postgres_port, log_from))
                for wait in waits:
                    wait()
                return state, children
            except PortTaken:
                for part in [part for part, child in children.items() if exited(child)]:
                    _stop(part, children.pop(part))
                if attempt == PORT_TRIES:
                    raise
        raise AssertionError("the loop returns or raises")
    except BaseException:
        for part, child in children.items():
            _stop(part, child)
        _state.save(folder, _stopped(state, missing))
        raise
