"""Bytes that went bad on the disk of the broker: stepped over, kept with their place, and in nobody's way."""

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from landed.adapters.embedded import Part, embedded
from landed.adapters.kafka import KafkaSettings, LogReader, ensure_topics
from landed.adapters.postgres import PostgresSettings
from landed.core.vocabulary import Refusal
from landed.wire.partition import partition_for
from landed_services.projector.verifying import verify

from .conftest import running
from .driving import TENANT, Driver
from .looking import rows, wait_for_end, wait_until
from .test_refused_records import outgoing

KAFKA = frozenset({Part.KAFKA})
PARTITIONS = 3


def flip(file: Path, inside: bytes) -> None:
    """Another bit at the first place where *inside* stands."""
    content = bytearray(file.read_bytes())
    content[content.index(inside)] ^= 1
    file.write_bytes(content)


def flip_offset(file: Path, number: int, bits: int) -> None:
    """Other bits in the first offset of the batch with that *number*: no checksum covers it."""
    content, at = bytearray(file.read_bytes()), 0
    for _ in range(number):
        _, length = struct.unpack_from(">qi", content, at)
        at += 12 + length
    (first,) = struct.unpack_from(">q", content, at)
    struct.pack_into(">q", content, at, first ^ bits)
    file.write_bytes(content)


def cut(file: Path, number: int) -> None:
    """Nothing any more from the batch with that *number* on."""
    content, at = file.read_bytes(), 0
    for _ in range(number):
        _, length = struct.unpack_from(">qi", content, at)
        at += 12 + length
    assert content[at:], "there was something"
    with file.open("r+b") as opened:
        opened.truncate(at)


def read_over_and_over(settings: KafkaSettings, partition: int, *, times: int) -> None:
    """The client fetches from places that it made of damaged bytes, and the broker's answer to that may come at any moment."""
    reader = LogReader(settings)
    try:
        end = reader.end_offsets()[partition]
        for _ in range(times):
            reader.assign({partition: 0})
            found: list[int] = []
            deadline = time.monotonic() + 30
            while found[-1:] != [end - 1]:
                found += [record.offset for record in reader.poll(1_000, 0.1)]
                assert time.monotonic() < deadline, f"nothing came behind offset {found[-1:]}"
            assert found == list(range(end))
    finally:
        reader.close()


class Broken:
    """A log with a batch of three records between two others, on a broker of its own."""

    def __init__(self, log_settings: KafkaSettings, folder: Path) -> None:
        self._folder = folder
        self.partition = partition_for(TENANT, "op-1", PARTITIONS)
        self.other = next(f"x-{n}" for n in range(100) if partition_for(TENANT, f"x-{n}", PARTITIONS) == self.partition)
        self._settings = log_settings

    @contextmanager
    def broker(self) -> Iterator[KafkaSettings]:
        with embedded(self._folder, parts=KAFKA) as running_broker:
            yield replace(self._settings, bootstrap=running_broker.bootstrap)

    def write(self, settings: KafkaSettings, *, after: bool = True) -> None:
        ensure_topics(settings, partitions=PARTITIONS)
        driver = Driver(settings)
        driver.append(driver.prepared("before", None, group_id="op-1"))
        together = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 300})
        for name in ("bad-1", "bad-2", "bad-3"):
            record = outgoing(driver.prepared(name, None, group_id="op-1"))
            together.produce(settings.topic, record.value, record.key, record.partition, headers=list(record.headers))
        assert together.flush(10) == 0
        if after:
            driver.append(driver.prepared("after", None, group_id="op-1"))
        driver.close()

    def file(self) -> Path:
        (log,) = (self._folder / "kafka" / "data" / f"{self._settings.topic}-{self.partition}").glob("*.log")
        return log


@pytest.fixture
def broken(log_settings: KafkaSettings, tmp_path: Path) -> Iterator[Broken]:
    yield Broken(log_settings, tmp_path / "broker")
    with embedded(tmp_path / "broker", parts=KAFKA, wipe=True):
        pass


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
        read_over_and_over(settings, partition, times=40)
    damaged = "SELECT partition, log_offset, reason FROM refused_records ORDER BY 2"
    assert rows(database, damaged) == [(partition, offset, "batch_damaged") for offset in (1, 2, 3)]
    known = "SELECT operation_id FROM operations WHERE route = 'op-1' ORDER BY 1"
    assert rows(database, known) == [("after",), ("before",)]


def test_a_record_that_goes_bad_after_it_was_folded_stops_nothing(broken: Broken, database: PostgresSettings) -> None:
    """The one that a restart compares the log with: it is damaged, not replaced, and its neighbours stand for it."""
    with broken.broker() as settings:
        broken.write(settings, after=False)
        with running(settings, database):
            wait_for_end(settings, database)
    stands = rows(database, "SELECT last_offset FROM positions WHERE partition = %s", broken.partition)
    assert stands == [(3,)]
    flip(broken.file(), b"bad-2")
    with broken.broker() as settings:
        driver = Driver(settings)
        with running(settings, database):
            assert driver.perform(broken.other).granted
            wait_for_end(settings, database)
        driver.close()


def test_a_batch_that_tells_a_place_beyond_the_log_stops_nothing(broken: Broken, database: PostgresSettings) -> None:
    """No checksum covers its first offset. No position may go there; what is missing is kept as damaged."""
    with broken.broker() as settings:
        broken.write(settings)
    flip_offset(broken.file(), 1, 0x40 << 56)
    with broken.broker() as settings:
        driver = Driver(settings)
        with running(settings, database):
            assert driver.perform(broken.other).granted
            wait_for_end(settings, database)
        driver.close()
    known = {row[0] for row in rows(database, "SELECT operation_id FROM operations WHERE route = 'op-1'")}
    assert known == {"before", "after"}
    damaged = rows(database, "SELECT partition, log_offset, reason FROM refused_records ORDER BY 2")
    assert damaged == [(broken.partition, offset, "batch_damaged") for offset in (1, 2, 3)]


def test_a_batch_that_tells_the_place_of_others_is_loud_and_in_the_way_of_no_other_partition(
    broken: Broken, database: PostgresSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker gives its records to whoever asks for theirs: only a person can repair that."""
    with broken.broker() as settings:
        broken.write(settings)
    flip_offset(broken.file(), 1, 4)
    elsewhere = next(f"x-{n}" for n in range(100) if partition_for(TENANT, f"x-{n}", PARTITIONS) != broken.partition)
    with broken.broker() as settings:
        driver = Driver(settings)
        with running(settings, database, wait=False):
            assert driver.perform(elsewhere).granted
        driver.close()
    assert ("records_misplaced", broken.partition) in {
        (record.__dict__.get("action"), record.__dict__.get("partition")) for record in caplog.records
    }


def test_a_log_that_lost_its_end_stops_its_partition_with_words_and_no_other(
    broken: Broken, database: PostgresSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a machine that lost what it had not written: what was folded is not on the log any more."""
    with broken.broker() as settings:
        broken.write(settings)
        with running(settings, database):
            wait_for_end(settings, database)
    cut(broken.file(), 2)
    elsewhere = next(f"x-{n}" for n in range(100) if partition_for(TENANT, f"x-{n}", PARTITIONS) != broken.partition)
    with broken.broker() as settings:
        driver = Driver(settings)
        with running(settings, database, wait=False):
            refused = driver.perform(elsewhere)  # what the partition knew of it is lost
            assert refused.reason is Refusal.LEDGER_UNAVAILABLE
            settled = "SELECT state FROM operations WHERE operation_id = %s"
            wait_until(lambda: rows(database, settled, elsewhere) == [("prepared",)], "it is on record elsewhere")
        driver.close()
    assert [one for one in caplog.messages if "truncated" in one and "landed rebuild" in one]
    assert rows(database, "SELECT next_offset FROM positions WHERE partition = %s", broken.partition) == [(5,)]
