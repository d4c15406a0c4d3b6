"""A ledger of its own for each test: new topics on the real broker, a new database on the real server, one projector."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaSettings, ensure_topics
from landed.adapters.postgres import PostgresSettings, migrate
from landed.wire.mac import KeyRing
from landed_services.projector.loop import Projector

from .driving import Driver
from .looking import wait_until

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)


@pytest.fixture
def log_settings(servers: Servers) -> KafkaSettings:
    name = uuid.uuid4().hex[:8]
    made = KafkaSettings(bootstrap=servers.bootstrap, ring=RING, topic=f"p.{name}.operations", replies_topic=f"p.{name}.replies")
    ensure_topics(made, partitions=3)
    return made


@pytest.fixture
def database(fresh_database: str) -> PostgresSettings:
    settings = PostgresSettings(url=fresh_database)
    migrate(settings)
    return settings


class Running:
    """A projector in a thread of its own; what it raises comes out at the end."""

    def __init__(self, log_settings: KafkaSettings, database: PostgresSettings) -> None:
        self.projector = Projector(log_settings, database)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.projector.run(self.stop)
        except BaseException as error:
            self.error = error

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float = 60.0) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the projector did not end"


@contextmanager
def running(log_settings: KafkaSettings, database: PostgresSettings, *, wait: bool = True) -> Iterator[Running]:
    """A projector for the time of a block."""
    one = Running(log_settings, database)
    one.start()
    try:
        if wait:
            wait_until(lambda: one.projector.caught_up.is_set() or one.error is not None, "the projector has caught up")
            if one.error is not None:
                raise one.error
        yield one
    finally:
        one.stop.set()
        one.join()
    if one.error is not None:
        raise one.error


@pytest.fixture
def driver(log_settings: KafkaSettings) -> Iterator[Driver]:
    made = Driver(log_settings)
    yield made
    made.close()
