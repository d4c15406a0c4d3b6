"""The log as a writer sees it, and the way back of verdicts."""

from concurrent.futures import Future
from typing import Protocol

import msgspec

from landed.core.errors import LandedError
from landed.core.events import Event, Position
from landed.core.verdict import Verdict


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """Acknowledgement: the event is on the log, durably."""

    position: Position
    at_ms: int
    """Append time of the log, milliseconds since the epoch, UTC."""


class AppendFailed(LandedError):
    """The log did not acknowledge: **it is unknown whether the event is on it**. Appending the same event again is safe, since
    it has the same `event_id`."""


class NothingAppended(AppendFailed):
    """The event is certainly not on the log: it was refused before it was sent."""


class EventLog(Protocol):
    """Appends events; the order of the log decides."""

    def append(self, event: Event) -> Future[Appended]:
        """Sends *event* without waiting for its acknowledgement; at once, or a few milliseconds later with others.

        Returns:
            A future of the acknowledgement; fails with `AppendFailed`, or with `NothingAppended`. Calls of one thread for one
            route are appended in the order of the calls.
        """
        ...

    def close(self, timeout_s: float) -> None:
        """Waits for what was sent, at most *timeout_s* seconds."""
        ...


class VerdictInbox(Protocol):
    """Verdicts for the claims of this instance."""

    @property
    def reply_to(self) -> str:
        """Name under which this instance is answered."""
        ...

    def expect(self, claim_id: str) -> Future[Verdict]:
        """A future of the verdict for *claim_id*; call it before the claim is appended."""
        ...

    def forget(self, claim_id: str) -> None:
        """Nobody waits for *claim_id* any more."""
        ...

    def close(self) -> None: ...
