"""A real schema registry for the tests: Apicurio Registry with its Confluent-compatible interface, in memory, at 127.0.0.1.

Fetched and kept beside the embedded Kafka, each file checked against its sum: ``python -m tests.schema_registry`` does that ahead
of the tests, so that none of them waits for a network. Its licence is Apache-2.0; nothing of it is part of this package.
"""

from __future__ import annotations

import shutil
import signal
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from landed.adapters.embedded import cache_folder, silent, to_stderr
from landed.adapters.embedded._account import environment
from landed.adapters.embedded._downloads import Jar, Program, complete
from landed.adapters.embedded._kafka import JVM, java
from landed.adapters.embedded._launch import await_ready, launch
from landed.adapters.embedded._ports import ADDRESS
from landed.adapters.embedded._processes import Child, spawn, stop
from landed.adapters.embedded._progress import Progress

VERSION = "3.3.3"
ARCHIVE = Jar(
    "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63",
    158_577_952,
    f"io.apicurio:apicurio-registry-app:{VERSION}:all:tar.gz",
)
PROGRAM = Program(
    name=f"Apicurio Registry {VERSION}",
    advice="The tests of the schema registry need reach to a Maven repository once (HTTPS_PROXY is honoured, as are mirrors in "
    "jgo's configuration), or a cache that was filled on another machine.",
)


def fetch(progress: Progress = silent) -> Path:
    """The folder of the unpacked registry; downloads and unpacks it where that was not done yet."""
    folder = cache_folder() / f"apicurio-{VERSION}"
    unpacked = folder / "unpacked"
    if unpacked.is_dir():
        return unpacked
    complete(folder, (ARCHIVE,), PROGRAM, progress)
    draft = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder))
    try:
        with tarfile.open(folder / ARCHIVE.file_name) as archive:
            archive.extractall(draft / "unpacked", filter="data")
        try:
            (draft / "unpacked").rename(unpacked)
        except OSError:
            if not unpacked.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return unpacked


@contextmanager
def schema_registry(folder: Path) -> Iterator[str]:
    """URL of the Confluent-compatible interface of a registry without a schema; it ends with the block, or with this process."""
    server = _Apicurio(folder)
    launched = launch(server, (), silent, tied=True)
    try:
        await_ready(server, launched)
        yield _url(launched.ports[0])
    finally:
        stop(launched.child, signal.SIGKILL, patience_seconds=5)


class _Apicurio:
    name = PROGRAM.name
    version = VERSION
    port_count = 1
    port_taken = "already in use"
    ready_seconds = 90.0

    def __init__(self, folder: Path) -> None:
        self._home = folder
        self.log = folder / "registry.log"
        self._program = fetch()

    def start(self, ports: tuple[int, ...], *, tied: bool) -> Child:
        settings = {
            "java.io.tmpdir": self._home,
            "java.util.logging.manager": "org.jboss.logmanager.LogManager",
            "quarkus.http.host": ADDRESS,
            "quarkus.http.port": ports[0],
            # A door of its own, that is open to other machines if nothing is said.
            "quarkus.management.host": ADDRESS,
            "quarkus.management.port": 0,
            "quarkus.analytics.disabled": "true",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return spawn(
            [str(java()), *JVM, *options, "-jar", "quarkus-run.jar"],
            cwd=self._program,
            log=self.log,
            environment=environment(),
            tied=tied,
            ending=signal.SIGKILL,
        )

    def answers(self, ports: tuple[int, ...]) -> bool:
        try:
            with urllib.request.urlopen(f"{_url(ports[0])}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def _url(port: int) -> str:
    return f"http://{ADDRESS}:{port}/apis/ccompat/v7"


if __name__ == "__main__":
    fetch(to_stderr)
