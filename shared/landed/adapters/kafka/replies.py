"""Verdicts on their way to the instance that waits: a short-lived topic, one partition for an instance by its name.

A verdict that gets lost costs its caller nothing but the wait: the claim is withdrawn and nothing was called. A forged one would
cost an effect, so verdicts carry a MAC like events do.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from landed.adapters.kafka.errors import LogUnreachable
from landed.adapters.kafka.producer import partition_count
from landed.adapters.kafka.reader import watermarks
from landed.adapters.kafka.settings import KafkaSettings, client_config
from landed.core.verdict import Verdict
from landed.wire.mac import KeyRing
from landed.wire.partition import murmur2
from landed.wire.records import HEADER_KEY_ID, HEADER_MAC

_LOG = logging.getLogger("landed.replies")
_PAUSE_S: Final = 0.5
_CONNECT_AGAIN_S: Final = 2.0
RECORD_BYTES_MAX: Final = 524_288
"""Verdicts of one record together, in bytes; a single one may be longer."""
_ENCODE = msgspec.json.Encoder().encode
_SPLIT = msgspec.json.Decoder(list[msgspec.Raw]).decode
_DECODE = msgspec.json.Decoder(Verdict).decode


def _partition(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def _signed(ring: KeyRing, key: bytes, value: bytes) -> list[tuple[str, str | bytes | None]]:
    signed = ring.sign(key, value)
    return [] if signed is None else [(HEADER_KEY_ID, signed[0].encode()), (HEADER_MAC, signed[1])]


def _named(headers: Any) -> dict[str, bytes | None]:
    return dict(headers or ())


def _by_instance(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, list[bytes]]]:
    """Encoded verdicts by who waits for them, in their order, as many as a record may hold."""
    open_: dict[str, list[bytes]] = {}
    sizes: dict[str, int] = {}
    for verdict in verdicts:
        name, encoded = verdict.reply_to, _ENCODE(verdict)
        if open_.get(name) and sizes[name] + len(encoded) > RECORD_BYTES_MAX:
            yield name, open_.pop(name)
        open_.setdefault(name, []).append(encoded)
        sizes[name] = len(encoded) + (sizes[name] if len(open_[name]) > 1 else 0)
    yield from open_.items()


class ReplySender:
    """Sends verdicts; used by whoever decides."""

    def __init__(self, settings: KafkaSettings, *, connect_timeout_s: float = 10.0) -> None:
        self._settings = settings
        self._producer = Producer(client_config(settings, acks="1", linger_ms=0, message_timeout_ms=30_000))
        self._partitions = partition_count(self._producer, settings.replies_topic, connect_timeout_s, settings.bootstrap)

    def send(self, verdicts: Sequence[Verdict]) -> None:
        """Sends *verdicts* without waiting, those of one instance in one record; a verdict that cannot be sent is logged, its
        caller asks again or gives up."""
        for reply_to, encoded in _by_instance(verdicts):
            key = reply_to.encode()
            value = b"[" + b",".join(encoded) + b"]"
            try:
                self._producer.produce(
                    self._settings.replies_topic,
                    value=value,
                    key=key,
                    partition=_partition(key, self._partitions),
                    headers=_signed(self._settings.ring, key, value),
                )
            except (BufferError, KafkaException) as error:
                _LOG.warning(
                    "%d verdicts not sent: %s",
                    len(encoded),
                    type(error).__name__,
                    extra={"action": "verdicts_lost", "reply_to": reply_to},
                )
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> int:
        """Waits up to *timeout_s* seconds until what was sent is at the broker; how many verdicts are not."""
        return int(self._producer.flush(timeout_s))

    def close(self, timeout_s: float = 5.0) -> None:
        self._producer.flush(timeout_s)


class KafkaVerdictInbox:
    """`landed.ports.VerdictInbox` on Kafka: one thread reads this instance's partition from its end at connect on."""

    def __init__(self, settings: KafkaSettings, reply_to: str, *, connect_timeout_s: float = 10.0) -> None:
        self._settings = settings
        self._reply_to = reply_to
        self._key = reply_to.encode()
        self._waiting: dict[str, Future[Verdict]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pid = os.getpid()
        self._lost_place = False
        self._consumer = Consumer(
            client_config(
                settings,
                group_id="landed.replies",
                enable_auto_commit=False,
                auto_offset_reset="error",
                fetch_wait_max_ms=500,
                fetch_error_backoff_ms=50,
            )
        )
        try:
            self._listen_from_the_end(connect_timeout_s)
        except KafkaException as error:
            self._consumer.close()
            raise LogUnreachable(f"{settings.bootstrap}: {error.args[0].str()}") from error
        except LogUnreachable:
            self._consumer.close()
            raise
        self._thread = threading.Thread(target=self._run, name="landed-verdicts", daemon=True)
        self._thread.start()

    @property
    def reply_to(self) -> str:
        return self._reply_to

    def expect(self, claim_id: str) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        with self._lock:
            self._waiting[claim_id] = future
        return future

    def forget(self, claim_id: str) -> None:
        with self._lock:
            self._waiting.pop(claim_id, None)

    def close(self) -> None:
        if self._stopping.is_set() or os.getpid() != self._pid:
            return
        self._stopping.set()
        self._thread.join(5.0)
        self._consumer.close()

    def _listen_from_the_end(self, timeout_s: float) -> None:
        settings = self._settings
        partitions = partition_count(self._consumer, settings.replies_topic, timeout_s, settings.bootstrap)
        place = TopicPartition(settings.replies_topic, _partition(self._key, partitions))
        # The end is asked for now: "from the end" would be resolved later and lose the first verdicts.
        _, end = watermarks(self._consumer, place, time.monotonic() + timeout_s)
        self._consumer.assign([TopicPartition(place.topic, place.partition, end)])

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._hear()
            except Exception as error:
                # Whatever it was, an instance that hears nothing any more could perform nothing any more.
                _LOG.warning("verdicts: %s", type(error).__name__, extra={"action": "verdicts_disturbed"})
                self._stopping.wait(_PAUSE_S)

    def _hear(self) -> None:
        if self._lost_place:
            self._listen_from_the_end(_CONNECT_AGAIN_S)
            self._lost_place = False
        message = self._consumer.poll(0.1)
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                # The topic was cut off or made anew. What was said meanwhile is lost, which costs its callers the wait.
                _LOG.warning("verdicts: lost the place: %s", error.name(), extra={"action": "verdicts_lost_place"})
                self._lost_place = True
            return
        if message.key() == self._key:
            self._take(message.value() or b"", _named(message.headers()))

    def _take(self, value: bytes, named: Mapping[str, bytes | None]) -> None:
        key_id = named.get(HEADER_KEY_ID)
        reason = self._settings.ring.verify(
            self._key, value, None if key_id is None else key_id.decode("ascii", "replace"), named.get(HEADER_MAC)
        )
        if reason is not None:
            _LOG.warning("verdict refused: %s", reason, extra={"action": "verdict_refused", "reason": str(reason)})
            return
        for verdict in _verdicts(value):
            with self._lock:
                future = self._waiting.pop(verdict.claim_id, None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(verdict)


def _verdicts(value: bytes) -> Iterator[Verdict]:
    """Verdicts of a record; one that cannot be read keeps none of the others back."""
    try:
        encoded = _SPLIT(value)
    except msgspec.DecodeError:
        _LOG.warning("verdicts unreadable", extra={"action": "verdict_refused", "reason": "undecodable"})
        return
    for one in encoded:
        try:
            yield _DECODE(one)
        except msgspec.DecodeError:
            _LOG.warning("verdict unreadable", extra={"action": "verdict_refused", "reason": "undecodable"})
