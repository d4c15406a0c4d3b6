"""Records that cannot be read, verified or placed: kept aside with their reason, and never in the way of others."""

import secrets
from typing import Any

import pytest
from confluent_kafka import Producer

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.core import events as ev
from landed.core.vocabulary import Refusal
from landed.wire import records
from landed.wire.ids import with_event_id
from landed.wire.keys import RecordKey, build_key
from landed.wire.mac import KeyRing
from landed.wire.partition import partition_for
from landed_services.projector.verifying import verify

from .conftest import RING, running
from .driving import TENANT, Driver
from .looking import rows, wait_for_end

PARTITIONS = 3
FORGER = KeyRing({"writer-1": b"another secret of thirty-two bytes"}, signing="writer-1")


def produce(settings: KafkaSettings, *, key: bytes | None, value: bytes | None, headers: Any = (), partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    producer.produce(settings.topic, key=key, value=value, headers=list(headers), partition=partition)
    assert producer.flush(10) == 0


def outgoing(event: ev.Event, ring: KeyRing = RING) -> records.OutgoingRecord:
    return records.write(with_event_id(event), ring=ring, nonce=secrets.token_hex(4), partitions=PARTITIONS)


def send(settings: KafkaSettings, record: records.OutgoingRecord, **changes: Any) -> None:
    values = {"key": record.key, "value": record.value, "headers": record.headers, "partition": record.partition}
    produce(settings, **{**values, **changes})


def signed(operation_id: str, value: bytes) -> dict[str, Any]:
    """A record of *operation_id* whose MAC is right and whose value says nothing that this release knows."""
    key = build_key(RecordKey(tenant_id=TENANT, route=operation_id, operation_id=operation_id, event_id="e-new", nonce="n1"))
    made = RING.sign(key, value)
    assert made is not None
    return {
        "key": key,
        "value": value,
        "headers": [(records.HEADER_KEY_ID, made[0].encode()), (records.HEADER_MAC, made[1])],
        "partition": partition_for(TENANT, operation_id, PARTITIONS),
    }


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("key_malformed", {"key": b"garbage", "value": b"x" * 1000}),
        ("mac_missing", {"headers": ()}),
        ("mac_wrong", {"ring": FORGER}),
        ("misrouted", {"elsewhere": True}),
        ("invalid_id", {"operation_id": "policy:x"}),
        ("invalid_id", {"operation_id": "x" * 181}),
        ("invalid_id", {"operation_id": "a\x00b"}),
        ("invalid_id", {"tenant_id": "\x1b[31m"}),
    ],
)
def test_a_record_that_is_not_taken_is_kept_with_its_reason_and_the_next_claim_is_granted(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, reason: str, sent: dict[str, Any]
) -> None:
    if "value" in sent:
        produce(log_settings, **sent)
    else:
        fields = {name: sent[name] for name in ("operation_id", "tenant_id") if name in sent}
        event = driver.prepared(**{"operation_id": "op-bad", "claim": None, **fields})
        record = outgoing(event, sent.get("ring", RING))
        partition = (record.partition + 1) % PARTITIONS if "elsewhere" in sent else record.partition
        send(log_settings, record, partition=partition, **({"headers": ()} if "headers" in sent else {}))
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    assert rows(database, "SELECT reason, froze FROM refused_records") == [(reason, False)]
    assert rows(database, "SELECT operation_id, state FROM operations") == [("op-1", "confirmed")]
    assert verify(log_settings, database).equal


def test_a_bomb_that_unpacks_to_more_than_a_client_takes_is_stepped_over(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """Some thousand bytes on the log, more than a hundred megabytes in memory: the client refuses to unpack them."""
    packed = {"compression.type": "zstd", "message.max.bytes": 200_000_000}
    producer = Producer({"bootstrap.servers": log_settings.bootstrap, **packed})
    producer.produce(
        log_settings.topic, key=b"bomb", value=bytes(120_000_000), partition=partition_for(TENANT, "op-1", PARTITIONS)
    )
    assert producer.flush(30) == 0
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    assert rows(database, "SELECT reason, log_offset FROM refused_records") == [("batch_damaged", 0)]
    assert verify(log_settings, database).equal


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ({"key": None, "value": b"x"}, "INVALID_RECORD"),
        ({"key": b"k", "value": secrets.token_bytes(1_100_000)}, "MSG_SIZE_TOO_LARGE"),
    ],
)
def test_a_record_without_key_and_one_that_is_too_large_do_not_get_onto_the_log(
    log_settings: KafkaSettings, sent: dict[str, Any], error: str
) -> None:
    """The broker refuses them for the settings of the topic, which are checked at every start."""
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": log_settings.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(log_settings.topic, partition=0, on_delivery=lambda found, _: failures.append(found.name()), **sent)
    assert producer.flush(10) == 0
    assert failures == [error]


def test_a_tombstone_is_stepped_over(log_settings: KafkaSettings, database: PostgresSettings, driver: Driver) -> None:
    record = outgoing(driver.prepared("op-1", None))
    send(log_settings, record, value=None)
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    assert rows(database, "SELECT * FROM refused_records") == []


def test_a_record_of_a_newer_release_freezes_its_operation_and_no_other(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """§2: shown with the place of that record, claims refused, other operations go on."""
    value = b"\xc3\x01" + b"\x07" * 8 + b"a body of tomorrow"
    with running(log_settings, database):
        driver.append(driver.prepared("op-1", None))
        wait_for_end(log_settings, database)
        produce(log_settings, **signed("op-1", value))
        claim = driver.claim_of()
        frozen = driver.ask(driver.requested("op-1", claim, seen_version=1), claim).result(20)
        assert driver.perform("op-2").granted
        wait_for_end(log_settings, database)
    assert frozen.reason is Refusal.OPERATION_FROZEN
    assert rows(database, "SELECT operation_id, frozen FROM operations ORDER BY 1") == [("op-1", True), ("op-2", False)]
    ((partition, offset, kept),) = rows(
        database, "SELECT partition, log_offset, value FROM events WHERE reason = 'unknown_schema'"
    )
    assert (frozen.detail["partition"], frozen.detail["offset"], kept) == (str(partition), str(offset), value)
    assert rows(database, "SELECT reason, froze FROM refused_records") == [("unknown_schema", True)]
    assert verify(log_settings, database).equal


def test_a_group_record_of_a_newer_release_freezes_operations_that_come_later_also_after_a_restart(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    key = build_key(RecordKey(tenant_id=TENANT, route="trip", operation_id=None, event_id="e-new", nonce="n1"))
    value = b"\xc3\x01" + b"\x07" * 8 + b"a body of tomorrow"
    made = RING.sign(key, value)
    assert made is not None
    headers = [(records.HEADER_KEY_ID, made[0].encode()), (records.HEADER_MAC, made[1])]
    with running(log_settings, database):
        driver.append(driver.prepared("op-1", None, group_id="trip"))
        produce(log_settings, key=key, value=value, headers=headers, partition=partition_for(TENANT, "trip", PARTITIONS))
        wait_for_end(log_settings, database)
    with running(log_settings, database):
        claim = driver.claim_of()
        later = driver.ask(driver.prepared("op-2", claim, group_id="trip"), claim).result(20)
        wait_for_end(log_settings, database)
    assert later.reason is Refusal.OPERATION_FROZEN
    assert rows(database, "SELECT operation_id, frozen FROM operations ORDER BY 1") == [("op-1", True), ("op-2", True)]
    assert verify(log_settings, database).equal


def test_text_that_the_database_cannot_hold_is_kept_and_shown_escaped(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        claim = driver.claim_of()
        granted = driver.ask(driver.prepared("op-1", claim, tool="re\x00fund"), claim).result(20)
        driver.append(driver.confirmed(granted, reference="re\x00\\1"))
        wait_for_end(log_settings, database)
    assert rows(database, "SELECT tool, reference, state FROM operations") == [
        ("␀escaped:re\\u0000fund", "␀escaped:re\\u0000\\u005c1", "confirmed")
    ]
    assert verify(log_settings, database).equal


def test_numbers_beyond_every_sense_stop_nothing(log_settings: KafkaSettings, database: PostgresSettings, driver: Driver) -> None:
    with running(log_settings, database):
        claim = driver.claim_of(lease_ms=2**63 - 1)
        assert driver.ask(driver.prepared("op-1", claim), claim).result(20).granted
        assert driver.perform("op-2").granted
        wait_for_end(log_settings, database)
    assert verify(log_settings, database).equal
