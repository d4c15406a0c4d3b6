"""Bytes that went bad on the disk of the broker: stepped over, kept with their place, and in nobody's way."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from landed.adapters.embedded import Part, embedded
from landed.adapters.kafka import KafkaSettings, ensure_topics
from landed.adapters.postgres import PostgresSettings
from landed.wire.partition import partition_for
from landed_services.projector.verifying import verify

from .conftest import running
from .driving import TENANT, Driver
from .looking import rows, wait_for_end
from .test_refused_records import outgoing

KAFKA = frozenset({Part.KAFKA})
PARTITIONS = 3


def flip(file: Path, inside: bytes) -> None:
    """Another bit at the first place where *inside* stands."""
    content = bytearray(file.read_bytes())
    content[content.index(inside)] ^= 1
    file.write_bytes(content)


@pytest.mark.usefixtures("servers")
def test_a_batch_that_went_bad_on_disk_is_stepped_over_record_by_record_and_nothing_else_is_lost(
    log_settings: KafkaSettings, database: PostgresSettings, tmp_path: Path
) -> None:
    folder, partition = tmp_path / "broker", partition_for(TENANT, "op-1", PARTITIONS)
    other = next(f"x-{n}" for n in range(100) if partition_for(TENANT, f"x-{n}", PARTITIONS) == partition)
    with embedded(folder, parts=KAFKA) as broker:
        settings = replace(log_settings, bootstrap=broker.bootstrap)
        ensure_topics(settings, partitions=PARTITIONS)
        driver = Driver(settings)
        driver.append(driver.prepared("before", None, group_id="op-1"))
        together = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 300})
        for name in ("bad-1", "bad-2", "bad-3"):
            record = outgoing(driver.prepared(name, None, group_id="op-1"))
            together.produce(settings.topic, record.value, record.key, record.partition, headers=list(record.headers))
        assert together.flush(10) == 0
        driver.append(driver.prepared("after", None, group_id="op-1"))
        driver.close()
        del together
    (log,) = (folder / "kafka" / "data" / f"{settings.topic}-{partition}").glob("*.log")
    flip(log, b"bad-2")
    with embedded(folder, parts=KAFKA, wipe=True) as broker:
        settings = replace(settings, bootstrap=broker.bootstrap)
        driver = Driver(settings)
        with running(settings, database):
            assert driver.perform(other).granted
            wait_for_end(settings, database)
        with running(settings, database):  # continues behind them
            assert driver.perform("last").granted
            wait_for_end(settings, database)
        driver.close()
        assert verify(settings, database).equal
    damaged = "SELECT partition, log_offset, reason FROM refused_records ORDER BY 2"
    assert rows(database, damaged) == [(partition, offset, "batch_damaged") for offset in (1, 2, 3)]
    known = "SELECT operation_id FROM operations WHERE route = 'op-1' ORDER BY 1"
    assert rows(database, known) == [("after",), ("before",)]
