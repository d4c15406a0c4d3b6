"""The record key: five parts, one spelling."""

import string

import pytest

from landed.wire.errors import DecodeError, EncodeError
from landed.wire.keys import KEY_BYTES_MAX, RecordKey, build_key, parse_key
from landed.wire.reasons import Reason

UNRESERVED = set((string.ascii_letters + string.digits + "-._~").encode())


def key(**changes: str | None) -> RecordKey:
    parts = {"tenant_id": "acme", "route": "trip-1", "operation_id": "refund:42", "event_id": "e1", "nonce": "n1"} | changes
    return RecordKey(**parts)  # type: ignore[arg-type]


def refusal(data: bytes) -> tuple[Reason, str]:
    with pytest.raises(DecodeError) as refused:
        parse_key(data)
    return refused.value.reason, refused.value.field


def test_a_key_is_its_parts_percent_encoded_with_slashes_between() -> None:
    assert build_key(key()) == b"acme/trip-1/refund%3A42/e1/n1"


def test_the_operation_is_empty_where_there_is_none() -> None:
    assert build_key(key(operation_id=None)) == b"acme/trip-1//e1/n1"
    assert parse_key(b"acme/trip-1//e1/n1").operation_id is None


def test_tenant_and_route_may_be_empty_for_records_of_the_topic_itself() -> None:
    assert parse_key(b"///e1/n1") == key(tenant_id="", route="", operation_id=None)


@pytest.mark.parametrize("text", ["a/b", "%", "a b", "ü", "\U0001f600", "\x00", "a%2Fb", "+", "~", "compensate:X:2"])
def test_any_text_comes_back(text: str) -> None:
    whole = key(tenant_id=text, route=text, operation_id=text, event_id=text)
    built = build_key(whole)
    assert built.count(b"/") == 4
    assert parse_key(built) == whole


def test_the_longest_ids_fit() -> None:
    longest = "\U0001f600" * 180
    whole = key(tenant_id=longest, route=longest, operation_id=longest, event_id=longest, nonce="n" * 64)
    assert parse_key(build_key(whole)) == whole


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_has_exactly_one_spelling(byte: int) -> None:
    """Else one event could stand under two keys."""
    escaped = b"t/r/o/%%%02X/n" % byte
    if byte in UNRESERVED:
        assert refusal(escaped)[0] is Reason.KEY_MALFORMED
        assert parse_key(b"t/r/o/" + bytes([byte]) + b"/n").event_id == chr(byte)
    else:
        assert refusal(b"t/r/o/" + bytes([byte]) + b"/n")[0] is Reason.KEY_MALFORMED
        if byte < 128:
            assert parse_key(escaped).event_id == chr(byte)


@pytest.mark.parametrize(
    "data",
    [
        b"t",
        b"t/r/o/e",
        b"t/r/o/e/n/x",
        b"t/r/o/%3a/n",
        b"t/r/o/%/n",
        b"t/r/o/%4/n",
        b"t/r/o/%GG/n",
        "t/r/ü/e/n".encode(),
        b"t/r/%FF/e/n",
        b"t/r/%ED%A0%80/e/n",
        b"t/r/o/e/n\n",
    ],
)
def test_bytes_of_another_form_are_no_key(data: bytes) -> None:
    assert refusal(data) == (Reason.KEY_MALFORMED, "")


def test_event_id_and_nonce_are_never_empty() -> None:
    assert refusal(b"t/r/o//n") == (Reason.KEY_MALFORMED, "event_id")
    assert refusal(b"t/r/o/e/") == (Reason.KEY_MALFORMED, "nonce")
    for name in ("event_id", "nonce"):
        with pytest.raises(EncodeError, match=f"{name}: must not be empty"):
            build_key(key(**{name: ""}))


def test_a_key_has_a_greatest_length_on_both_sides() -> None:
    fits = KEY_BYTES_MAX - len("t/r/o//n")
    whole = RecordKey(tenant_id="t", route="r", operation_id="o", event_id="e" * fits, nonce="n")
    assert parse_key(build_key(whole)) == whole
    assert refusal(b"t/r/o/" + b"e" * (fits + 1) + b"/n") == (Reason.KEY_MALFORMED, "")
    with pytest.raises(EncodeError, match="key: must be at most 16384 bytes, is 16385"):
        build_key(RecordKey(tenant_id="t", route="r", operation_id="o", event_id="e" * (fits + 1), nonce="n"))


@pytest.mark.parametrize("name", ["tenant_id", "route", "operation_id", "event_id"])
def test_a_lone_surrogate_is_refused_with_the_part_named(name: str) -> None:
    with pytest.raises(EncodeError, match=f"{name}: must not hold a lone surrogate"):
        build_key(key(**{name: "a\ud800"}))
