"""Event to bytes and back: Avro bodies in single-object framing.

The bytes are canonical (maps in the order of their keys), so equal events give equal bytes; the event id and the digest
of an entry rest on that.

Writing uses the present schema of the event. Reading finds the writer's schema by its fingerprint among the present ones
and those of every release, and never guesses: an unknown fingerprint is an error that freezes the operation.
"""

import functools
import io
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, NamedTuple
from uuid import UUID

import fastavro
import msgspec

import landed_schemas
from landed.core.events import CATALOGUE, Event
from landed.wire.errors import DecodeError, EncodeError
from landed.wire.framing import HEADER_BYTES, HEADER_SCHEMA, HEADER_TYPE, fingerprint_of, header
from landed.wire.reasons import Reason
from landed.wire.straight import Reader, Writer, reader_of, writer_of

_KEPT: Final = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)
"""What msgspec would otherwise turn into text."""

_PATH: Final = re.compile(r"at `\$\.?([^`]*)`")


_LENGTH_OF_ID: Final = b"\x40"
"""32 as Avro writes the length of a text (zigzag)."""

_READY_MAX: Final = 256
_READY_BYTES_MAX: Final = 8_192
"""How many encoded events are kept between their id and their record, and how long each may be."""


class _Writer(NamedTuple):
    schema: landed_schemas.Schema
    header: bytes
    optional: tuple[tuple[str, str], ...]
    """Fields that hold a record or null, each with the record's full name."""


class _Reader(NamedTuple):
    name: str
    event: type[Event]
    schema: landed_schemas.Schema


class Usual(NamedTuple):
    """What nearly every record of one schema begins with, and what reads its body."""

    headers: tuple[tuple[str, bytes], tuple[str, bytes]]
    """Type and schema, as a writer gives them: the first two headers of a record."""
    read: Reader


class Codec:
    """Encodes under one set of schemas, decodes under that and older ones.

    Args:
        current: schema of every event by its name.
        older: schemas of earlier releases, each with the name of its event.
    """

    def __init__(
        self,
        current: Mapping[str, landed_schemas.Schema],
        older: Iterable[tuple[str, landed_schemas.Schema]] = (),
    ) -> None:
        self._writers: Final[dict[type[Event], _Writer]] = {}
        self._readers: Final[dict[bytes, _Reader]] = {}
        # Generated at the first event of each kind: a process knows a few of them, and all would take it a tenth of a second.
        self._straight_writers: Final[dict[type[Event], Writer]] = {}
        self._straight_readers: Final[dict[bytes, Reader]] = {}
        self.usual: Final[dict[bytes, Usual]] = {}
        """By the first `HEADER_BYTES` of a value, for schemas of which something was read."""
        # Two generations, so that forgetting is one assignment: nothing here waits for a lock.
        self._ready: dict[str, tuple[Event, bytes]] = {}
        self._ready_before: dict[str, tuple[Event, bytes]] = {}
        for name, schema in older:
            self._readers[landed_schemas.fingerprint(schema)] = _Reader(name, CATALOGUE[name], schema)
        for name, schema in current.items():
            fingerprint = landed_schemas.fingerprint(schema)
            self._writers[CATALOGUE[name]] = _Writer(schema, header(fingerprint), _optional_records(schema))
            self._readers[fingerprint] = _Reader(name, CATALOGUE[name], schema)

    def encode(self, event: Event) -> bytes:
        """The bytes of *event*.

        Raises:
            EncodeError: a field is not of its type, is beyond 64 bits, or holds a lone surrogate; or the event is not in
                the catalogue.
        """
        ready = self._ready.get(event.event_id) or self._ready_before.get(event.event_id)
        # The very same value: an equal id alone says too little.
        if ready is not None and ready[0] is event:
            return ready[1]
        writer = self._writers.get(type(event))
        if writer is None:
            raise EncodeError("type", f"{type(event).__name__} is not in the catalogue of events")
        straight = self._straight_writers.get(type(event))
        if straight is None:
            straight = self._straight_writers[type(event)] = writer_of(writer.schema, type(event))
        try:
            return straight(event, writer.header)
        except Exception:
            return _encoded_by_library(event, writer)

    def encode_body(self, event: Event) -> bytes:
        """The bytes of *event* without framing. Raises as `encode` does."""
        return self.encode(event)[HEADER_BYTES:]

    def ready(self, event: Event, bare: bytes) -> None:
        """Takes note of the bytes of *event*, so that what was encoded for its id is not encoded once more for its record.

        Args:
            event: with an id of 32 ASCII characters.
            bare: what `encode_body` gave for the same event with an empty id. The id is the first field of every schema.
        """
        if len(bare) > _READY_BYTES_MAX or len(event.event_id) != 32 or bare[:1] != b"\0":
            return
        if len(self._ready) >= _READY_MAX:
            self._ready_before, self._ready = self._ready, {}
        head = self._writers[type(event)].header + _LENGTH_OF_ID
        self._ready[event.event_id] = (event, b"".join((head, event.event_id.encode("ascii"), bare[1:])))

    def decode(self, value: bytes) -> Event:
        """The event in *value*.

        Raises:
            DecodeError: `not_framed`, `unknown_schema`, `body_malformed` or `trailing_bytes`, and nothing else.
        """
        fingerprint = fingerprint_of(value)
        straight = self._straight_readers.get(fingerprint)
        if straight is None:
            reader = self._readers.get(fingerprint)
            if reader is None:
                raise DecodeError(Reason.UNKNOWN_SCHEMA)
            straight = self._straight_readers[fingerprint] = reader_of(reader.schema, reader.event)
            type_, schema = reader.name.encode("ascii"), fingerprint.hex().encode("ascii")
            self.usual[header(fingerprint)] = Usual(((HEADER_TYPE, type_), (HEADER_SCHEMA, schema)), straight)
        try:
            event: Event = straight(value, HEADER_BYTES)
        except Exception:
            return _decoded_by_library(value, self._readers[fingerprint])
        return event

    def name_of(self, fingerprint: bytes) -> str | None:
        """Name of the event whose schema has that fingerprint; None where no known one has."""
        reader = self._readers.get(fingerprint)
        return None if reader is None else reader.name


@functools.cache
def codec() -> Codec:
    """The codec of the schemas that this version ships; made at the first call (some 20 ms), then shared."""
    older = [pair for version in landed_schemas.released().values() for pair in version.items()]
    return Codec(landed_schemas.schemas(), older)


def encode(event: Event) -> bytes:
    """`Codec.encode` under the schemas that this version ships."""
    return codec().encode(event)


def decode(value: bytes) -> Event:
    """`Codec.decode` under the schemas that this version ships."""
    return codec().decode(value)


def _encoded_by_library(event: Event, writer: _Writer) -> bytes:
    out = io.BytesIO()
    out.write(writer.header)
    try:
        # Types are checked before the writer sees them: it would take 1.5 for 1, and bytes would come out as base64.
        plain = msgspec.to_builtins(event, order="deterministic", builtin_types=_KEPT)
        msgspec.convert(plain, type(event))
        for field, name in writer.optional:
            if plain[field] is not None:
                # Named, so that the writer does not try every branch on every field of it: a fifth of the time.
                plain[field] = (name, plain[field])
        fastavro.schemaless_writer(out, writer.schema, plain)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise _explained(event, error) from None
    return out.getvalue()


def _decoded_by_library(value: bytes, reader: _Reader) -> Event:
    body = io.BytesIO(value)
    body.seek(HEADER_BYTES)
    try:
        plain = fastavro.schemaless_reader(body, reader.schema, None)
    except Exception:
        # The reader names no closed set of errors for bytes that are not what their schema says (EOFError, IndexError,
        # UnicodeDecodeError, ...), and reading is total; what it says of them is content and stays out.
        raise DecodeError(Reason.BODY_MALFORMED) from None
    if body.tell() != len(value):
        raise DecodeError(Reason.TRAILING_BYTES)
    try:
        # What an earlier release did not write yet gets the default of the event, what it still wrote is left out.
        return msgspec.convert(plain, reader.event)
    except msgspec.ValidationError as error:
        raise DecodeError(Reason.BODY_MALFORMED, _path(error)) from None


def _optional_records(schema: landed_schemas.Schema) -> tuple[tuple[str, str], ...]:
    return tuple(
        (field["name"], branch["name"])
        for field in schema["fields"]
        if isinstance(field["type"], list)
        for branch in field["type"]
        if isinstance(branch, dict) and branch["type"] == "record"
    )


def _explained(event: Event, error: Exception) -> EncodeError:
    """Names the field that *error* is about; slow, and only on the way to an error."""
    if isinstance(error, msgspec.ValidationError):
        return EncodeError(_path(error), "must be of its declared type")
    for path, leaf in _leaves(event, ""):
        if isinstance(leaf, str):
            if any("\ud800" <= each <= "\udfff" for each in leaf):
                return EncodeError(path, "must not hold a lone surrogate, which UTF-8 cannot carry")
        elif isinstance(leaf, int):
            if not -(2**63) <= leaf < 2**63:
                return EncodeError(path, "must fit into 64 bits")
        elif leaf is not None:
            return EncodeError(path, "must be of its declared type")
    return EncodeError("event", f"cannot be encoded ({type(error).__name__})")


def _leaves(value: object, path: str) -> Iterable[tuple[str, object]]:
    match value:
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from _leaves(getattr(value, name), f"{path}.{name}" if path else name)
        case dict():
            # The keys of a map are content: their path is that of the map.
            for key, each in value.items():
                yield path, key
                yield from _leaves(each, path)
        case list():
            for each in value:
                yield from _leaves(each, f"{path}[]")
        case _:
            yield path, value


def _path(error: msgspec.ValidationError) -> str:
    found = _PATH.search(str(error))
    return found[1] if found else "event"
