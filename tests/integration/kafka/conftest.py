"""A ledger of its own for each test: new topics on the real broker."""

import uuid
from collections.abc import Iterator

import pytest

from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaEventLog, KafkaSettings, ensure_topics
from landed.wire.mac import KeyRing

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)


@pytest.fixture
def settings(servers: Servers) -> KafkaSettings:
    name = uuid.uuid4().hex[:8]
    made = KafkaSettings(bootstrap=servers.bootstrap, ring=RING, topic=f"t.{name}.operations", replies_topic=f"t.{name}.replies")
    ensure_topics(made, partitions=3)
    return made


@pytest.fixture
def log(settings: KafkaSettings) -> Iterator[KafkaEventLog]:
    opened = KafkaEventLog(settings)
    yield opened
    opened.close()
