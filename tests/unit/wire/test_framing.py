"""Avro single-object encoding."""

import pytest

from landed.wire.errors import DecodeError
from landed.wire.framing import HEADER_BYTES, fingerprint_of, from_confluent, header, is_confluent, to_confluent
from landed.wire.reasons import Reason

FINGERPRINT = bytes.fromhex("8f5c393f1ad57572")


def test_a_value_begins_with_the_marker_and_the_fingerprint() -> None:
    assert header(FINGERPRINT) == bytes.fromhex("c301 8f5c393f1ad57572")
    assert len(header(FINGERPRINT)) == HEADER_BYTES
    assert fingerprint_of(header(FINGERPRINT) + b"body") == FINGERPRINT


@pytest.mark.parametrize(
    "value", [b"", b"\xc3", b"\xc3\x01", b"\xc3\x01" + FINGERPRINT[:7], b"\x01" + FINGERPRINT * 2, b"\xc3\x02" + FINGERPRINT]
)
def test_a_value_without_them_is_not_framed(value: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        fingerprint_of(value)
    assert refused.value.reason is Reason.NOT_FRAMED


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_fingerprint_has_eight_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="fingerprint: must be 8 bytes"):
        header(b"x" * size)


# ---- a registry's framing ------------------------------------------------------------------------------------------------

VALUE = header(FINGERPRINT) + b"body"
NAMED = FINGERPRINT.hex().encode()


@pytest.mark.parametrize("schema_id", [0, 1, 2**31 - 1])
def test_a_registrys_framing_is_a_zero_byte_the_id_and_the_body(schema_id: int) -> None:
    assert to_confluent(VALUE, schema_id) == b"\0" + schema_id.to_bytes(4, "big") + b"body"


@pytest.mark.parametrize("schema_id", [1, 77])
def test_what_was_framed_for_a_registry_comes_back_to_the_byte_whatever_the_id(schema_id: int) -> None:
    assert from_confluent(to_confluent(VALUE, schema_id), NAMED) == VALUE


@pytest.mark.parametrize("named", [None, b"", b"8f5c393f1ad5757", NAMED.upper(), NAMED + b"0", NAMED + b"\n"])
def test_where_no_header_names_the_schema_a_registrys_framing_stays_and_says_so(named: bytes | None) -> None:
    framed = to_confluent(VALUE, 7)
    assert from_confluent(framed, named) == framed
    with pytest.raises(DecodeError) as refused:
        fingerprint_of(framed)
    assert refused.value.reason is Reason.SCHEMA_UNNAMED


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\1", VALUE])
def test_what_is_not_framed_so_is_left_alone(value: bytes) -> None:
    assert not is_confluent(value)
    assert from_confluent(value, NAMED) == value
