"""A whole ledger for each test: topics, database, a projector and a reconciler, on the real broker and database."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from landed import Ledger, Settings, ToolRegistry
from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaEventLog, KafkaSettings, LogReader, ensure_topics
from landed.adapters.postgres import PostgresSettings, connect, load_routes, migrate
from landed.core.events import TYPE_OF, Entry
from landed.core.policy import PolicyValue, policy_json
from landed.core.state import Operation, Route
from landed.wire.mac import KeyRing
from landed_services.compensator.main import run_compensator
from landed_services.people.policies import set_policy
from landed_services.projector.loop import Projector
from landed_services.queries.log import read_entries
from landed_services.queries.timeline import TimelineRow, timeline
from landed_services.reconciler.main import run_reconciler

if TYPE_CHECKING:
    from .staged import Stage

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)
TENANT = "acme"


class Service:
    """A service in a thread; what it raises comes out at the end."""

    def __init__(self, run: Callable[[threading.Event], None]) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._run_it = run
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._run_it(self.stop)
        except BaseException as error:
            self.error = error

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "a service did not end"
        if self.error is not None:
            raise self.error


class World:
    """The ledger as a test drives it."""

    def __init__(self, servers: Servers, database: str) -> None:
        name = uuid.uuid4().hex[:8]
        self.log = KafkaSettings(
            bootstrap=servers.bootstrap, ring=RING, topic=f"e.{name}.operations", replies_topic=f"e.{name}.replies"
        )
        self.view = PostgresSettings(url=database)
        ensure_topics(self.log, partitions=3)
        migrate(self.view)
        self._stack = ExitStack()
        self._projectors: list[Service] = []

    def shown(self, *, timeout_s: float = 60.0) -> None:
        """Waits until the view shows what is on the log now, where a projector runs: it answers a moment before it writes."""
        reader = LogReader(self.log)
        try:
            ends, deadline = reader.end_offsets(), time.monotonic() + timeout_s
        finally:
            reader.close()
        while any(one.runs for one in self._projectors):
            with connect(self.view) as connection:
                stands: dict[int, int] = dict(connection.execute("SELECT partition, next_offset FROM positions").fetchall())
            if all(stands.get(partition, 0) >= end for partition, end in ends.items()):
                return
            assert time.monotonic() < deadline, f"the view stands at {stands}, the log at {ends}"
            time.sleep(0.02)

    def projector(self) -> Service:
        projector = Projector(self.log, self.view)
        service = Service(projector.run)
        self._projectors.append(service)
        self._stack.callback(service.end)
        deadline = time.monotonic() + 30
        while not projector.caught_up.wait(0.1):
            assert service.error is None, service.error
            assert time.monotonic() < deadline, "the projector did not catch up"
        return service

    def reconciler(self, registry: ToolRegistry, *, probe_limit_s: float = 1.0) -> Service:
        def run(stop: threading.Event) -> None:
            run_reconciler(self.log, self.view, registry, stop, probe_limit_s=probe_limit_s)

        service = Service(run)
        self._stack.callback(service.end)
        return service

    def compensator(self, registry: ToolRegistry) -> Service:
        def run(stop: threading.Event) -> None:
            run_compensator(self.log, self.view, registry, stop, read_limit_s=1.0)

        service = Service(run)
        self._stack.callback(service.end)
        return service

    def policy(self, key: str, value: PolicyValue | None, *, tenant: str = TENANT) -> None:
        """Sets or removes a policy, and waits until it holds."""
        log = KafkaEventLog(self.log)
        try:
            with connect(self.view) as connection:
                text = None if value is None else policy_json(value)
                set_policy(log, connection, tenant, key, text, who="olga", why="test")
        finally:
            log.close()

    def route(self, route: str, *, tenant: str = TENANT) -> Route:
        """The group as the view has it."""
        with connect(self.view) as connection:
            return load_routes(connection, [(tenant, route)])[tenant, route].route

    def until_group(self, route: str, state: str, *, timeout_s: float = 60.0) -> Route:
        """The group once it is in *state*."""
        deadline = time.monotonic() + timeout_s
        while (found := self.route(route)).group_state != state:
            states = {name: op.state for name, op in found.operations.items()}
            assert time.monotonic() < deadline, f"{route} is {found.group_state}, not {state}: {states}"
            time.sleep(0.05)
        return found

    def settings(self, *, wait: float = 10.0, tenant: str = TENANT, worker: str = "worker-1") -> Settings:
        return Settings(
            tenant=tenant,
            bootstrap=self.log.bootstrap,
            topic=self.log.topic,
            replies_topic=self.log.replies_topic,
            worker=worker,
            ring=RING,
            wait=wait,
        )

    def ledger(self, *, wait: float = 10.0, tenant: str = TENANT, worker: str = "worker-1") -> Ledger:
        """A ledger of its own connection; ends with the test."""
        return self._stack.enter_context(Ledger.connect(self.settings(wait=wait, tenant=tenant, worker=worker)))

    def entries(self, operation_id: str | None = None) -> list[Entry]:
        """Events on the log, in log order within a partition."""
        return read_entries(self.log, operation_id)

    def rows(self, operation_id: str) -> list[TimelineRow]:
        return timeline(self.entries(operation_id), operation_id)[0]

    def events(self, operation_id: str) -> list[str]:
        """Names of the accepted events of an operation, in log order."""
        return [row.event for row in self.rows(operation_id) if row.accepted]

    def operation(self, operation_id: str) -> Operation:
        """The operation as the log folds now."""
        _, route = timeline(self.entries(operation_id), operation_id)
        return route.operation(operation_id) if route else Operation(operation_id=operation_id)

    def until(self, operation_id: str, state: str, *, timeout_s: float = 60.0) -> Operation:
        """The operation once it is in *state*."""
        deadline = time.monotonic() + timeout_s
        while (found := self.operation(operation_id)).state != state:
            assert time.monotonic() < deadline, f"{operation_id} is {found.state}, not {state}: {self.events(operation_id)}"
            time.sleep(0.1)
        return found

    def as_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Has the command line of this process find this ledger."""
        monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", self.log.bootstrap)
        monkeypatch.setenv("LANDED_DATABASE_URL", self.view.url)
        monkeypatch.setenv("LANDED_TOPIC", self.log.topic)
        monkeypatch.setenv("LANDED_REPLIES_TOPIC", self.log.replies_topic)

    def end(self) -> None:
        self._stack.close()


@pytest.fixture
def world(servers: Servers, fresh_database: str) -> Iterator[World]:
    made = World(servers, fresh_database)
    yield made
    made.end()


@pytest.fixture(scope="session")
def stage(servers: Servers) -> Iterator["Stage"]:
    """A ledger with compensators that several tests share, each as a tenant of its own."""
    from .staged import staged

    with staged(servers) as made:
        yield made


def names(entries: list[Entry]) -> list[str]:
    return [TYPE_OF[type(entry.event)] for entry in entries]
