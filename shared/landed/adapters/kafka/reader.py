"""Reads the ledger's topic from stated positions. No consumer group: positions live beside the state that they led to."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, TopicPartition

from landed.adapters.kafka.errors import LogDamaged, LogError, LogTruncated, LogUnreachable
from landed.adapters.kafka.producer import partition_count
from landed.adapters.kafka.settings import KafkaSettings, client_config
from landed.wire.records import Record

_TRUNCATED = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})
_DAMAGED = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG})


class LogReader:
    """One reader of any number of partitions; not shared between threads."""

    def __init__(self, settings: KafkaSettings, *, connect_timeout_s: float = 10.0, replay: bool = False) -> None:
        """Connects; nothing is read before `assign`.

        Args:
            replay: read ahead generously; for a rebuild or a report rather than for the newest records.

        Raises:
            LogUnreachable: no broker answered within *connect_timeout_s* seconds, or it does not have the topic.
        """
        self._topic = settings.topic
        self._consumer = Consumer(
            client_config(
                settings,
                # librdkafka wants a name; no group is ever joined, nothing is committed.
                group_id="landed.reader",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="error",
                isolation_level="read_committed",
                check_crcs=True,
                fetch_wait_max_ms=100,
                fetch_error_backoff_ms=50,
                fetch_queue_backoff_ms=10,
                queued_min_messages=200_000 if replay else 20_000,
            )
        )
        try:
            self._partitions = partition_count(self._consumer, self._topic, connect_timeout_s, settings.bootstrap)
        except LogUnreachable:
            self._consumer.close()
            raise

    @property
    def partitions(self) -> int:
        return self._partitions

    def assign(self, positions: Mapping[int, int], *, leader_epochs: Mapping[int, int] | None = None) -> None:
        """Reads each partition of *positions* from its offset on; replaces what was assigned before."""
        epochs = leader_epochs or {}
        self._consumer.assign(
            [
                TopicPartition(self._topic, partition, offset, leader_epoch=epochs[partition])
                if epochs.get(partition, -1) >= 0
                else TopicPartition(self._topic, partition, offset)
                for partition, offset in positions.items()
            ]
        )

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """Waits up to *timeout_s* seconds for one record, then takes what is there, at most *max_records*.

        Raises:
            LogTruncated: an offset that was asked for is not on the log any more.
            LogDamaged: a batch that cannot be read.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        # Plain `consume` would wait out its time-out for the whole number.
        messages = [first, *(self._consumer.consume(max_records - 1, 0) if max_records > 1 else [])]
        return [record for message in messages if (record := self._record(message)) is not None]

    def end_offsets(self, *, timeout_s: float = 10.0) -> dict[int, int]:
        """Offset after the last record of each partition, as the broker has it now."""
        return {partition: end for partition, (_, end) in self.bounds(timeout_s=timeout_s).items()}

    def beginning_offsets(self, *, timeout_s: float = 10.0) -> dict[int, int]:
        return {partition: begin for partition, (begin, _) in self.bounds(timeout_s=timeout_s).items()}

    def close(self) -> None:
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def bounds(self, *, timeout_s: float = 10.0) -> dict[int, tuple[int, int]]:
        """First offset of each partition and the one after its last record.

        Quick while nothing is assigned; else every answer waits behind a fetch, a tenth of a second for each partition.
        """
        deadline = time.monotonic() + timeout_s
        return {
            partition: watermarks(self._consumer, TopicPartition(self._topic, partition), deadline)
            for partition in range(self._partitions)
        }

    def _record(self, message: Any) -> Record | None:
        error = message.error()
        if error is not None:
            _raise_unless_passing(message, error)
            return None
        kind, at_ms = message.timestamp()
        return Record(
            key=message.key(),
            value=message.value(),
            headers=tuple(message.headers() or ()),
            partition=message.partition(),
            offset=message.offset(),
            leader_epoch=-1 if message.leader_epoch() is None else message.leader_epoch(),
            # A time that the writer set decides nothing.
            timestamp_ms=at_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None,
        )


def watermarks(consumer: Consumer, place: TopicPartition, deadline: float) -> tuple[int, int]:
    """First offset and the one after the last, as the broker has them now.

    A partition that is new or whose leader is moving answers with an error that passes: it is asked again until *deadline*
    (monotonic seconds).

    Raises:
        LogUnreachable: no answer until then.
    """
    while True:
        left_s = max(0.1, deadline - time.monotonic())
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(place, timeout=left_s)
            return found
        except KafkaException as error:
            if time.monotonic() >= deadline:
                raise LogUnreachable(error.args[0].str()) from error
            time.sleep(0.05)


def _raise_unless_passing(message: Any, error: Any) -> None:
    code = error.code()
    if code in _TRUNCATED:
        raise LogTruncated(message.partition(), message.offset())
    if code in _DAMAGED:
        raise LogDamaged(message.partition(), message.offset(), error.str())
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        raise LogError(error.str())
    # Connection troubles: librdkafka goes on by itself and `error_cb` has told.
