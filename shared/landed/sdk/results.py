"""What a caller gets: always a value, never a raw network error (semantics.md §6).

Times are milliseconds since the epoch, UTC, on the log's clock where they tell of something recorded.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from landed.core.vocabulary import Refusal


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    operation_id: str


class Confirmed(_Result, frozen=True, kw_only=True):
    """The effect exists, and the ledger has its evidence."""

    receipt: Mapping[str, Any] | None
    """The `receipt_fields` of the answer, as they stand on the log."""
    reference: str | None
    """The provider's reference of the effect."""
    at_ms: int
    """When it was confirmed."""
    repeated: bool = False
    """True: nothing was called now; this is what an earlier call left."""
    removed_at_ms: int | None = None
    """When somebody else removed the effect; nothing is sent again."""
    answer: Any = None
    """What the tool returned; only for the call that made it. Never recorded, and not shown by `repr`."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "answer")
        return f"Confirmed({shown})"


class Rejected(_Result, frozen=True, kw_only=True):
    """The effect does not exist, with proof: the provider said no, or nothing was sent."""

    reason: str
    """The provider's error code, or `not_sent`."""
    at_ms: int | None = None
    repeated: bool = False


class Unknown(_Result, frozen=True, kw_only=True):
    """Nobody can tell yet whether the effect exists. **It must not be tried again**: the ledger finds out."""

    retry_allowed: Literal[False] = False
    reason: str
    """Why: class of the error, `pending`, `in_flight`, `unresolved`, `not_recorded`, `lease_over`, …"""
    next_check_at_ms: int | None = None
    """When the ledger looks next, as far as it is known."""
    reference: str | None = None
    """The provider's reference where an answer showed one."""


class Escalated(_Result, frozen=True, kw_only=True):
    """Automation stopped: a person decides."""

    reason: str
    review_id: int | None = None
    since_ms: int | None = None


class Refused(_Result, frozen=True, kw_only=True):
    """The ledger said no: **the tool was not called**."""

    reason: Refusal
    detail: Mapping[str, str] = {}


Result: TypeAlias = Confirmed | Rejected | Unknown | Escalated | Refused


class Pending(msgspec.Struct, frozen=True):
    """Returned *by a tool*: the provider accepted the request and has not settled it."""

    reference: str
