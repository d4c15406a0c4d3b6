"""The jars of Kafka: fetched once per user, each checked against the sum kept in this package before it is used.

``kafka.sums`` lists every jar with its sum, so nothing is resolved at run time: what was tried is what runs. A jar is
fetched into a folder of this process alone and moved into place only when its sum fits, under a lock: two processes
that start at once download once, and a killed one leaves nothing that is later taken for a jar.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import msgspec

from ._errors import DownloadFailed
from ._folder import CACHE_SETTING, cache_folder, make_writable
from ._packages import require
from ._part import Part
from ._progress import Progress, Step, silent

KAFKA_VERSION = "4.4.0"
SILENCE_SECONDS = 30  # a server that sends nothing for so long is given up
TRIES = 3
WAIT_FOR_OTHER_SECONDS = 600.0
PARALLEL = 6


class Jar(msgspec.Struct, frozen=True):
    """One line of ``kafka.sums``; coordinates are ``group:name:version[:classifier[:type]]``, the type else ``jar``."""

    sha256: str
    size: int
    coordinates: str

    @property
    def file_name(self) -> str:
        _group, name, version, *rest = self.coordinates.split(":")
        return "-".join([name, version, *rest[:1]]) + "." + (rest[1] if rest[1:] else "jar")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is fetched, for people."""

    name: str
    advice: str
    """What else can be done where it cannot be fetched."""


KAFKA = Program(
    name=f"Apache Kafka {KAFKA_VERSION}",
    advice="The first start needs reach to a Maven repository (HTTPS_PROXY is honoured, as are mirrors in jgo's "
    "configuration). To use a Kafka that you already have, set LANDED_KAFKA_BOOTSTRAP=host:port; to use a cache "
    f"filled on another machine, copy its folder and set {CACHE_SETTING}.",
)


def jars() -> tuple[Jar, ...]:
    """Every jar of the embedded Kafka."""
    text = resources.files(__package__).joinpath("kafka.sums").read_text()
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(Jar(sha256, int(size), coordinates) for sha256, size, coordinates in lines)


def fetch(progress: Progress = silent) -> Path:
    """Download what the first start needs, if it is not in the cache yet; returns the folder of the jars.

    For set-up scripts: what follows then needs no network. Raises as `kafka_jars`, and MissingExtra.
    """
    require({Part.KAFKA})
    return kafka_jars(progress)


def kafka_jars(progress: Progress) -> Path:
    """The folder of all jars, complete and checked; downloads what is missing.

    Raises:
        FolderUnusable: the cache cannot be written.
        DownloadFailed: no network, a broken answer or a wrong sum; says how to use an existing Kafka instead.
    """
    return complete(cache_folder() / f"kafka-{KAFKA_VERSION}", jars(), KAFKA, progress)


def complete(folder: Path, wanted: tuple[Jar, ...], program: Program, progress: Progress) -> Path:
    """*folder* with every file of *wanted* in it, each of its sum; downloads what is missing. Raises as `kafka_jars`."""
    if not _missing(folder, wanted):
        return folder
    make_writable(folder, CACHE_SETTING)
    with _one_at_a_time(folder.with_suffix(".lock"), program, progress):
        if missing := _missing(folder, wanted):
            _download(missing, folder, program, progress)
    return folder


def cached() -> bool:
    """Whether Kafka can start without a download."""
    return not _missing(cache_folder() / f"kafka-{KAFKA_VERSION}", jars())


def repositories() -> dict[str, str]:
    """Where jars are fetched from, in this order: mirrors of the user's jgo configuration, then the default."""
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    mirrors: dict[str, str] = GlobalSettings.load().repositories
    default: dict[str, str] = MavenContext().remote_repos
    return {**mirrors, **{name: url for name, url in default.items() if name not in mirrors}}


def _missing(folder: Path, wanted: tuple[Jar, ...]) -> tuple[Jar, ...]:
    return tuple(jar for jar in wanted if not _fits(folder / jar.file_name, jar))


def _fits(path: Path, jar: Jar) -> bool:
    try:
        if path.stat().st_size != jar.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _download(missing: tuple[Jar, ...], folder: Path, program: Program, progress: Progress) -> None:
    mirrors = repositories()
    meter = _Meter(progress, program, sum(jar.size for jar in missing))
    progress(Step(text=f"Downloading {program.name} ({meter.total / 1e6:.0f} MB, once) to {folder}"))
    for left in folder.glob(".draft-*"):  # of a process that was killed: the lock is ours now
        shutil.rmtree(left, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    try:
        with ThreadPoolExecutor(PARALLEL) as pool:
            fetches = {pool.submit(_fetch, jar, draft, program, meter, mirrors): jar for jar in missing}
            try:
                for done in as_completed(fetches):
                    done.result().replace(folder / fetches[done].file_name)
            except BaseException:
                meter.stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fetch(jar: Jar, draft: Path, program: Program, meter: _Meter, mirrors: dict[str, str]) -> Path:
    from jgo.maven import MavenContext, PythonResolver
    from requests import RequestException

    group, name, version, *rest = jar.coordinates.split(":")
    reason = ""
    for attempt in range(TRIES):
        place = draft / f"{jar.file_name}.{attempt}"
        context = MavenContext(
            resolver=PythonResolver(progress_callback=meter.of_file),
            repo_cache=place,
            remote_repos=mirrors,
            timeout=SILENCE_SECONDS,
        )
        try:
            artifact = context.project(group, name).at_version(version).artifact(*rest)
            path = Path(artifact.resolve())
        except (RequestException, OSError, RuntimeError, AssertionError) as error:
            reason = str(error)
        else:
            if _fits(path, jar):
                return path
            reason = f"its SHA-256 is not {jar.sha256}"
        time.sleep(0.2 * attempt)
    raise DownloadFailed(f"{program.name} could not be downloaded: {jar.file_name}: {reason}\n{program.advice}")


class _Meter:
    """Bytes of all downloads together; fed from several threads, told on at most ten times a second."""

    def __init__(self, progress: Progress, program: Program, total: int) -> None:
        self.total = total
        self._text = f"Downloading {program.name}"
        self._done = 0
        self._told = 0.0
        self._stopped = False
        self._progress = progress
        self._lock = threading.Lock()

    def stop(self) -> None:
        """End all downloads at their next piece."""
        self._stopped = True

    def add(self, count: int) -> None:
        if self._stopped:
            raise DownloadFailed("the download was stopped")
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._told < 0.1 and self._done < self.total:
                return
            self._told = now
            done = min(self._done, self.total)  # a jar that was fetched twice counts twice
        self._progress(Step(text=self._text, bytes_done=done, bytes_total=self.total))

    @contextmanager
    def of_file(self, _name: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield self.add


@contextmanager
def _one_at_a_time(path: Path, program: Program, progress: Progress) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + WAIT_FOR_OTHER_SECONDS
    told = False
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DownloadFailed(
                        f"another process has been downloading to {path.parent} for {WAIT_FOR_OTHER_SECONDS:.0f} s. "
                        "End it, then try again."
                    ) from None
                if not told:
                    progress(Step(text=f"Another process is downloading {program.name}; waiting for it"))
                    told = True
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
