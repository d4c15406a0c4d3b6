"""Where things lie: one data folder per instance, one cache of downloads per user.

    <data folder>/            $LANDED_HOME, else .landed/ in the current directory
        state.json            which servers run: pid with start time, ports, versions
        state.lock            held while servers are started or stopped
        kafka/  kafka.log     settings and data of Kafka, and what it says
        postgres/  postgres.log   likewise

The data folder belongs to a project, so it lies beside it; the cache (the jars of Kafka, 43 MB) is the same for all
of a user's projects: $LANDED_CACHE, else $XDG_CACHE_HOME/landed, else ~/.cache/landed.
"""

from __future__ import annotations

import os
from pathlib import Path

from ._errors import FolderUnusable

HOME_SETTING = "LANDED_HOME"
CACHE_SETTING = "LANDED_CACHE"


def data_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """The data folder as an absolute path: *given*, else ``$LANDED_HOME``, else ``.landed/`` here. Creates nothing."""
    chosen = os.fspath(given) if given is not None else os.environ.get(HOME_SETTING) or ".landed"
    return Path(chosen).expanduser().resolve()


def cache_folder() -> Path:
    """The folder of downloads, shared by all data folders of this user. Creates nothing."""
    if explicit := os.environ.get(CACHE_SETTING):
        return Path(explicit).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()).resolve() / "landed"


def make_writable(folder: Path, setting: str) -> None:
    """Create *folder* and prove that a file can be written in it.

    Raises:
        FolderUnusable: naming the folder, the reason and the *setting* that moves it elsewhere.
    """
    probe = folder / f".write-probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FolderUnusable(
            f"cannot write in the folder {folder}: {error.strerror or error}. "
            f"Make it writable for this account, or name another one with {setting}."
        ) from error


def log_tail(log: Path, *, since: int = 0, lines: int = 10) -> tuple[str, ...]:
    """The last *lines* lines of a log, none of them from before the byte offset *since*."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since, size - 32_768))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])
