"""What an event is in bytes, and the errors that name the field at fault without its content."""

import copy
import io
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest

import landed_schemas
from landed.core.events import CATALOGUE, CallRecord, DispatchRefused, Event, Genesis, GroupOpened, OutcomeConfirmed
from landed.core.vocabulary import Refusal, Source
from landed.wire.codec import Codec, codec, decode, encode
from landed.wire.errors import DecodeError, EncodeError
from landed.wire.framing import HEADER_BYTES
from landed.wire.reasons import Reason

SECRET = "content-that-no-error-may-show"
ENVELOPE: dict[str, Any] = {"event_id": "e1", "tenant_id": "acme", "route": "trip-1", "actor": "worker-1"}
OPENED = GroupOpened(**ENVELOPE, workflow_type="trip")
CALL = CallRecord(dispatched_at_ms=1, ended_at_ms=2)
CONFIRMED = OutcomeConfirmed(
    **ENVELOPE,
    operation_id="refund:42",
    attempt=1,
    source=Source.WORKER,
    call=CALL,
)


def reworded(name: str, remove: frozenset[str] = frozenset(), *, add: dict[str, Any] | None = None) -> landed_schemas.Schema:
    """The schema of an event as another release might have it."""
    schema = copy.deepcopy(dict(landed_schemas.schemas()[name]))
    for key in [key for key in schema if key.startswith("__")]:
        del schema[key]
    kept = [field for field in schema["fields"] if field["name"] not in remove]
    schema["fields"] = kept + ([add] if add else [])
    return landed_schemas.parse(msgspec.json.encode(schema).decode())


def refusal(value: bytes, using: Codec | None = None) -> tuple[Reason, str]:
    with pytest.raises(DecodeError) as refused:
        (using or codec()).decode(value)
    return refused.value.reason, refused.value.field


def test_a_value_is_the_framing_and_the_avro_body_of_the_events_schema() -> None:
    value = encode(OPENED)
    schema = landed_schemas.schemas()["group_opened"]
    assert value[:HEADER_BYTES] == b"\xc3\x01" + landed_schemas.fingerprint(schema)
    assert value[HEADER_BYTES:] == (b"\x04e1\x08acme\x0ctrip-1\x00\x00\x10worker-1\x00\x00\x08trip\x00\x00")
    assert decode(value) == OPENED


def test_equal_events_give_equal_bytes_whatever_order_their_maps_were_filled_in() -> None:
    one = Genesis(**ENVELOPE, partitions=12, settings={"a": "1", "b": "2"})
    two = Genesis(**ENVELOPE, partitions=12, settings={"b": "2", "a": "1"})
    assert one == two
    assert encode(one) == encode(two)


@pytest.mark.parametrize("wrong", [1.5, "1", None, b"1", [], object()])
def test_a_field_of_another_type_is_refused_and_named(wrong: object) -> None:
    """Avro's own writer would take 1.5 for 1."""
    with pytest.raises(EncodeError, match="partitions: must be of its declared type"):
        encode(Genesis(**ENVELOPE, partitions=wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [1, b"trip", None, ["trip"], datetime(2026, 1, 1), UUID(int=1), Decimal(1), object()])
def test_a_text_field_takes_text_only(wrong: object) -> None:
    """Nothing is turned into text on the way: bytes would come back as their base64."""
    with pytest.raises(EncodeError, match="workflow_type: must be of its declared type"):
        encode(GroupOpened(**ENVELOPE, workflow_type=wrong))  # type: ignore[arg-type]


def test_a_nested_field_is_named_with_its_path() -> None:
    call = CallRecord(dispatched_at_ms=SECRET, ended_at_ms=2)  # type: ignore[arg-type]
    with pytest.raises(EncodeError) as refused:
        encode(msgspec.structs.replace(CONFIRMED, call=call))
    assert str(refused.value) == "call.dispatched_at_ms: must be of its declared type"


def test_a_word_that_is_not_of_the_set_is_refused_without_being_shown() -> None:
    with pytest.raises(EncodeError) as refused:
        encode(msgspec.structs.replace(CONFIRMED, source=SECRET))
    assert str(refused.value) == "source: must be of its declared type"


@pytest.mark.parametrize(
    ("field", "event"),
    [
        ("actor", msgspec.structs.replace(OPENED, actor=f"{SECRET}\ud800")),
        ("intent_ref", msgspec.structs.replace(OPENED, intent_ref="\udfff")),
        ("settings", Genesis(**ENVELOPE, partitions=1, settings={"a": "\ud800"})),
        ("settings", Genesis(**ENVELOPE, partitions=1, settings={"\ud800": "a"})),
        ("matched_on[]", msgspec.structs.replace(CONFIRMED, matched_on=["a", "\ud800"])),
        ("call.error_code", msgspec.structs.replace(CONFIRMED, call=msgspec.structs.replace(CALL, error_code="\ud800"))),
    ],
)
def test_a_lone_surrogate_is_refused_and_its_field_named(field: str, event: Event) -> None:
    with pytest.raises(EncodeError) as refused:
        encode(event)
    assert str(refused.value) == f"{field}: must not hold a lone surrogate, which UTF-8 cannot carry"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused_and_named(number: int) -> None:
    with pytest.raises(EncodeError) as refused:
        encode(msgspec.structs.replace(OPENED, seen_version=number))
    assert str(refused.value) == "seen_version: must fit into 64 bits"


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
def test_every_number_of_64_bits_comes_back(number: int) -> None:
    event = msgspec.structs.replace(OPENED, seen_version=number)
    assert decode(encode(event)) == event


def test_what_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(EncodeError, match="type: Event is not in the catalogue of events"):
        encode(Event(**ENVELOPE))


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_a_body_that_is_cut_off_anywhere_is_malformed(name: str) -> None:
    schema = landed_schemas.schemas()[name]
    value = b"\xc3\x01" + landed_schemas.fingerprint(schema)
    assert refusal(value)[0] is Reason.BODY_MALFORMED


def test_a_shortened_body_is_malformed() -> None:
    value = encode(CONFIRMED)
    for size in range(HEADER_BYTES, len(value)):
        assert refusal(value[:size])[0] is Reason.BODY_MALFORMED


def test_bytes_after_the_body_are_refused() -> None:
    assert refusal(encode(OPENED) + b"\x00") == (Reason.TRAILING_BYTES, "")


def test_text_that_is_not_utf_8_is_malformed() -> None:
    assert refusal(encode(OPENED).replace(b"acme", b"ac\xffe")) == (Reason.BODY_MALFORMED, "")


def test_a_symbol_beyond_the_enum_is_malformed() -> None:
    event = DispatchRefused(**ENVELOPE, claim_id="c1", reason=Refusal.CLAIM_EXPIRED)
    value = encode(event)
    at = value.index(b"\x04c1") + 3
    assert decode(value[:at] + b"\x02" + value[at + 1 :]) == msgspec.structs.replace(event, reason=Refusal.INVALID_REQUEST)
    for beyond in (b"\x7e", b"\xfe\x03"):
        assert refusal(value[:at] + beyond + value[at + 1 :])[0] is Reason.BODY_MALFORMED


def test_a_negative_length_of_a_text_is_malformed() -> None:
    value = encode(OPENED)
    assert refusal(value[:HEADER_BYTES] + b"\x01" + value[HEADER_BYTES + 1 :])[0] is Reason.BODY_MALFORMED


def test_a_schema_that_nobody_here_knows_is_never_guessed_at() -> None:
    newer = Codec({"genesis": reworded("genesis", add={"name": "x", "type": ["null", "long"], "default": None})})
    value = newer.encode(Genesis(**ENVELOPE, partitions=1))
    assert refusal(value) == (Reason.UNKNOWN_SCHEMA, "")


@pytest.mark.parametrize(
    "earlier",
    [
        reworded("group_opened", frozenset({"intent_ref"})),
        reworded("group_opened", add={"name": "gone", "type": ["null", "string"], "default": None}),
    ],
    ids=["a field less", "a field more"],
)
def test_a_record_of_an_earlier_release_is_read_as_the_event_of_today(earlier: landed_schemas.Schema) -> None:
    value = Codec({"group_opened": earlier}).encode(OPENED)
    assert refusal(value) == (Reason.UNKNOWN_SCHEMA, "")
    assert Codec(landed_schemas.schemas(), [("group_opened", earlier)]).decode(value) == OPENED


def test_an_earlier_schema_that_is_still_the_present_one_changes_nothing() -> None:
    both = Codec(landed_schemas.schemas(), landed_schemas.schemas().items())
    assert both.decode(both.encode(CONFIRMED)) == CONFIRMED


def test_what_an_earlier_release_says_and_the_core_cannot_hold_is_malformed_and_named() -> None:
    """Only a schema that broke the contract could bring it; the field is named, what stands in it is not."""
    text = reworded("genesis", frozenset({"partitions"}), add={"name": "partitions", "type": "string"})
    plain = {**ENVELOPE, "partitions": SECRET, "settings": {}}
    body = _body(text, plain)
    doctored = Codec({"genesis": text})
    with pytest.raises(DecodeError) as refused:
        doctored.decode(b"\xc3\x01" + landed_schemas.fingerprint(text) + body)
    assert str(refused.value) == "body_malformed: partitions"


def _body(schema: landed_schemas.Schema, plain: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, plain)
    return out.getvalue()
