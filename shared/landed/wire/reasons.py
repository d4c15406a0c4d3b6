"""Why a record of the log is not taken as an event.

Source: docs/events.md; docs/semantics.md §2.
"""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a record cannot be read, verified or placed, in the order in which they are looked for; the first hit counts."""

    NO_KEY = "no_key"
    KEY_MALFORMED = "key_malformed"
    TOMBSTONE = "tombstone"
    HEADER_MALFORMED = "header_malformed"
    MAC_MISSING = "mac_missing"
    MAC_UNKNOWN_KEY = "mac_unknown_key"
    MAC_WRONG = "mac_wrong"
    MISROUTED = "misrouted"
    TOO_LARGE = "too_large"
    SCHEMA_UNNAMED = "schema_unnamed"
    NOT_FRAMED = "not_framed"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_SCHEMA = "unknown_schema"
    BODY_MALFORMED = "body_malformed"
    TRAILING_BYTES = "trailing_bytes"
    HEADER_MISMATCH = "header_mismatch"
    KEY_MISMATCH = "key_mismatch"
    NO_APPEND_TIME = "no_append_time"


FREEZING: Final = frozenset(
    {
        Reason.TOO_LARGE,
        Reason.SCHEMA_UNNAMED,
        Reason.NOT_FRAMED,
        Reason.UNKNOWN_TYPE,
        Reason.UNKNOWN_SCHEMA,
        Reason.BODY_MALFORMED,
        Reason.TRAILING_BYTES,
    }
)
"""Reasons that freeze the operation: its own writer said something that this reader cannot decode. They are reached only
once the MAC is right or not required, so nobody without a key can freeze anything where MACs are mandatory."""
