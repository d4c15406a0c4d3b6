"""What the ledger suite runs on: the two ports, opened as often as a test has processes, and a way to connect."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import psycopg
from psycopg import sql

from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaEventLog, KafkaSettings, KafkaVerdictInbox, ensure_topics
from landed.adapters.memory import MemoryLedger
from landed.adapters.postgres import PostgresSettings, migrate
from landed.ports import EventLog, VerdictInbox
from landed.sdk.ledger import Ledger
from landed.wire.mac import KeyRing
from landed_services.projector.loop import Projector

KEY = "the key of the writer of these tests"


class Backend(Protocol):
    def open(self) -> tuple[EventLog, VerdictInbox]:
        """Log and inbox as another process would open them."""
        ...

    def connect(self, tenant: str, **options: float) -> Ledger: ...


class Memory:
    def __init__(self) -> None:
        self._memory = MemoryLedger()

    def open(self) -> tuple[EventLog, VerdictInbox]:
        return self._memory, self._memory

    def connect(self, tenant: str, **options: float) -> Ledger:
        return Ledger.on(self._memory, tenant=tenant, wait=options.get("wait"))


class Kafka:
    """A real broker, a real database and a projector in a thread; every writer signs, and nothing unsigned is taken."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def open(self) -> tuple[EventLog, VerdictInbox]:
        return KafkaEventLog(self._settings), KafkaVerdictInbox(self._settings, uuid.uuid4().hex)

    def connect(self, tenant: str, **options: float) -> Ledger:
        environment = {
            "LANDED_REPLIES_TOPIC": self._settings.replies_topic,
            "LANDED_WRITER_KEY_ID": "writer-1",
            "LANDED_WRITER_KEY": KEY,
        }
        url = f"kafka://{self._settings.bootstrap}/{self._settings.topic}"
        return Ledger.connect(url, tenant=tenant, environment=environment, wait=options.get("wait"))


@contextmanager
def kafka_backend(servers: Servers) -> Iterator[Kafka]:
    name = f"suite_{uuid.uuid4().hex[:8]}"
    ring = KeyRing({"writer-1": KEY.encode()}, signing="writer-1", mandatory=True)
    settings = KafkaSettings(bootstrap=servers.bootstrap, ring=ring, topic=f"{name}.operations", replies_topic=f"{name}.replies")
    ensure_topics(settings, partitions=3)
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    database = PostgresSettings(url=servers.database_url.rsplit("/", 1)[0] + f"/{name}")
    migrate(database)
    projector = Projector(settings, database)
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,), name="suite-projector")
    thread.start()
    try:
        assert projector.caught_up.wait(30), "the projector did not catch up"
        yield Kafka(settings)
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive(), "the projector did not end"
