"""Generated readers and writers agree with fastavro on everything that they take, and take all that the ledger writes."""

import copy
import io
from functools import cache
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_codec import EVENTS

import landed_schemas
from landed.core.events import CATALOGUE, TYPE_OF, Event, OperationPrepared
from landed.core.vocabulary import Refusal
from landed.wire.straight import Reader, Unusual, Writer, reader_of, writer_of

HEAD = b"head"


def schema_of(event: Event) -> landed_schemas.Schema:
    return landed_schemas.schemas()[TYPE_OF[type(event)]]


@cache
def reader(event: type[Event]) -> Reader:
    return reader_of(landed_schemas.schemas()[TYPE_OF[event]], event)


@cache
def writer(event: type[Event]) -> Writer:
    return writer_of(landed_schemas.schemas()[TYPE_OF[event]], event)


def written_by_fastavro(event: Event) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema_of(event), msgspec.to_builtins(event, order="deterministic"))
    return out.getvalue()


def read_by_fastavro(schema: landed_schemas.Schema, body: bytes, event: type[Event]) -> Event | None:
    """None where it is not the bytes of an event, and nothing more."""
    at = io.BytesIO(body)
    try:
        found = msgspec.convert(fastavro.schemaless_reader(at, schema, None), event)
    except Exception:
        return None
    return found if at.tell() == len(body) else None


@given(EVENTS)
@settings(max_examples=150)
def test_an_event_is_written_to_the_bytes_that_fastavro_writes(event: Event) -> None:
    assert writer(type(event))(event, HEAD) == HEAD + written_by_fastavro(event)


@given(EVENTS)
@settings(max_examples=150)
def test_an_event_is_read_to_the_values_that_fastavro_reads(event: Event) -> None:
    found = reader(type(event))(HEAD + written_by_fastavro(event), len(HEAD))
    assert found == event
    assert type(found) is type(event)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Event, bytes]:
    """Bytes of an event with some of them changed, removed, or put in."""
    event = draw(EVENTS)
    body = bytearray(written_by_fastavro(event))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        kept = draw(st.integers(at, min(len(body), at + 2)))
        body[at:kept] = draw(st.binary(max_size=2) | st.sampled_from([b"\x80\x00", b"\x01", b"\xff" * 9 + b"\x01", b"\xff" * 11]))
    return event, bytes(body)


@given(spoilt())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_taken_of_other_bytes_fastavro_takes_alike(case: tuple[Event, bytes]) -> None:
    event, body = case
    try:
        found = reader(type(event))(body, 0)
    except Exception:
        return
    assert found == read_by_fastavro(schema_of(event), body, type(event))


PREPARED = OperationPrepared(
    event_id="e",
    tenant_id="acme",
    route="r",
    actor="a",
    tool="t",
    request_hash="h",
    argument_digests={"b": "2", "a": "1"},
    contract="{}",
    contract_digest="d",
    effect_type="k",
    compensation=["x", "y"],
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool": b"t"},
        {"tool": None},
        {"tool": "\ud800"},
        {"tool": Refusal.CLAIM_EXPIRED},
        {"seen_version": True},
        {"seen_version": 1.0},
        {"seen_version": 2**63},
        {"seen_version": -(2**63) - 1},
        {"dry_run": 1},
        {"compensation": ("x",)},
        {"compensation": [1]},
        {"argument_digests": {1: "1"}},
        {"argument_digests": [("a", "1")]},
        {"claim": {}},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_left_to_the_library(wrong: dict[str, Any]) -> None:
    event = msgspec.structs.replace(PREPARED, **wrong)
    with pytest.raises((Unusual, UnicodeEncodeError)):
        writer(OperationPrepared)(event, HEAD)


def test_an_enum_is_not_written_for_the_plain_text_that_equals_it() -> None:
    event = CATALOGUE["dispatch_refused"]
    refused = msgspec.convert(
        {"event_id": "e", "tenant_id": "t", "route": "r", "actor": "a", "claim_id": "c", "reason": "claim_expired"}, event
    )
    assert writer(event)(refused, b"") == written_by_fastavro(refused)
    with pytest.raises(Unusual):
        writer(event)(msgspec.structs.replace(refused, reason="claim_expired"), b"")


def test_maps_are_written_in_the_order_of_their_keys_whatever_order_they_were_filled_in() -> None:
    assert writer(OperationPrepared)(PREPARED, b"") == written_by_fastavro(PREPARED)


DIGESTS = b"\x02a\x021\x02b\x022"


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        (b"\x02e\x08acme", b"\x81\x00"),
        (b"\x02e\x08acme", b"\x01e\x08acme"),
        (b"\x02a\x00\x00\x02t", b"\x02a" + b"\xff" * 9 + b"\x7f\x00\x02t"),
        (b"\x04" + DIGESTS + b"\x00", b"\x03\x00"),
        (b"\x00\x00\x00", b"\x00\x02\x00"),
        (b"\x00\x00\x00", b"\x00\x00\x01"),
    ],
    ids=[
        "size of two bytes below 0",
        "size below 0",
        "number beyond 64 bits",
        "block with its size",
        "2 for true",
        "branch below 0",
    ],
)
def test_bytes_that_are_not_as_usual_are_left_to_the_library(usual: bytes, other: bytes) -> None:
    body = written_by_fastavro(PREPARED)
    head, found, tail = body.rpartition(usual) if usual.endswith(b"\0\0") else body.partition(usual)
    assert found
    with pytest.raises(Unusual):
        reader(OperationPrepared)(head + other + tail, 0)


def test_a_symbol_below_0_is_left_to_the_library() -> None:
    refused = msgspec.convert(
        {"event_id": "e", "tenant_id": "t", "route": "r", "actor": "a", "claim_id": "c", "reason": "claim_expired"},
        CATALOGUE["dispatch_refused"],
    )
    body = written_by_fastavro(refused)
    at = body.index(b"\x02c") + 2
    with pytest.raises(Unusual):
        reader(type(refused))(body[:at] + b"\x01" + body[at + 1 :], 0)


def other_release(change: Any) -> landed_schemas.Schema:
    schema = copy.deepcopy({key: value for key, value in schema_of(PREPARED).items() if not key.startswith("__")})
    change(schema["fields"])
    return landed_schemas.parse(msgspec.json.encode(schema).decode())


def test_a_field_that_the_event_does_not_know_is_left_out_and_one_that_was_not_written_gets_its_default() -> None:
    def change(fields: list[dict[str, Any]]) -> None:
        fields[:] = [field for field in fields if field["name"] != "dry_run"]
        fields.insert(3, {"name": "notes", "type": ["null", {"type": "map", "values": {"type": "array", "items": "long"}}]})

    schema = other_release(change)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {**msgspec.to_builtins(PREPARED), "notes": {"a": [1, -70], "b": []}})
    assert reader_of(schema, OperationPrepared)(out.getvalue(), 0) == PREPARED


def test_a_schema_with_a_type_that_is_not_known_here_is_left_to_the_library() -> None:
    schema = other_release(lambda fields: fields.append({"name": "ratio", "type": "double"}))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {**msgspec.to_builtins(PREPARED), "ratio": 0.5})
    with pytest.raises(Unusual):
        reader_of(schema, OperationPrepared)(out.getvalue(), 0)
    with pytest.raises(Unusual):
        writer_of(schema, OperationPrepared)(PREPARED, b"")


def test_texts_that_many_events_share_are_one_value_in_memory() -> None:
    one, other = (reader(OperationPrepared)(written_by_fastavro(PREPARED), 0) for _ in range(2))
    assert one.contract is other.contract
