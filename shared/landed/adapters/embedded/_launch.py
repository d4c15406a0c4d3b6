"""Starting one server and waiting for it, alike for both: what differs is in the `Server`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import msgspec

from . import _ports
from ._errors import PortTaken, ServerFailed
from ._folder import log_tail
from ._processes import Child, exited
from ._progress import Progress, Step

POLL_SECONDS = 0.02
LOG_KEPT_BYTES = 16_000_000


class Server(Protocol):
    """A server whose programs and data are in place."""

    @property
    def name(self) -> str:
        """For people, with version."""

    @property
    def version(self) -> str:
        """Of the server."""

    @property
    def log(self) -> Path:
        """Where its output goes."""

    @property
    def port_count(self) -> int:
        """How many ports it listens on."""

    @property
    def port_taken(self) -> str:
        """What its log says when one of them is taken."""

    @property
    def ready_seconds(self) -> float:
        """How long it may take to answer."""

    def start(self, ports: tuple[int, ...], *, tied: bool) -> Child:
        """Start its process."""

    def answers(self, ports: tuple[int, ...]) -> bool:
        """Whether it is ready; returns within a second or two."""


class Launch(msgspec.Struct, frozen=True):
    """A server that was started and may not be ready yet."""

    child: Child
    ports: tuple[int, ...]
    log_from: int


def launch(server: Server, wanted: tuple[int, ...], progress: Progress, *, tied: bool) -> Launch:
    """Start *server* on the *wanted* ports, or on others where those are taken."""
    ports = _ports.choose(server.port_count, wanted)
    progress(Step(text=f"Starting {server.name} on {_ports.ADDRESS}:{ports[0]}"))
    log_from = _log_start(server.log)
    return Launch(server.start(ports, tied=tied), ports, log_from)


def await_ready(server: Server, launched: Launch) -> None:
    """Return once *server* answers.

    Raises:
        PortTaken: somebody else has one of the ports.
        ServerFailed: it ended or kept silent, with the end of its log.
    """
    deadline = time.monotonic() + server.ready_seconds
    while True:
        if exited(launched.child):
            said = log_tail(server.log, since=launched.log_from, lines=200)
            if any(server.port_taken in line for line in said):
                ports = ", ".join(map(str, launched.ports))
                raise PortTaken(f"{server.name} found its port taken (of {_ports.ADDRESS}: {ports}).", said[-10:])
            raise ServerFailed(f"{server.name} ended while starting.", said[-10:])
        if server.answers(launched.ports):
            return
        if time.monotonic() > deadline:
            tail = log_tail(server.log, since=launched.log_from)
            raise ServerFailed(f"{server.name} did not answer within {server.ready_seconds:.0f} s.", tail)
        time.sleep(POLL_SECONDS)


def _log_start(log: Path) -> int:
    """Where in *log* the lines of the next start begin; a log that grew large is put aside first."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size > LOG_KEPT_BYTES:
        log.replace(log.with_suffix(".log.1"))
        return 0
    return size
