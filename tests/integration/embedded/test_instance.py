"""What holds of the servers of a data folder while they are started, found again, killed and stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from landed.adapters.embedded import (
    FolderInUse,
    Part,
    PortTaken,
    Running,
    ServerFailed,
    down,
    embedded,
    found,
    up,
)
from landed.adapters.embedded import _instance as instance
from landed.adapters.embedded import _ports as ports

from .support import SLACK, append, copy_folder, execute, first_value, kill, pids_on, wait_until


def state_of(folder: Path) -> dict[str, dict[str, dict[str, object]]]:
    return json.loads((folder / "state.json").read_text())  # type: ignore[no-any-return]


def pid_of(folder: Path, part: Part) -> int:
    process = state_of(folder)["servers"][part]["process"]
    assert isinstance(process, dict)
    return int(process["pid"])


def listeners(pids: set[int]) -> set[tuple[str, int]]:
    """Addresses and ports on which *pids* listen for TCP, by the kernel's own tables."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found_here = set()
    for table, length in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A" and fields[9] in inodes:
                raw = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, length, 8))
                family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
                found_here.add((socket.inet_ntop(family, raw), int(port, 16)))
    return found_here


@pytest.fixture(scope="module")
def running(prepared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One instance in the background for the tests that leave it as it is, with a record in it."""
    folder = tmp_path_factory.mktemp("background") / "data"
    copy_folder(prepared_folder, folder)
    instance = up(folder)
    append(instance, "first", b"kept")
    execute(instance, "CREATE TABLE kept AS SELECT 42 AS answer")
    yield instance
    down(folder, wipe=True)
    assert not folder.exists()


def test_everything_listens_on_the_loopback_address_only(running: Running) -> None:
    """Broker, controller and database, and nothing else: no management port either."""
    addresses = listeners(pids_on(running.folder))
    servers = state_of(running.folder)["servers"]
    expected = [port for server in servers.values() for port in server["ports"]]  # type: ignore[attr-defined]
    assert addresses == {("127.0.0.1", port) for port in expected}
    assert len(expected) == 3


def test_starting_again_finds_the_same_servers(running: Running) -> None:
    pids = pids_on(running.folder)
    began = time.monotonic()
    again = up(running.folder)
    seconds = time.monotonic() - began
    print(f"reused in {seconds:.2f} s (rule: 5 s)")
    assert seconds < 5 * SLACK
    assert (again.bootstrap, again.database_url) == (running.bootstrap, running.database_url)
    assert again.started == frozenset()
    assert pids_on(running.folder) == pids


def test_two_instances_run_side_by_side_also_at_a_long_path_with_a_space(running: Running, tmp_path: Path) -> None:
    """Socket files end at some hundred bytes of path, class paths and settings break on a colon or a comma: not here."""
    short = tmp_path / "a space, a comma: é "
    folder = short / ("x" * max(1, 160 - len(str(short))))
    assert len(str(folder)) >= 150
    with embedded(folder) as second:
        assert second.bootstrap != running.bootstrap
        append(second, "second", b"apart")
        assert first_value(second, "second") == b"apart"
        assert execute(second, "SELECT to_regclass('kept')") == [(None,)]
        assert first_value(running, "first") == b"kept"
        assert execute(running, "SELECT answer FROM kept") == [(42,)]
        assert {address for address, _port in listeners(pids_on(folder))} == {"127.0.0.1"}
    assert not pids_on(folder)


def test_a_topic_that_nobody_created_is_an_error(running: Running) -> None:
    failures: list[KafkaError | None] = []
    settings = {"bootstrap.servers": running.bootstrap, "topic.metadata.propagation.max.ms": 0}
    producer = Producer(settings | {"allow.auto.create.topics": True})
    producer.produce("mistyped", b"x", on_delivery=lambda error, _message: failures.append(error))
    assert producer.flush(30) == 0
    assert [failure and failure.name() for failure in failures] in (["UNKNOWN_TOPIC_OR_PART"], ["_UNKNOWN_TOPIC"])
    assert "mistyped" not in AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=10).topics


def test_an_embedded_block_leaves_running_what_ran_before(running: Running) -> None:
    with embedded(running.folder) as inner:
        assert inner.bootstrap == running.bootstrap
    assert first_value(running, "first") == b"kept"


def test_the_database_asks_for_its_password(running: Running) -> None:
    import psycopg

    without = running.database_url.replace(running.database_url.split("@")[0], "postgresql://landed:guess")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(without)
    assert running.database_url.split(":")[2].split("@")[0] not in repr(running)


def test_a_killed_broker_is_back_at_once_with_its_records_and_alone(running: Running) -> None:
    database = pid_of(running.folder, Part.POSTGRES)
    kill(pid_of(running.folder, Part.KAFKA))
    began = time.monotonic()
    again = up(running.folder)
    seconds = time.monotonic() - began
    print(f"back in {seconds:.2f} s after kill -9 of the broker (rule: 5 s)")
    assert seconds < 5 * SLACK
    assert again.started == {Part.KAFKA}
    assert again.bootstrap == running.bootstrap
    assert pid_of(running.folder, Part.POSTGRES) == database
    append(again, "first", b"second record")
    assert first_value(again, "first") == b"kept"


def test_a_lost_state_file_leads_to_no_second_server_on_the_same_data(running: Running) -> None:
    """The servers carry their folder on the command line, so they are found and ended before new ones start."""
    before = pids_on(running.folder)
    (running.folder / "state.json").write_text("{half a file")
    assert found(running.folder) is None
    again = up(running.folder, parts=frozenset({Part.POSTGRES}))
    assert again.started == {Part.POSTGRES}
    assert not before & pids_on(running.folder) - {pid for pid in before if pid in kafka_pids(running.folder)}
    up(running.folder)
    assert not before & pids_on(running.folder)


def test_an_embedded_block_wipes_what_it_started_only(running: Running) -> None:
    kill(pid_of(running.folder, Part.POSTGRES))
    with embedded(running.folder, wipe=True) as inner:
        assert inner.started == {Part.POSTGRES}
    assert not (running.folder / "postgres").exists()
    kafka = found(running.folder, parts=frozenset({Part.KAFKA}))
    assert kafka is not None
    assert first_value(kafka, "first") == b"kept"


def kafka_pids(folder: Path) -> set[int]:
    return {pid for pid in pids_on(folder) if "java" in Path(f"/proc/{pid}/cmdline").read_text()}


def test_down_ends_all_keeps_the_data_and_may_be_repeated(folder: Path) -> None:
    running = up(folder, parts=frozenset({Part.POSTGRES}))
    execute(running, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert down(folder) == {Part.POSTGRES}
    assert not pids_on(folder)
    assert down(folder) == frozenset()
    again = up(folder, parts=frozenset({Part.POSTGRES}))
    assert again.database_url == running.database_url
    assert execute(again, "SELECT answer FROM kept") == [(42,)]
    assert down(folder, wipe=True) == {Part.POSTGRES}
    assert not folder.exists()
    assert down(folder, wipe=True) == frozenset()


def test_wiping_deletes_nothing_that_the_servers_did_not_make(folder: Path) -> None:
    (folder / "thesis.txt").write_text("mine")
    down(folder, wipe=True)
    assert [entry.name for entry in folder.iterdir()] == ["thesis.txt"]


def test_a_stale_state_file_with_a_foreign_process_on_the_old_pid(folder: Path) -> None:
    """After a power cut the pids in our file, and in PostgreSQL's own, may belong to anybody: they are left alone."""
    parts = frozenset({Part.POSTGRES})
    first = up(folder, parts=parts)
    pid = pid_of(folder, Part.POSTGRES)
    kill(pid)
    wait_until(lambda: not pids_on(folder), seconds=10)
    foreign = subprocess.Popen(["sleep", "60"])
    try:
        text = (folder / "state.json").read_text()
        (folder / "state.json").write_text(text.replace(f'"pid": {pid}', f'"pid": {foreign.pid}'))
        lock = folder / "postgres" / "data" / "postmaster.pid"
        lock.write_text(lock.read_text().replace(str(pid), str(foreign.pid), 1))
        assert found(folder, parts=parts) is None
        assert down(folder) == frozenset()
        again = up(folder, parts=parts)
        assert again.database_url == first.database_url
        assert execute(again, "SELECT 1") == [(1,)]
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_port_that_somebody_else_took_is_replaced(folder: Path) -> None:
    parts = frozenset({Part.POSTGRES})
    first = up(folder, parts=parts)
    down(folder)
    with socket.create_server(("127.0.0.1", int(first.database_url.rsplit(":")[-1].split("/")[0]))):
        second = up(folder, parts=parts)
    assert second.database_url != first.database_url
    assert execute(second, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("part", list(Part))
def test_a_port_taken_between_choice_and_use_is_replaced(folder: Path, part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = ports.choose
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        answers = [(taken, *choose(1))[: 2 if part is Part.KAFKA else 1]]
        monkeypatch.setattr(ports, "choose", lambda count, wanted=(): answers.pop() if answers else choose(count, wanted))
        running = up(folder, parts=frozenset({part}))
    assert not answers
    assert running.started == {part}
    assert str(taken) not in running.bootstrap + running.database_url.rsplit("@")[-1]


def test_when_every_port_is_taken_the_error_says_so_with_the_end_of_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(ports, "choose", lambda count, wanted=(): (other.getsockname()[1],))
        monkeypatch.setattr(instance, "PORT_TRIES", 2)
        with pytest.raises(PortTaken, match="found its port taken") as failure:
            up(folder, parts=frozenset({Part.POSTGRES}))
    assert any("Address already in use" in line for line in failure.value.log_tail)
    assert not pids_on(folder)


def test_a_server_that_does_not_start_shows_the_last_ten_lines_of_its_log(folder: Path) -> None:
    (folder / "kafka.log").unlink()
    (folder / "kafka" / "data" / "meta.properties").write_text("version=1\nnode.id=77\ncluster.id=other\n")
    with pytest.raises(ServerFailed) as failure:
        up(folder)
    assert "Apache Kafka 4.4.0 ended while starting" in str(failure.value)
    assert 0 < len(failure.value.log_tail) <= 10
    assert failure.value.log_tail == tuple((folder / "kafka.log").read_text().splitlines()[-10:])
    assert all(line in str(failure.value) for line in failure.value.log_tail)
    assert not pids_on(folder), "the other server, which did start, is ended"


OWNER = """
import sys, threading
from landed.adapters.embedded import Part, embedded

def own():
    with embedded(sys.argv[1], parts=frozenset(map(Part, sys.argv[3:]))) as running:
        print(running, flush=True)
        threading.Event().wait(100)

if sys.argv[2] == "main":
    own()
else:
    thread = threading.Thread(target=own)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(("thread", "parts"), [("main", list(Part)), ("other", [Part.POSTGRES])])
def test_when_the_owner_is_killed_no_process_is_left(
    folder: Path, script: Callable[..., subprocess.Popen[str]], thread: str, parts: list[Part]
) -> None:
    """Tied by the kernel when started from the main thread, by a guard process from any other."""
    with script(OWNER, folder, thread, *parts) as owner:
        assert owner.stdout is not None
        assert str(folder) in owner.stdout.readline()
        assert len(pids_on(folder)) > 2
        with pytest.raises(FolderInUse, match=f"belong to process {owner.pid}"), embedded(folder):
            pass
        owner.send_signal(signal.SIGKILL)
        seconds = wait_until(lambda: not pids_on(folder), seconds=5 * SLACK)
        print(f"nothing left {seconds:.2f} s after kill -9 of the owner (rule: 5 s)")
    assert seconds < 5 * SLACK
