"""The ledger's log on Apache Kafka: topics, appending, reading, and the way back of verdicts."""

from landed.adapters.kafka.errors import LogError, LogTruncated, LogUnreachable, TopicUnfit
from landed.adapters.kafka.producer import KafkaEventLog
from landed.adapters.kafka.reader import LogReader
from landed.adapters.kafka.registry import RegistryError, RegistryUnfit, RegistryUnreachable, SchemaRegistry
from landed.adapters.kafka.replies import KafkaVerdictInbox, ReplySender
from landed.adapters.kafka.settings import KafkaSettings
from landed.adapters.kafka.topics import TopicFacts, check_replies, check_topic, ensure_topics

__all__ = [
    "KafkaEventLog",
    "KafkaSettings",
    "KafkaVerdictInbox",
    "LogError",
    "LogReader",
    "LogTruncated",
    "LogUnreachable",
    "RegistryError",
    "RegistryUnfit",
    "RegistryUnreachable",
    "ReplySender",
    "SchemaRegistry",
    "TopicFacts",
    "TopicUnfit",
    "check_replies",
    "check_topic",
    "ensure_topics",
]
