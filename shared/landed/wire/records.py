"""Records of the log: how an event becomes one, and what a record is to a reader.

`read` is total: whatever bytes stand on the log, it answers with an entry, with the reason why there is none, or with the
operation that has to be frozen, and never raises.

A record freezes its operation when its MAC is right (or not required) and what it says cannot be decoded. The operation is
then known from the record key, which the MAC covers. Everything else that is wrong with a record freezes nothing.

Source: docs/events.md; docs/semantics.md §2.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

import msgspec

from landed.core.events import CATALOGUE, TYPE_OF, Entry, Event, Genesis, Heartbeat, Position
from landed.wire.cloudevents import cloud_event
from landed.wire.codec import Codec, codec
from landed.wire.errors import DecodeError, EncodeError
from landed.wire.framing import HEADER_BYTES, MARKER, fingerprint_of, is_confluent
from landed.wire.framing import HEADER_SCHEMA as HEADER_SCHEMA
from landed.wire.framing import HEADER_TYPE as HEADER_TYPE
from landed.wire.keys import RecordKey, build_key, parse_key, speaks_for
from landed.wire.mac import KeyRing
from landed.wire.partition import partition_for
from landed.wire.reasons import FREEZING, Reason

RECORD_BYTES_MAX: Final = 786_432
"""Largest value of a record, in bytes (768 KiB): with key, headers and a batch around it, below a broker's default of 1 MiB."""

FIRST_BYTES: Final = 64
"""How much of a value is kept with a record that is not taken."""

HEADER_KEY_ID: Final = "landed-key-id"
HEADER_MAC: Final = "landed-mac"
HEADER_TRACE: Final = "traceparent"

Headers = tuple[tuple[str, bytes | None], ...]

_OURS: Final = frozenset({HEADER_TYPE, HEADER_SCHEMA, HEADER_KEY_ID, HEADER_MAC})
_NONCE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TRACE: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_OF_THE_TOPIC: Final = (Genesis, Heartbeat)
_NAMES: Final = {name.encode("ascii"): name for name in CATALOGUE}


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it stands on the log."""

    key: bytes | None
    value: bytes | None
    """In single-object encoding: the framing of a schema registry is taken off where the record is fetched (`framing`)."""
    headers: Headers = ()
    partition: int
    offset: int
    timestamp_ms: int | None = None
    """The log's append time, milliseconds since the epoch, UTC. None where the log gives none: a time that the writer set
    decides nothing."""
    leader_epoch: int = -1
    """Epoch of the partition's leader that appended it; -1 where the log does not say."""
    damaged: str = ""
    """Why the log cannot give the record at this place; empty: it can."""


class OutgoingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to append; its value is in single-object encoding until it leaves."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    partition: int


class _NotTaken(msgspec.Struct, frozen=True, kw_only=True):
    reason: Reason
    field: str = ""
    """Field, header or part of the key at fault, where there is one."""
    position: Position
    at_ms: int | None
    digest: str
    """SHA-256 (hex) of the value; of nothing for a null value."""
    first_bytes: bytes


class Unreadable(_NotTaken, frozen=True, kw_only=True):
    """A record that cannot be read, verified or placed: kept, counted, and stepped over."""


class Frozen(_NotTaken, frozen=True, kw_only=True):
    """A record that freezes its operation, or its whole route where it names none, until it can be decoded."""

    tenant_id: str
    route: str
    operation_id: str | None
    event_id: str
    schema: str | None
    """Fingerprint (hex) of the schema that it was written under; None where it is not framed."""


def write(
    event: Event,
    *,
    ring: KeyRing,
    nonce: str,
    partitions: int,
    partition: int | None = None,
    traceparent: str | None = None,
    as_cloud_event: bool = False,
) -> OutgoingRecord:
    """The record of *event*.

    Args:
        event: with its event id, see `ids`.
        nonce: 1-64 letters, digits, hyphens or underscores, new and random for every record.
        partitions: how many the topic has.
        partition: only for genesis and heartbeat, which stand in every partition.
        traceparent: W3C trace context; left out when it is malformed, since tracing never stops an event.
        as_cloud_event: with the headers of a CloudEvent, for other tools; they cost every reader a fifth more time.

    Raises:
        EncodeError: names the field and the rule.
        KeyRingError: MACs are mandatory and the ring has no key to sign with.
    """
    if not _NONCE.fullmatch(nonce):
        raise EncodeError("nonce", "must be 1-64 letters, digits, hyphens or underscores")
    value = codec().encode(event)
    if len(value) > RECORD_BYTES_MAX:
        raise EncodeError("event", f"must be at most {RECORD_BYTES_MAX} bytes encoded, is {len(value)}")
    key = build_key(
        RecordKey(
            tenant_id=event.tenant_id,
            route=event.route,
            operation_id=event.operation_id,
            event_id=event.event_id,
            nonce=nonce,
        )
    )
    headers = [
        (HEADER_TYPE, TYPE_OF[type(event)].encode("ascii")),
        (HEADER_SCHEMA, value[len(MARKER) : HEADER_BYTES].hex().encode("ascii")),
    ]
    if (signed := ring.sign(key, value)) is not None:
        headers += [(HEADER_KEY_ID, signed[0].encode("ascii")), (HEADER_MAC, signed[1])]
    if as_cloud_event:
        # Behind ours, so that a reader finds those where it expects them.
        headers += cloud_event(event)
    if traceparent is not None and _TRACE.fullmatch(traceparent):
        headers.append((HEADER_TRACE, traceparent.encode("ascii")))
    return OutgoingRecord(
        key=key, value=value, headers=tuple(headers), partition=_partition_to_write(event, partitions, partition)
    )


def read(record: Record, *, ring: KeyRing, partitions: int, using: Codec | None = None) -> Entry | Unreadable | Frozen:
    """What *record* is to the fold. Never raises.

    Args:
        ring: keys that MACs are verified with.
        partitions: how many the topic has.
        using: another codec than the one of the schemas that this version ships.
    """
    if (entry := _usual(record, ring, partitions, using or codec())) is not None:
        return entry
    key: RecordKey | None = None
    try:
        headers, key = _verified(record, ring, partitions)
        event = _decoded(record.value or b"", headers, using or codec())
        _check_agreement(event, key)
        if record.timestamp_ms is None or record.timestamp_ms < 0:
            raise DecodeError(Reason.NO_APPEND_TIME)
        return Entry(event=event, position=_position(record), at_ms=record.timestamp_ms, digest=_digest(record))
    except DecodeError as error:
        # What belongs to no route has nothing to freeze: a record of the topic itself.
        if key is None or not key.route or error.reason not in FREEZING:
            return _unreadable(record, error)
        return _frozen(record, error, key)


def _usual(record: Record, ring: KeyRing, partitions: int, using: Codec) -> Entry | None:
    """The entry of a record as nearly all are: headers as `write` gives them, ids that need no escape. None: look closely.

    It takes nothing that the closer look would not take alike; what is amiss with a record only that one says.
    """
    key, value, headers, at_ms = record.key, record.value, record.headers, record.timestamp_ms
    if not key or not value or at_ms is None or at_ms < 0:
        return None
    usual = using.usual.get(value[:HEADER_BYTES])
    if usual is None or len(value) > RECORD_BYTES_MAX or headers[:2] != usual.headers:
        return None
    # Four of ours and, behind them, only such as say nothing to a reader.
    if len(headers) != 4 and (len(headers) < 4 or not _OURS.isdisjoint(dict(headers[4:]))):
        return None
    (third, key_id), (fourth, mac) = headers[2:4]
    if third != HEADER_KEY_ID or fourth != HEADER_MAC or key_id is None or mac is None:
        return None
    if ring.verify(key, value, key_id.decode("ascii", "replace"), mac) is not None:
        return None
    try:
        event: Event = usual.read(value, HEADER_BYTES)
    except Exception:
        return None
    tenant_id, route, operation_id, event_id = event.tenant_id, event.route, event.operation_id, event.event_id
    if (
        not tenant_id
        or not route
        or not event_id
        or operation_id == ""
        or not speaks_for(key, tenant_id, route, operation_id, event_id)
    ):
        return None
    if record.partition != partition_for(tenant_id, route, partitions) or _route_fault(event) is not None:
        return None
    position = Position(partition=record.partition, offset=record.offset)
    return Entry(event=event, position=position, at_ms=at_ms, digest=hashlib.sha256(value).hexdigest())


def _verified(record: Record, ring: KeyRing, partitions: int) -> tuple[dict[str, bytes], RecordKey]:
    """Headers and parts of the record key, once they can be believed: all that is checked before the value is looked into."""
    if not record.key:
        raise DecodeError(Reason.NO_KEY)
    key = parse_key(record.key)
    if record.value is None:
        raise DecodeError(Reason.TOMBSTONE)
    headers = _our_headers(record.headers)
    key_id, mac = headers.get(HEADER_KEY_ID), headers.get(HEADER_MAC)
    if (key_id is None) != (mac is None):
        raise DecodeError(Reason.HEADER_MALFORMED, HEADER_MAC if mac is None else HEADER_KEY_ID)
    # Bytes that are no key id are one that no ring holds.
    named = None if key_id is None else key_id.decode("ascii", "replace")
    if (refused := ring.verify(record.key, record.value, named, mac)) is not None:
        # A registry's framing that could not be taken off hides what was signed: not wrong, and yet not proven.
        raise DecodeError(Reason.SCHEMA_UNNAMED if refused is Reason.MAC_WRONG and is_confluent(record.value) else refused)
    if key.route and record.partition != partition_for(key.tenant_id, key.route, partitions):
        raise DecodeError(Reason.MISROUTED, "partition")
    return headers, key


def _our_headers(headers: Headers) -> dict[str, bytes]:
    """Headers of ours, each at most once; others may be among them and are not looked at."""
    found = dict(headers)
    if len(found) < len(headers) or None in found.values():
        seen = set[str]()
        for name, value in headers:
            if name in _OURS and (name in seen or value is None):
                raise DecodeError(Reason.HEADER_MALFORMED, name)
            seen.add(name)
    return cast("dict[str, bytes]", found)


def _decoded(value: bytes, headers: Mapping[str, bytes], using: Codec) -> Event:
    """The event in the value. What the headers say of type and schema is a hint to tools: it may be left out, not differ."""
    if len(value) > RECORD_BYTES_MAX:
        raise DecodeError(Reason.TOO_LARGE)
    named = headers.get(HEADER_TYPE)
    fingerprint = fingerprint_of(value)
    name = using.name_of(fingerprint)
    if name is None and named is not None and named not in _NAMES:
        raise DecodeError(Reason.UNKNOWN_TYPE)
    event = using.decode(value)
    if named is not None and _NAMES.get(named) != name:
        raise DecodeError(Reason.HEADER_MISMATCH, HEADER_TYPE)
    if headers.get(HEADER_SCHEMA, shown := _shown(fingerprint)) != shown:
        raise DecodeError(Reason.HEADER_MISMATCH, HEADER_SCHEMA)
    return event


@lru_cache(maxsize=1024)
def _shown(fingerprint: bytes) -> bytes:
    return fingerprint.hex().encode("ascii")


def _check_agreement(event: Event, key: RecordKey) -> None:
    """Refuses an event that its key or its route does not speak for."""
    if event.tenant_id != key.tenant_id:
        raise DecodeError(Reason.KEY_MISMATCH, "tenant_id")
    if event.route != key.route:
        raise DecodeError(Reason.KEY_MISMATCH, "route")
    if event.operation_id != key.operation_id:
        raise DecodeError(Reason.KEY_MISMATCH, "operation_id")
    if event.event_id != key.event_id:
        raise DecodeError(Reason.KEY_MISMATCH, "event_id")
    if (fault := _route_fault(event)) is not None:
        raise DecodeError(Reason.MISROUTED, fault[0])


def _route_fault(event: Event) -> tuple[str, str] | None:
    """Field and rule where the route of an event cannot be what picks its partition."""
    if isinstance(event, _OF_THE_TOPIC):
        return ("route", "must be empty: the event belongs to the topic itself") if event.route else None
    if not event.tenant_id:
        return "tenant_id", "must not be empty"
    if not event.route:
        return "route", "must not be empty"
    if event.group_id is not None and event.group_id != event.route:
        return "group_id", "must equal the route"
    return None


def _partition_to_write(event: Event, partitions: int, partition: int | None) -> int:
    if event.operation_id == "":
        raise EncodeError("operation_id", "must not be empty")
    if (fault := _route_fault(event)) is not None:
        raise EncodeError(*fault)
    if not isinstance(event, _OF_THE_TOPIC):
        own = partition_for(event.tenant_id, event.route, partitions)
        if partition not in (None, own):
            raise EncodeError("partition", "must be left to the route")
        return own
    if partition is None or not 0 <= partition < partitions:
        raise EncodeError("partition", f"must be 0 to {partitions - 1} for an event of the topic itself")
    return partition


def _position(record: Record) -> Position:
    return Position(partition=record.partition, offset=record.offset)


def _digest(record: Record) -> str:
    """Of the whole value, framing included, and whole itself: two events under one id are told apart by it alone."""
    return hashlib.sha256(record.value or b"").hexdigest()


def _unreadable(record: Record, error: DecodeError) -> Unreadable:
    return Unreadable(
        reason=error.reason,
        field=error.field,
        position=_position(record),
        at_ms=record.timestamp_ms,
        digest=_digest(record),
        first_bytes=(record.value or b"")[:FIRST_BYTES],
    )


def _frozen(record: Record, error: DecodeError, key: RecordKey) -> Frozen:
    value = record.value or b""
    return Frozen(
        reason=error.reason,
        field=error.field,
        position=_position(record),
        at_ms=record.timestamp_ms,
        digest=_digest(record),
        first_bytes=value[:FIRST_BYTES],
        tenant_id=key.tenant_id,
        route=key.route,
        operation_id=key.operation_id,
        event_id=key.event_id,
        schema=value[len(MARKER) : HEADER_BYTES].hex() if value.startswith(MARKER) else None,
    )
