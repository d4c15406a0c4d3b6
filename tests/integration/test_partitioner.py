"""Our partition is the one that a stock client picks for the same bytes, tried on librdkafka with its own simulated cluster."""

import logging

import pytest
from confluent_kafka import KafkaError, Message, Producer

from landed.wire.keys import route_prefix
from landed.wire.partition import partition_for

ROUTES = [
    ("acme", "trip-1"),
    ("acme/eu", "refund:42"),
    ("ü", "\U0001f600 x"),
    *((f"tenant-{n % 7}", "r" * n) for n in range(1, 60)),
]


@pytest.fixture
def producer() -> Producer:
    """A client with Java's partitioner; the cluster lives inside it and ends with it."""
    settings = {"test.mock.num.brokers": 1, "partitioner": "murmur2", "linger.ms": 0, "error_cb": lambda _: None}
    return Producer(settings, logger=logging.getLogger(__name__))


def test_a_stock_client_puts_a_route_where_every_writer_of_ours_does(producer: Producer) -> None:
    placed: dict[bytes | None, int | None] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        placed[message.key()] = message.partition()

    keys = {route_prefix(tenant, route): (tenant, route) for tenant, route in ROUTES}
    for key in keys:
        producer.produce("partitioner", key=key, value=b"", on_delivery=on_delivery)
    assert producer.flush(10) == 0
    partitions = len(producer.list_topics("partitioner", timeout=10).topics["partitioner"].partitions)
    assert partitions > 1
    assert placed == {key: partition_for(tenant, route, partitions) for key, (tenant, route) in keys.items()}
