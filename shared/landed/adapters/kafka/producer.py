"""Appends events to the ledger's topic: idempotent, acknowledged by all replicas, partition set explicitly. A single one is
sent at once, many go together."""

import itertools
import os
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from landed.adapters.kafka.errors import LogUnreachable
from landed.adapters.kafka.gathering import Gathering
from landed.adapters.kafka.registry import schema_ids
from landed.adapters.kafka.settings import KafkaSettings, client_config
from landed.core.events import Event, Position
from landed.ports.log import Appended, AppendFailed, NothingAppended
from landed.wire import records
from landed.wire.errors import WireError
from landed.wire.framing import fingerprint_of, to_confluent

MESSAGE_TIMEOUT_MS = 120_000
"""librdkafka keeps trying for so long; callers wait less and take silence for "unknown"."""

_POLL_S = 0.1
_Waiting: TypeAlias = tuple[records.OutgoingRecord, Future[Appended]]

_NEVER_SENT = frozenset(
    {
        KafkaError._QUEUE_FULL,
        KafkaError._INVALID_ARG,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


class KafkaEventLog:
    """`landed.ports.EventLog` on Kafka; safe under threads, not across a fork."""

    def __init__(self, settings: KafkaSettings, *, connect_timeout_s: float = 10.0) -> None:
        """Connects.

        Raises:
            LogUnreachable: no broker answered within *connect_timeout_s* seconds, or it does not have the topic.
            RegistryError: the settings name a schema registry, and it is out of reach or does not hold the schemas.
        """
        self._schema_ids = {} if settings.registry is None else schema_ids(settings.registry, settings.topic)
        self._settings = settings
        self._pid = os.getpid()
        self._writer = secrets.token_hex(8)
        self._count = itertools.count()
        self._producer = Producer(
            client_config(
                settings,
                acks="all",
                enable_idempotence=True,
                linger_ms=0,
                message_timeout_ms=MESSAGE_TIMEOUT_MS,
                queue_buffering_max_messages=200_000,
                # Whoever waits, waits for his own acknowledgement; what goes together is held back before (`gathering`).
                max_in_flight_requests_per_connection=5,
            )
        )
        self._partitions = partition_count(self._producer, settings.topic, connect_timeout_s, settings.bootstrap)
        self._gathering = Gathering(self._hand_over, time.monotonic)
        self._stopping = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="landed-log", daemon=True)
        self._poller.start()

    @property
    def partitions(self) -> int:
        return self._partitions

    def append(self, event: Event) -> Future[Appended]:
        return self._send(event, None)

    def append_to_partition(self, event: Event, partition: int) -> Future[Appended]:
        """Appends an event that has no route (`genesis`, `heartbeat`) to *partition*."""
        return self._send(event, partition)

    def append_all(self, events: Sequence[Event], *, timeout_s: float) -> list[Appended]:
        """Appends *events* in order and waits for all.

        Raises:
            AppendFailed: one was not acknowledged in time; those before and after it may be on the log.
        """
        deadline = time.monotonic() + timeout_s
        futures = [self.append(event) for event in events]
        acknowledged = []
        for future in futures:
            try:
                acknowledged.append(future.result(timeout=max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                raise AppendFailed(f"not acknowledged within {timeout_s:g} s") from None
        return acknowledged

    def close(self, timeout_s: float = 5.0) -> None:
        if self._stopping.is_set() or os.getpid() != self._pid:
            return
        self._gathering.release(all_=True)
        self._producer.flush(timeout_s)
        self._stopping.set()
        self._poller.join(timeout_s)

    def _nonce(self) -> str:
        # New for every record and unlike any other writer's; it keeps no secret, so the kernel is asked for randomness only once.
        return f"{self._writer}{next(self._count):x}"

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(self._gathering.wait_s(_POLL_S))
            self._gathering.release()

    def _send(self, event: Event, partition: int | None) -> Future[Appended]:
        future: Future[Appended] = Future()
        if os.getpid() != self._pid:
            future.set_exception(NothingAppended("this log was opened before a fork: connect again in the child process"))
            return future
        if self._stopping.is_set():
            future.set_exception(NothingAppended("the log is closed"))
            return future
        try:
            record = records.write(
                event,
                ring=self._settings.ring,
                nonce=self._nonce(),
                partitions=self._partitions,
                partition=partition,
                as_cloud_event=self._settings.cloud_events,
            )
        except WireError as error:
            future.set_exception(NothingAppended(str(error)))
            return future
        self._gathering.offer((record, future))
        return future

    def _framed(self, value: bytes) -> bytes:
        return to_confluent(value, self._schema_ids[fingerprint_of(value)]) if self._schema_ids else value

    def _hand_over(self, waiting: _Waiting) -> None:
        record, future = waiting

        def on_delivery(error: Any, message: Any) -> None:
            self._gathering.settled()
            _settle(future, error, message)

        try:
            self._producer.produce(
                self._settings.topic,
                value=self._framed(record.value),
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
        except BufferError:
            self._gathering.settled()
            future.set_exception(NothingAppended("too many events wait for the broker"))
        except KafkaException as error:
            self._gathering.settled()
            future.set_exception(NothingAppended(error.args[0].str()))
        except Exception as error:
            # Whatever it was, it must not end the thread that all others wait for.
            self._gathering.settled()
            future.set_exception(AppendFailed(type(error).__name__))


def _settle(future: Future[Appended], error: Any, message: Any) -> None:
    if future.cancelled():
        return
    if error is None:
        _, at_ms = message.timestamp()
        position = Position(partition=message.partition(), offset=message.offset())
        future.set_result(Appended(position=position, at_ms=at_ms))
    else:
        kind = NothingAppended if error.code() in _NEVER_SENT else AppendFailed
        future.set_exception(kind(error.str()))


def partition_count(client: Any, topic: str, timeout_s: float, bootstrap: str) -> int:
    """Partitions of *topic* as the broker has them.

    Raises:
        LogUnreachable: no broker answered in time, or it does not have the topic.
    """
    try:
        found = client.list_topics(topic, timeout=timeout_s).topics.get(topic)
    except KafkaException as error:
        raise LogUnreachable(f"{bootstrap}: {error.args[0].str()}") from error
    if found is None or found.error is not None or not found.partitions:
        raise LogUnreachable(f"{bootstrap} has no topic {topic!r}: create it with `landed topics create`")
    return len(found.partitions)
