"""Reads the ledger's topic from stated positions. No consumer group: positions live beside the state that they led to."""

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, TopicPartition

from landed.adapters.kafka.errors import LogError, LogTruncated, LogUnreachable
from landed.adapters.kafka.producer import partition_count
from landed.adapters.kafka.settings import KafkaSettings, client_config
from landed.wire.framing import from_confluent, is_confluent
from landed.wire.records import HEADER_SCHEMA, Record

_TRUNCATED = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})
MISPLACED: Final = "a batch tells offsets that it cannot have where it stands: bytes that no checksum covers went bad"
_TRIES: Final = 3
"""Times that the record behind misplaced ones is asked for before a place is stepped over."""
_STAND_INS_MAX: Final = 1_000
# A batch with a wrong checksum, one that cannot be decompressed, or of a format that there is not.
_DAMAGED = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG, KafkaError._NOT_IMPLEMENTED})


_LOG: Final = logging.getLogger("landed.kafka")


class LogReader:
    """One reader of any number of partitions; not shared between threads."""

    def __init__(self, settings: KafkaSettings, *, connect_timeout_s: float = 10.0, replay: bool = False) -> None:
        """Connects; nothing is read before `assign`.

        Args:
            replay: read ahead generously; for a rebuild or a report rather than for the newest records.

        Raises:
            LogUnreachable: no broker answered within *connect_timeout_s* seconds, or it does not have the topic.
        """
        self._settings = settings
        self._topic = settings.topic
        self._wanted: dict[int, int] = {}
        """Where each partition was last told to begin."""
        self._damaged: set[int] = set()
        """Partitions of which nothing could be read since they stepped over a damaged record."""
        self._next: dict[int, int] = {}
        """Offset behind the last record that was given of each partition: the next one is there, or further on."""
        self._misplaced: dict[int, int] = {}
        """How often in vain partitions were asked anew after records that cannot stand where they say."""
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
        self._wanted, self._damaged = dict(positions), set()
        self._next, self._misplaced = dict(positions), {}
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

        In place of each record of a batch that cannot be read comes one with `damaged` set, and reading goes on behind it.

        Raises:
            LogTruncated: an offset that was asked for is not on the log any more.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        # Plain `consume` would wait out its time-out for the whole number.
        messages: list[Any] = [first, *(self._consumer.consume(max_records - 1, 0) if max_records > 1 else [])]
        found: list[Record] = []
        stepped: set[int] = set()
        astray: set[int] = set()
        for index, message in enumerate(messages):
            error, partition = message.error(), message.partition()
            if partition in stepped:
                continue  # what comes after damaged bytes is read again
            if error is None:
                offset = message.offset()
                if offset != self._next.get(partition, offset) and not self._fits(messages, index, found):
                    astray.add(partition)
                    # The client will ask for what lies behind them, and the broker will not have it.
                    self._damaged.add(partition)
                    self._wanted[partition] = self._next[partition]
                    continue
                self._next[partition] = offset + 1
                found.append(_record(message))
                if astray:
                    astray.discard(partition)
                if self._damaged:
                    self._damaged.discard(partition)
            elif error.code() in _DAMAGED and partition is not None:
                found.append(self._step_over(partition, error.str()))
                stepped.add(partition)
            elif error.code() in _TRUNCATED and partition is not None and self._is_echo(message):
                # The client gave the partition up when this answer came, though it had been told to read elsewhere meanwhile.
                self._put(partition, self._wanted[partition])
            else:
                _raise_unless_passing(message, error)
        for partition in astray - stepped:
            self._ask_anew(partition, found)
        return found

    def _fits(self, messages: list[Any], index: int, found: list[Record]) -> bool:
        """Whether a record may stand where it says, though that is not the next place: no checksum covers the first offset of a
        batch.

        Offsets may be left out (markers, retention), but none comes twice, none lies behind the end, and none before one
        that comes later. Where misplaced records were dropped, stand-ins for what is missing before this one go to *found*.
        """
        partition, offset = messages[index].partition(), messages[index].offset()
        expected = self._next[partition]
        later = (one.offset() for one in messages[index + 1 :] if one.partition() == partition and one.error() is None)
        known = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
        behind_the_end = known is not None and 0 <= known[1] <= offset
        if offset < expected or behind_the_end or any(expected <= one < offset for one in later):
            if partition not in self._misplaced:
                about = {"action": "records_misplaced", "partition": partition, "offset": expected}
                _LOG.error("partition %d, offset %d: %s", partition, expected, MISPLACED, extra=about)
            self._misplaced.setdefault(partition, 0)
            return False
        if self._misplaced.pop(partition, None) is not None:  # what was dropped was meant to stand here
            found += [_stand_in(partition, one, MISPLACED) for one in range(expected, min(offset, expected + _STAND_INS_MAX))]
        return True

    def _ask_anew(self, partition: int, found: list[Record]) -> None:
        """After misplaced records the client stands where they say: it is put back, and over a place when that does not help."""
        self._misplaced[partition] += 1
        if self._misplaced[partition] > _TRIES:
            self._misplaced[partition] = 0
            found.append(_stand_in(partition, self._next[partition], MISPLACED))
            self._next[partition] += 1
        self._wanted[partition] = self._next[partition]
        self._put(partition, self._next[partition])

    def _put(self, partition: int, offset: int) -> None:
        # Not `seek`: what was fetched behind the damaged bytes is garbage and must go.
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, offset)])

    def _step_over(self, partition: int, reason: str) -> Record:
        """A stand-in for the next record of *partition*; the one behind it is read next.

        The client names the first record of a batch and does not know the last one's place, so a batch is stepped over record by
        record, until the broker sends the next one.
        """
        (place,) = self._consumer.position([TopicPartition(self._topic, partition)])
        offset = max(place.offset, self._wanted.get(partition, 0))
        self._wanted[partition] = self._next[partition] = offset + 1
        self._damaged.add(partition)
        self._put(partition, offset + 1)
        return _stand_in(partition, offset, reason)

    def _is_echo(self, message: Any) -> bool:
        """Whether the offset that the broker lacks is one that was made of damaged bytes and not asked for here."""
        partition = message.partition()
        return partition in self._damaged and message.offset() != self._wanted.get(partition)

    def end_offsets(self, *, timeout_s: float = 10.0) -> dict[int, int]:
        """Offset after the last record of each partition, as the broker has it now."""
        return {partition: end for partition, (_, end) in self.bounds(timeout_s=timeout_s).items()}

    def known_ends(self) -> dict[int, int]:
        """Offset after the last record of each assigned partition, as the last answer of the broker told: costs no request."""
        ends = {}
        for place in self._consumer.assignment():
            known = self._consumer.get_watermark_offsets(place, cached=True)
            if known is not None and known[1] >= 0:
                ends[place.partition] = known[1]
        return ends

    def beginning_offsets(self, *, timeout_s: float = 10.0) -> dict[int, int]:
        return {partition: begin for partition, (begin, _) in self.bounds(timeout_s=timeout_s).items()}

    def without_records(self, positions: Mapping[int, int], *, timeout_s: float = 2.0) -> set[int]:
        """Partitions of *positions* that hold no record from there on, though their last offsets may lie further on: markers of
        transactions, and what retention removed, take offsets and are never read. One that did not answer in time is not told.
        """
        consumer = Consumer(
            client_config(
                self._settings,
                group_id="landed.reader",
                enable_auto_commit=False,
                auto_offset_reset="error",
                isolation_level="read_committed",
                enable_partition_eof=True,
            )
        )
        ended: set[int] = set()
        try:
            open_ = set(positions)
            consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()])
            deadline = time.monotonic() + timeout_s
            while open_ and (left_s := deadline - time.monotonic()) > 0:
                message = consumer.poll(left_s)
                partition = None if message is None else message.partition()
                if message is None or partition not in open_ or partition is None:
                    continue
                open_.discard(partition)
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
        finally:
            consumer.close()
        return ended

    def offsets_at(self, at_ms: int, *, timeout_s: float = 10.0) -> dict[int, int]:
        """Offset of the first record of each partition that was appended at *at_ms* (milliseconds, UTC) or later, by the log's
        index of times; the one after the last record where there is none.

        Raises:
            LogUnreachable: no answer within *timeout_s* seconds.
        """
        asked = [TopicPartition(self._topic, partition, at_ms) for partition in range(self._partitions)]
        ends = self.end_offsets(timeout_s=timeout_s)
        try:
            found = self._consumer.offsets_for_times(asked, timeout=timeout_s)
        except KafkaException as error:
            raise LogUnreachable(error.args[0].str()) from error
        for place in found:
            if place.error is not None:
                raise LogUnreachable(place.error.str())
        return {place.partition: place.offset if place.offset >= 0 else ends[place.partition] for place in found}

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


def _stand_in(partition: int, offset: int, reason: str) -> Record:
    return Record(key=None, value=None, partition=partition, offset=offset, damaged=reason)


def _record(message: Any) -> Record:
    kind, at_ms = message.timestamp()
    value, headers = message.value(), tuple(message.headers() or ())
    if value is not None and is_confluent(value):
        value = from_confluent(value, dict(headers).get(HEADER_SCHEMA))
    return Record(
        key=message.key(),
        value=value,
        headers=headers,
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
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        raise LogError(error.str())
    # Connection troubles: librdkafka goes on by itself and `error_cb` has told.
