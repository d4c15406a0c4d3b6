"""Which servers are used, and that it is always said."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from landed.adapters.embedded import (
    Level,
    NotRunning,
    Part,
    ServerFailed,
    WrongSetting,
    data_folder,
    doctor,
    find_servers,
    servers,
    up,
)

from .support import execute, kill, pids_on, wait_until

KAFKA = {"LANDED_KAFKA_BOOTSTRAP": "kafka.example:9092,other.example:9093"}
POSTGRES = {"LANDED_DATABASE_URL": "postgresql://me:secret@db.example:5432/ledger?sslmode=require"}


def test_explicit_settings_win_and_nothing_is_started(tmp_path: Path) -> None:
    said: list[str] = []
    with servers(tmp_path / "data", settings=KAFKA | POSTGRES, say=said.append) as used:
        assert used.bootstrap == KAFKA["LANDED_KAFKA_BOOTSTRAP"]
        assert used.database_url == POSTGRES["LANDED_DATABASE_URL"]
    assert said == [
        "Using Kafka kafka.example:9092,other.example:9093 (LANDED_KAFKA_BOOTSTRAP), "
        "PostgreSQL postgresql://db.example:5432/ledger (LANDED_DATABASE_URL)"
    ]
    assert not (tmp_path / "data").exists()


def test_what_no_setting_names_is_embedded_and_that_alone(folder: Path) -> None:
    said: list[str] = []
    with servers(folder, settings=KAFKA, say=said.append) as used:
        assert used.bootstrap == KAFKA["LANDED_KAFKA_BOOTSTRAP"]
        assert used.postgres_from == f"embedded in {folder}"
        assert not (folder / "kafka.log").stat().st_mtime > (folder / "postgres.log").stat().st_mtime
        assert find_servers(folder, settings=KAFKA, say=said.append) == used
        with pytest.raises(NotRunning, match="Start them with: landed up"):
            find_servers(folder, settings={}, say=said.append)
        password = used.database_url.split(":")[2].split("@")[0]
    assert len(said) == 2
    assert all(str(folder) in line and password not in line for line in said)
    with pytest.raises(NotRunning, match="LANDED_DATABASE_URL"):
        find_servers(folder, settings=KAFKA, say=said.append)


@pytest.mark.parametrize("bootstrap", ["kafka.example", "kafka.example:", ":9092", "kafka.example:0", "a:1,b:x"])
def test_a_bootstrap_setting_that_is_no_address_is_named_with_its_rule(tmp_path: Path, bootstrap: str) -> None:
    settings = {"LANDED_KAFKA_BOOTSTRAP": bootstrap}
    with pytest.raises(WrongSetting, match="LANDED_KAFKA_BOOTSTRAP must be host:port"), servers(settings=settings):
        pass


def test_a_database_setting_that_is_no_url_is_named_and_its_password_is_not_repeated(tmp_path: Path) -> None:
    settings = {"LANDED_DATABASE_URL": "host=db password=secret"}
    with pytest.raises(WrongSetting, match="LANDED_DATABASE_URL must be a URL") as failure, servers(settings=settings):
        pass
    assert "secret" not in str(failure.value)


def test_the_data_folder_is_the_given_one_else_the_setting_else_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANDED_HOME", raising=False)
    assert data_folder() == tmp_path / ".landed"
    monkeypatch.setenv("LANDED_HOME", str(tmp_path / "home"))
    assert data_folder() == tmp_path / "home"
    assert data_folder("given") == tmp_path / "given"


def test_the_doctor_says_what_is_wrong_and_what_to_do(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        nobody = f"127.0.0.1:{closed_soon.getsockname()[1]}"
    up(folder, parts=frozenset({Part.POSTGRES}))
    well = {finding.check: finding for finding in doctor(folder, settings={})}
    assert {finding.level for finding in well.values()} <= {Level.OK, Level.NOTE}
    assert well["server postgres"].what.startswith("runs and answers on port")
    assert well["server kafka"].what == "is not running"

    pids = pids_on(folder)
    kill(min(pids))
    wait_until(lambda: not pids_on(folder), seconds=20)
    ill = {finding.check: finding for finding in doctor(folder, settings={"LANDED_KAFKA_BOOTSTRAP": nobody})}
    assert (ill["settings"].level, ill["settings"].what) == (
        Level.PROBLEM,
        f"LANDED_KAFKA_BOOTSTRAP={nobody} does not answer",
    )
    assert (ill["server postgres"].level, ill["server postgres"].what) == (Level.PROBLEM, "has ended by itself")
    assert (folder / "postgres.log").read_text().splitlines()[-1] in ill["server postgres"].advice


def test_the_doctor_makes_nothing(tmp_path: Path) -> None:
    doctor(tmp_path / "data", settings={})
    assert list(tmp_path.iterdir()) == []


def test_data_of_another_postgres_version_is_refused_and_kept(folder: Path) -> None:
    version = folder / "postgres" / "data" / "PG_VERSION"
    version.write_text("15\n")
    with pytest.raises(Exception, match=r"was made by PostgreSQL 15.*landed down --wipe"):
        up(folder, parts=frozenset({Part.POSTGRES}))
    version.write_text("18\n")
    assert execute(up(folder, parts=frozenset({Part.POSTGRES})), "SELECT 1") == [(1,)]


def test_a_failure_to_create_the_cluster_shows_what_initdb_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that a full disk would set, at a size that no cluster fits in."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    try:
        with pytest.raises(ServerFailed, match="could not create its cluster") as failure:
            up(tmp_path / "data", parts=frozenset({Part.POSTGRES}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.log_tail
    assert not pids_on(tmp_path)
