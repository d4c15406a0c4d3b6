"""Errors of the wire. None of them carries content of an event: only reasons, and names of fields and rules.

WireError
├── EncodeError      fix the event or the argument that is named
├── DecodeError      look at the record
└── KeyRingError     fix the settings
"""

from landed.core.errors import LandedError
from landed.wire.reasons import Reason


class WireError(LandedError, ValueError):
    """Base of all errors of the wire."""


class EncodeError(WireError):
    """An event that cannot be written: `field` breaks `rule`."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


class DecodeError(WireError):
    """Bytes that are no event: `reason`, and the `field` at fault where it is known."""

    def __init__(self, reason: Reason, field: str = "") -> None:
        super().__init__(f"{reason}: {field}" if field else str(reason))
        self.reason = reason
        self.field = field


class KeyRingError(WireError):
    """Keys that cannot be used; names the key id, never the key."""
