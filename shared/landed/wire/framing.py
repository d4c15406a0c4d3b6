"""Avro single-object encoding: two marker bytes, the fingerprint of the writer's schema, the body.

Source: Avro specification, "Single-object encoding".
"""

from typing import Final

from landed.wire.errors import DecodeError
from landed.wire.reasons import Reason

MARKER: Final = b"\xc3\x01"
FINGERPRINT_BYTES: Final = 8
HEADER_BYTES: Final = len(MARKER) + FINGERPRINT_BYTES


def header(fingerprint: bytes) -> bytes:
    """What stands before every body under that schema; *fingerprint* is CRC-64-AVRO, little-endian."""
    if len(fingerprint) != FINGERPRINT_BYTES:
        raise ValueError(f"fingerprint: must be {FINGERPRINT_BYTES} bytes, not {len(fingerprint)}")
    return MARKER + fingerprint


def fingerprint_of(value: bytes) -> bytes:
    """Fingerprint of the schema that *value* was written under; the body begins at `HEADER_BYTES`.

    Raises:
        DecodeError: `not_framed`.
    """
    if len(value) < HEADER_BYTES or not value.startswith(MARKER):
        raise DecodeError(Reason.NOT_FRAMED)
    return value[len(MARKER) : HEADER_BYTES]
