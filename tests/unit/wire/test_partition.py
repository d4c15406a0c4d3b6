"""The partition of a route is what a stock Java client would choose for the same bytes."""

import pytest

from landed.wire.errors import EncodeError
from landed.wire.keys import RecordKey, build_key
from landed.wire.partition import murmur2, partition_for

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Known values of Apache Kafka's own test of its hash, as signed 32-bit numbers."""

LIBRDKAFKA = {
    b"kafka": 0xD067CF64,
    b"giberish123456789": 0x8F552B0C,
    b"1234": 0x9FC97B14,
    b"234": 0xE7C009CA,
    b"34": 0x873930DA,
    b"4": 0x5A4B5CA1,
    b"PreAmbleWillBeRemoved,ThePrePartThatIs": 0x78424F1C,
    b"reAmbleWillBeRemoved,ThePrePartThatIs": 0x4A62B377,
    b"eAmbleWillBeRemoved,ThePrePartThatIs": 0xE0E4E09E,
    b"AmbleWillBeRemoved,ThePrePartThatIs": 0x62B8B43F,
    b"": 0x106E08D9,
}
"""Known values of librdkafka's own test of its Java-compatible hash."""


@pytest.mark.parametrize(("data", "hashed"), [*((d, h & 0xFFFFFFFF) for d, h in JAVA.items()), *LIBRDKAFKA.items()])
def test_the_hash_is_the_one_of_kafka_clients(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed


def test_the_hashed_bytes_are_the_encoded_tenant_a_slash_and_the_encoded_route() -> None:
    assert partition_for("acme", "refund:42", 12) == (murmur2(b"acme/refund%3A42") & 0x7FFFFFFF) % 12


def test_the_hashed_bytes_are_the_beginning_of_the_record_key() -> None:
    key = build_key(RecordKey(tenant_id="acme/eu", route="trip 1", operation_id="o", event_id="e", nonce="n"))
    assert partition_for("acme/eu", "trip 1", 1_000) == (murmur2(b"/".join(key.split(b"/")[:2])) & 0x7FFFFFFF) % 1_000


def test_partitions_never_change_since_every_record_of_the_past_stands_in_one() -> None:
    assert [partition_for("acme", f"trip-{n}", 12) for n in range(8)] == [9, 11, 8, 9, 6, 7, 4, 8]


def test_a_slash_in_an_id_does_not_move_it_into_the_other() -> None:
    assert partition_for("a/b", "c", 1_000_000) != partition_for("a", "b/c", 1_000_000)


def test_every_partition_is_reached() -> None:
    assert {partition_for("acme", f"trip-{n}", 12) for n in range(500)} == set(range(12))


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_has_at_least_one_partition(partitions: int) -> None:
    with pytest.raises(ValueError, match="partitions: must be at least 1"):
        partition_for("acme", "trip-1", partitions)


def test_an_id_that_utf_8_cannot_carry_is_named() -> None:
    with pytest.raises(EncodeError, match="route: must not hold a lone surrogate"):
        partition_for("acme", "\ud800", 12)
