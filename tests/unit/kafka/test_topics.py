"""Creating a topic: what passes by itself is waited for, what does not is told (no broker says so at will)."""

import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from landed.adapters.kafka.errors import LogUnreachable
from landed.adapters.kafka.topics import _created

FENCED = KafkaError(
    KafkaError.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
)
TOO_MANY = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "Replication factor: 3 larger than available brokers: 1.")
THERE = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'operations' already exists.")


class Admin:
    """Answers as a broker did."""

    def __init__(self, *answers: KafkaError | None) -> None:
        self.answers = list(answers)

    def create_topics(self, wanted: list[Any], **_: float) -> dict[str, Future[None]]:
        future: Future[None] = Future()
        error = self.answers.pop(0)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(error))
        return {one.topic: future for one in wanted}


def created(admin: Any, *, within_s: float = 60.0) -> bool:
    return _created(admin, NewTopic("operations", 1, 1), time.monotonic() + within_s, 1.0)


def test_while_every_broker_is_fenced_it_is_tried_again_until_its_time_is_over() -> None:
    admin = Admin(FENCED, None, THERE)
    assert [created(admin) for _ in range(3)] == [False, True, True]
    with pytest.raises(LogUnreachable, match="fenced"):
        created(Admin(FENCED), within_s=-1.0)


def test_more_copies_than_brokers_is_told_at_once() -> None:
    with pytest.raises(LogUnreachable, match="larger than available brokers"):
        created(Admin(TOO_MANY))
