"""Avro single-object encoding: two marker bytes, the fingerprint of the writer's schema, the body.

An event has this one form wherever it is signed, digested, kept or compared. The framing of a schema registry is a form for the
way over the log only: it is put on when a record leaves, and taken off when one arrives, before anything looks at it.

Source: Avro specification, "Single-object encoding"; docs/decisions/0014-framing-of-a-registry.md.
"""

import re
from typing import Final

from landed.wire.errors import DecodeError
from landed.wire.reasons import Reason

MARKER: Final = b"\xc3\x01"
FINGERPRINT_BYTES: Final = 8
HEADER_BYTES: Final = len(MARKER) + FINGERPRINT_BYTES

HEADER_TYPE: Final = "landed-type"
HEADER_SCHEMA: Final = "landed-schema"
"""Headers of a record that say of its value what it says itself, for tools."""


def header(fingerprint: bytes) -> bytes:
    """What stands before every body under that schema; *fingerprint* is CRC-64-AVRO, little-endian."""
    if len(fingerprint) != FINGERPRINT_BYTES:
        raise ValueError(f"fingerprint: must be {FINGERPRINT_BYTES} bytes, not {len(fingerprint)}")
    return MARKER + fingerprint


def fingerprint_of(value: bytes) -> bytes:
    """Fingerprint of the schema that *value* was written under; the body begins at `HEADER_BYTES`.

    Raises:
        DecodeError: `not_framed`; `schema_unnamed` where it has a registry's framing and no header named its schema.
    """
    if is_confluent(value):
        raise DecodeError(Reason.SCHEMA_UNNAMED)
    if len(value) < HEADER_BYTES or not value.startswith(MARKER):
        raise DecodeError(Reason.NOT_FRAMED)
    return value[len(MARKER) : HEADER_BYTES]


# ---- framing of a schema registry ----------------------------------------------------------------------------------------

CONFLUENT_MARKER: Final = b"\0"
CONFLUENT_HEADER_BYTES: Final = 5
_NAMED: Final = re.compile(rb"[0-9a-f]{16}")


def to_confluent(value: bytes, schema_id: int) -> bytes:
    """*value* as consumers with a schema registry expect it: a zero byte, the schema's id there (4 bytes, big-endian), the body.

    Args:
        value: in single-object encoding.
        schema_id: of the schema whose fingerprint *value* carries.
    """
    return CONFLUENT_MARKER + schema_id.to_bytes(4, "big") + value[HEADER_BYTES:]


def is_confluent(value: bytes) -> bool:
    """Whether *value* begins as `to_confluent` leaves it. The first byte tells: single-object encoding begins with another."""
    return value[:1] == CONFLUENT_MARKER and len(value) >= CONFLUENT_HEADER_BYTES


def from_confluent(value: bytes, named: bytes | None) -> bytes:
    """The single-object encoding of which `to_confluent` made *value*; *value* itself where nothing says of which schema.

    The id is not looked at: another registry has another one for the same schema, and none need be reached to read the log.

    Args:
        value: begins with the zero byte.
        named: the schema's fingerprint in hexadecimal, as header `landed-schema` carries it. A wrong one gives other bytes than
            were signed, so that the MAC tells.
    """
    if named is None or not is_confluent(value) or not _NAMED.fullmatch(named):
        return value
    return MARKER + bytes.fromhex(named.decode("ascii")) + value[CONFLUENT_HEADER_BYTES:]
