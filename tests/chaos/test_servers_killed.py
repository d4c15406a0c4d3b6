"""Broker and database killed, frozen and full under load, on servers of their own: nothing acknowledged is lost or doubled."""

import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from landed import Confirmed, Ledger, Refused, Result, Unknown, effect
from landed.adapters.embedded import Part, Servers, embedded
from landed.adapters.embedded._processes import alive
from landed.adapters.embedded._state import load
from landed.adapters.kafka import KafkaEventLog, KafkaVerdictInbox, producer
from landed.core.events import Event
from landed.ports import Appended, AppendFailed, NothingAppended

from .conftest import Chaos, chaos_on

pytestmark = pytest.mark.timeout(300)
FROZEN_S = 30.0
"""How long the broker stands still."""


class Own:
    """Servers of these tests alone, which may be killed and stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        running = self._stack.enter_context(embedded(folder, wipe=True))
        self.servers = Servers(
            bootstrap=running.bootstrap, database_url=running.database_url, kafka_from="tests", postgres_from="tests"
        )

    def pid(self, part: Part) -> int:
        process = load(self.folder).servers[part].process
        assert process is not None
        assert alive(process), f"{part} does not run"
        return process.pid

    def signal(self, part: Part, number: signal.Signals) -> None:
        os.kill(self.pid(part), number)

    def freeze(self, part: Part) -> None:
        """Stops *part*; once this returns, none of its threads does anything more."""
        self.signal(part, signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid(part)}/task")
        until(
            lambda: {_state(one) for one in threads.iterdir()} <= {"T", None},
            f"{part} stands still",
            seen=lambda: Counter(_state(one) for one in threads.iterdir()),
        )

    def thaw(self, part: Part) -> None:
        self.signal(part, signal.SIGCONT)

    def killed(self, part: Part) -> None:
        """Kills *part* with -9 and starts it again on its old port."""
        self.kill(part)
        time.sleep(0.5)
        self.start(part)

    def kill(self, part: Part) -> None:
        """Kills *part* with -9; once this returns, it does nothing more."""
        process = load(self.folder).servers[part].process
        self.signal(part, signal.SIGKILL)
        until(lambda: not alive(process), f"{part} is dead")

    def start(self, part: Part) -> None:
        self._stack.enter_context(embedded(self.folder, parts=frozenset({part})))

    def end(self) -> None:
        self._stack.close()


def _state(thread: Path) -> str | None:
    """None: it has ended."""
    try:
        # The name before it may hold blanks and brackets (proc(5)).
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    made = Own(tmp_path_factory.mktemp("own"))
    yield made
    made.end()


@pytest.fixture
def chaos(own: Own, tmp_path: Path) -> Iterator[Chaos]:
    with chaos_on(own.servers, tmp_path) as made:
        yield made


class RecordingLog:
    """The log as the SDK has it; keeps what was acknowledged and what the producer said about the rest."""

    def __init__(self, log: KafkaEventLog) -> None:
        self._log = log
        self.acknowledged: list[tuple[str, Appended]] = []
        self.ambiguous: list[str] = []
        self.failed: list[str] = []
        """Every append that was not acknowledged, and why."""

    def append(self, event: Event) -> Future[Appended]:
        future = self._log.append(event)

        def done(ended: Future[Appended]) -> None:
            if ended.cancelled():
                self.failed.append(f"{event.event_id}: cancelled")
                return
            error = ended.exception()
            if error is not None:
                self.failed.append(f"{type(event).__name__} {event.event_id}: {error!r}")
            if error is None:
                self.acknowledged.append((event.event_id, ended.result()))
            elif isinstance(error, AppendFailed) and not isinstance(error, NothingAppended):
                self.ambiguous.append(event.event_id)

        future.add_done_callback(done)
        return future

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)


@contextmanager
def recorded(chaos: Chaos, *, wait: float) -> Iterator[tuple[Ledger, RecordingLog]]:
    """A ledger whose acknowledgements are kept; at its end everything acknowledged must be where it was said to be."""
    log = RecordingLog(KafkaEventLog(chaos.log))
    inbox = KafkaVerdictInbox(chaos.log, f"recorded-{time.monotonic_ns()}")
    ledger = Ledger(chaos.settings(wait=wait), log, inbox)
    try:
        yield ledger, log
    finally:
        ledger.close(30.0)
    there = {(one.position.partition, one.position.offset): one.event.event_id for one in chaos.entries()}
    lost = [name for name, at in log.acknowledged if there.get((at.position.partition, at.position.offset)) != name]
    assert log.acknowledged
    assert not lost, f"{len(lost)} acknowledged events are lost"


class Load:
    """Callers that perform one operation after the other until they are told to end."""

    def __init__(self, ledger: Ledger, tool: Any, *, callers: int = 8) -> None:
        self.results: list[Result] = []
        self._ledger, self._tool = ledger, tool
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(callers)
        self._running = [self._pool.submit(self._perform, number) for number in range(callers)]

    def _perform(self, caller: int) -> None:
        number = 0
        while not self._stop.is_set():
            self.results.append(self._ledger.perform(self._tool, operation_id=f"op-{caller}-{number}"))
            number += 1
            self._stop.wait(0.01)

    def confirmed(self) -> int:
        return sum(isinstance(one, Confirmed) for one in list(self.results))

    def goes_on(self, *, seconds: float = 120.0) -> None:
        """Waits until callers are served again."""
        before = self.confirmed()
        until(lambda: self.confirmed() >= before + 20, "callers are served", seconds=seconds, seen=lambda: self.results[-8:])

    def end(self) -> None:
        self._stop.set()
        for one in self._running:
            one.result(120)
        self._pool.shutdown()


def assert_honest(chaos: Chaos, results: list[Result]) -> None:
    """Whoever was told a receipt has one effect, whoever was refused has none, nobody has two, and the log says the same."""
    chaos.assert_whole()
    effects, operations = chaos.provider.effects(), chaos.folded()
    assert max(effects.values()) == 1
    told = {one.operation_id: one for one in results}
    for operation_id, one in told.items():
        operation = operations.get(operation_id)
        if isinstance(one, Refused):
            assert (one.reason, effects[operation_id]) == ("ledger_unavailable", 0)
            assert operation is None or operation.state == "prepared", operation
        else:
            assert isinstance(one, Confirmed | Unknown), one
            assert operation is not None
            assert (operation.state, effects[operation_id]) == ("confirmed", 1), one
    assert set(effects) <= set(told)


@pytest.mark.parametrize("part", [Part.KAFKA, Part.POSTGRES])
def test_a_server_killed_three_times_under_load_loses_nothing_and_applies_nothing_twice(
    own: Own, chaos: Chaos, part: Part
) -> None:
    chaos.projector()
    with recorded(chaos, wait=30.0) as (ledger, _):
        load = Load(ledger, chaos.tools.named("pay.patient"))
        try:
            for _ in range(3):
                load.goes_on()
                own.killed(part)
            load.goes_on()
        finally:
            load.end()
    assert_honest(chaos, load.results)
    print(Counter(type(one).__name__ for one in load.results))


def test_a_broker_frozen_for_half_a_minute_loses_nothing_and_applies_nothing_twice(own: Own, chaos: Chaos) -> None:
    chaos.projector()
    # Short enough that whoever waits for an outcome at first is over that, and refused the next claim, while it is frozen.
    with recorded(chaos, wait=FROZEN_S / 3) as (ledger, _):
        load = Load(ledger, chaos.tools.named("pay.patient"))
        try:
            load.goes_on()
            own.freeze(Part.KAFKA)
            began = time.monotonic()
            time.sleep(FROZEN_S)
            own.thaw(Part.KAFKA)
            load.goes_on()
            print(f"served again {time.monotonic() - began - FROZEN_S:.1f} s after the broker went on")
        finally:
            own.thaw(Part.KAFKA)
            load.end()
    assert any(isinstance(one, Refused) for one in load.results), "nobody was refused while the broker stood still"
    assert_honest(chaos, load.results)


def test_an_append_of_which_nobody_knows_is_appended_again_and_counts_once(
    own: Own, chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is frozen until the producer reports a time-out, once with a claim under way and once with an outcome."""
    monkeypatch.setattr(producer, "MESSAGE_TIMEOUT_MS", 2_000)
    ran: Counter[str] = Counter()

    @effect(tool="pay.patient", effect="payment.create", lease=60.0, reference_field="id")
    def pay(name: str, freezes: bool) -> dict[str, str]:
        ran[name] += 1
        if freezes:
            own.freeze(Part.KAFKA)
        return {"id": f"re_{name}"}

    chaos.projector()
    with recorded(chaos, wait=40.0) as (ledger, log), ThreadPoolExecutor(1) as pool:
        served(ledger, pay, "before")
        timed_out = len(log.ambiguous)
        own.freeze(Part.KAFKA)
        try:
            claimed = pool.submit(ledger.perform, pay, operation_id="op-claim", name="claim", freezes=False)
            until(lambda: len(log.ambiguous) > timed_out, "the claim timed out", seen=lambda: log.failed)
            own.thaw(Part.KAFKA)
            result = claimed.result(120)
            # Whichever way the claim went, the answer and the effect agree.
            assert ran["claim"] == isinstance(result, Confirmed), result
            served(ledger, pay, "between")
            timed_out = len(log.ambiguous)
            unrecorded = ledger.perform(pay, operation_id="op-outcome", name="outcome", freezes=True)
            assert isinstance(unrecorded, Unknown), unrecorded
            assert unrecorded.reason == "not_recorded"
            until(lambda: len(log.ambiguous) > timed_out, "the outcome timed out", seen=lambda: log.failed)
        finally:
            own.thaw(Part.KAFKA)
    chaos.assert_whole()
    again = chaos.ledger(wait=30.0).perform(pay, operation_id="op-outcome", name="outcome", freezes=True)
    assert isinstance(again, Confirmed)
    assert (again.repeated, again.reference, ran["outcome"]) == (True, "re_outcome", 1)
    assert chaos.story("op-outcome") == ["dispatch_granted", "outcome_confirmed"]


def test_an_outcome_that_a_dead_broker_never_got_is_appended_again_when_it_lives(
    own: Own, chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer has given up; the ledger has not: the effect is there, and its evidence gets to the log."""
    monkeypatch.setattr(producer, "MESSAGE_TIMEOUT_MS", 2_000)
    ran: list[str] = []

    @effect(tool="pay.patient", effect="payment.create", lease=60.0, reference_field="id")
    def pay(name: str) -> dict[str, str]:
        ran.append(name)
        own.kill(Part.KAFKA)
        return {"id": f"re_{name}"}

    chaos.projector()
    with recorded(chaos, wait=40.0) as (ledger, log):
        try:
            unrecorded = ledger.perform(pay, operation_id="op-1", name="1")
            assert isinstance(unrecorded, Unknown), unrecorded
            until(lambda: bool(log.ambiguous), "the outcome timed out", seen=lambda: log.failed)
        finally:
            own.start(Part.KAFKA)
    assert unrecorded.reason == "not_recorded"
    again = chaos.ledger(wait=30.0).perform(pay, operation_id="op-1", name="1")
    assert isinstance(again, Confirmed)
    assert (again.repeated, again.reference, ran) == (True, "re_1", ["1"])
    assert chaos.story("op-1") == ["dispatch_granted", "outcome_confirmed"]
    chaos.assert_whole()


def served(ledger: Ledger, pay: Any, name: str) -> None:
    """Performs until one is served: servers that were stopped a moment ago may be slow to come back."""
    told: list[Result] = []

    def confirmed() -> bool:
        told.append(ledger.perform(pay, operation_id=f"op-{name}-{len(told)}", name=name, freezes=False))
        return isinstance(told[-1], Confirmed)

    until(confirmed, f"somebody is served, {name}", seconds=120.0, seen=lambda: told[-3:])


def until(holds: Callable[[], bool], what: str, *, seconds: float = 60.0, seen: Callable[[], object] = lambda: "nothing") -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}; seen: {seen()}"
        time.sleep(0.05)


def pauses(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why the projector paused, as it logs it."""
    return [vars(one)["error"] for one in list(caplog.records) if vars(one).get("action") == "projector_pauses"]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 40 MB that the account of the database can reach."""
    place = Path(tempfile.mkdtemp(prefix="landed-small-disk-"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        place.rmdir()
        pytest.skip("only root can mount a small file system")
    place.chmod(0o755)
    try:
        yield place
    finally:
        # Lazily: the server may hold files of the dropped database open for a moment.
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def test_a_full_disk_of_the_database_is_named_and_nothing_is_lost_once_there_is_room_again(
    own: Own, chaos: Chaos, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = small_disk / "space"
    data.mkdir()
    owner = Path(f"/proc/{own.pid(Part.POSTGRES)}").stat()
    os.chown(data, owner.st_uid, owner.st_gid)
    name = chaos.view.url.rpartition("/")[2]
    with psycopg.connect(own.servers.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{data}'")
        connection.execute(f"ALTER DATABASE {name} SET TABLESPACE small")
    filler = small_disk / "filler"
    try:
        chaos.projector()
        with recorded(chaos, wait=2.0) as (ledger, _), caplog.at_level(logging.WARNING, logger="landed.projector"):
            running = Load(ledger, chaos.tools.named("pay.patient"))
            try:
                running.goes_on()
                with filler.open("wb") as file:
                    while True:
                        try:
                            file.write(b"\0" * 65536)
                            file.flush()
                        except OSError:
                            break
                until(
                    lambda: any("No space left on device" in one for one in pauses(caplog)),
                    "it is said that the disk is full",
                    seen=lambda: pauses(caplog),
                )
                until(
                    lambda: any(isinstance(one, Refused) for one in list(running.results)),
                    "callers are refused",
                    seen=lambda: running.results[-8:],
                )
                filler.unlink()
                running.goes_on()
            finally:
                filler.unlink(missing_ok=True)
                running.end()
        assert_honest(chaos, running.results)
    finally:
        chaos.end()
        with psycopg.connect(own.servers.database_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute("DROP TABLESPACE small")
