"""Avro single-object encoding."""

import pytest

from landed.wire.errors import DecodeError
from landed.wire.framing import HEADER_BYTES, fingerprint_of, header
from landed.wire.reasons import Reason

FINGERPRINT = bytes.fromhex("8f5c393f1ad57572")


def test_a_value_begins_with_the_marker_and_the_fingerprint() -> None:
    assert header(FINGERPRINT) == bytes.fromhex("c301 8f5c393f1ad57572")
    assert len(header(FINGERPRINT)) == HEADER_BYTES
    assert fingerprint_of(header(FINGERPRINT) + b"body") == FINGERPRINT


@pytest.mark.parametrize(
    "value", [b"", b"\xc3", b"\xc3\x01", b"\xc3\x01" + FINGERPRINT[:7], b"\x00" + FINGERPRINT * 2, b"\xc3\x02" + FINGERPRINT]
)
def test_a_value_without_them_is_not_framed(value: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        fingerprint_of(value)
    assert refused.value.reason is Reason.NOT_FRAMED


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_fingerprint_has_eight_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="fingerprint: must be 8 bytes"):
        header(b"x" * size)
