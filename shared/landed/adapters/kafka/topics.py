"""Creates and checks the topics. The settings are part of the guarantees, so services refuse to run on others.

Source: docs/architecture.md §2.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from landed.adapters.kafka.errors import LogUnreachable, TopicUnfit
from landed.adapters.kafka.settings import KafkaSettings, client_config

PARTITIONS_DEFAULT: Final = 12
LEDGER_CONFIG: Final[Mapping[str, str]] = {
    # Every record has a key of its own, so compaction removes nothing but what a tombstone names.
    "cleanup.policy": "compact",
    # The times that decide are the log's.
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
}
REPLIES_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.ms": "600000",
}


REPLIES_RETENTION_MIN_MS: Final = 60_000
"""Longer than any caller waits: an answer must not go before it was read."""


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker says of a topic."""

    topic: str
    topic_id: str
    partitions: int
    problems: tuple[str, ...] = ()
    """What makes it unfit, each with the setting, its value and the one that is needed."""


def ensure_topics(
    settings: KafkaSettings, *, partitions: int = PARTITIONS_DEFAULT, replication: int = 1, timeout_s: float = 30.0
) -> TopicFacts:
    """Creates the ledger's topics where they are missing and waits until every partition has a leader. Repeating it is safe.

    Raises:
        LogUnreachable: the broker did not answer within *timeout_s* seconds.
        TopicUnfit: a topic exists with settings that the guarantees do not hold on.
    """
    admin = _admin(settings)
    deadline = time.monotonic() + timeout_s
    safe = {"min.insync.replicas": str(max(1, replication - 1))}
    wanted = [
        NewTopic(settings.topic, partitions, replication, config={**LEDGER_CONFIG, **safe}),
        NewTopic(settings.replies_topic, partitions, replication, config=dict(REPLIES_CONFIG)),
    ]
    for one in wanted:
        while not _created(admin, one, deadline, timeout_s):
            time.sleep(0.2)
    for topic in (settings.topic, settings.replies_topic):
        _wait_for_leaders(admin, topic, deadline)
    facts = check_topic(settings)
    if facts.problems:
        raise TopicUnfit(f"topic {settings.topic!r}: {'; '.join(facts.problems)}")
    return facts


def _created(admin: AdminClient, wanted: NewTopic, deadline: float, timeout_s: float) -> bool:
    """Whether it is there now; not where every broker is fenced, which passes: a busy one was late with its sign of life."""
    topic = wanted.topic
    try:
        admin.create_topics([wanted], operation_timeout=timeout_s, request_timeout=timeout_s)[topic].result(timeout=timeout_s)
    except KafkaException as error:
        code, why = error.args[0].code(), error.args[0].str()
        if code == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in why and time.monotonic() < deadline:
            return False
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise LogUnreachable(f"topic {topic!r} could not be created: {why}") from error
    except TimeoutError as error:
        raise LogUnreachable(f"topic {topic!r} could not be created within {timeout_s:g} s") from error
    return True


def check_topic(settings: KafkaSettings, *, timeout_s: float = 10.0) -> TopicFacts:
    """Settings and identity of the ledger's topic as the broker has them.

    Raises:
        LogUnreachable: the broker did not answer.
        TopicUnfit: the topic does not exist.
    """
    description, config = _described(settings, settings.topic, timeout_s)
    problems = tuple(
        f"{name} is {config[name].value!r}, needs {value!r}"
        for name, value in LEDGER_CONFIG.items()
        if name in config and config[name].value != value and name != "max.message.bytes"
    )
    return _facts(settings.topic, description, problems)


def check_replies(settings: KafkaSettings, *, timeout_s: float = 10.0) -> TopicFacts:
    """Settings and identity of the topic of verdicts as the broker has them. Raises as `check_topic` does."""
    description, config = _described(settings, settings.replies_topic, timeout_s)
    policy, kept = (config[name].value if name in config else None for name in ("cleanup.policy", "retention.ms"))
    problems = []
    if policy not in (None, "delete"):
        problems.append(f"cleanup.policy is {policy!r}, needs 'delete': verdicts are never looked up again")
    if kept is not None and 0 <= int(kept) < REPLIES_RETENTION_MIN_MS:
        problems.append(f"retention.ms is {kept!r}, needs {REPLIES_RETENTION_MIN_MS} or more: callers still wait then")
    return _facts(settings.replies_topic, description, tuple(problems))


def _described(settings: KafkaSettings, topic: str, timeout_s: float) -> tuple[Any, Any]:
    admin = _admin(settings)
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
        description: Any = described[topic].result(timeout=timeout_s)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        config: Any = admin.describe_configs([resource], request_timeout=timeout_s)[resource].result(timeout=timeout_s)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicUnfit(f"topic {topic!r} does not exist: create it with `landed topics create`") from error
        raise LogUnreachable(f"{settings.bootstrap}: {error.args[0].str()}") from error
    except TimeoutError as error:
        raise LogUnreachable(f"{settings.bootstrap} did not answer within {timeout_s:g} s") from error
    return description, config


def _facts(topic: str, description: Any, problems: tuple[str, ...]) -> TopicFacts:
    return TopicFacts(topic=topic, topic_id=str(description.topic_id), partitions=len(description.partitions), problems=problems)


def _admin(settings: KafkaSettings) -> AdminClient:
    return AdminClient(client_config(settings))


def _wait_for_leaders(admin: AdminClient, topic: str, deadline: float) -> None:
    # A topic is listed before its partitions can be written; whoever appends then loses the first seconds.
    while True:
        try:
            found = admin.list_topics(topic, timeout=max(0.1, min(5.0, deadline - time.monotonic()))).topics.get(topic)
            led = [partition.leader >= 0 for partition in found.partitions.values()] if found and not found.error else []
            if led and all(led):
                return
        except KafkaException:
            pass
        if time.monotonic() > deadline:
            raise LogUnreachable(f"topic {topic!r}: some partitions have no leader yet")
        time.sleep(0.02)
