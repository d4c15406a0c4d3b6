"""What the protocol asks of the world: each request is yielded by a generator of `protocol.py` and answered by a driver."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from landed.core.events import Event
from landed.sdk.classify import CallOutcome
from landed.sdk.leases import Lease
from landed.sdk.operation import CurrentOperation


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Append *event* and wait for the verdict of its claim. Answer: the verdict; None when there is none in time."""

    event: Event
    claim_id: str
    wait_s: float


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Append *event* and wait for the acknowledgement. Answer: `Appended`; None when there is none in time (it is tried on)."""

    event: Event
    wait_s: float


class Hear(msgspec.Struct, frozen=True, kw_only=True):
    """Wait until somebody decided about the approval that *claim_id* was refused for. Answer: whether it was heard of in time."""

    claim_id: str
    wait_s: float


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Append *event* in the background, waiting for nothing; also right after a cancellation. Answer: None."""

    event: Event


class Call:
    """Call the tool. Answer: its outcome, or `NotBegun`.

    A driver runs `check` in the very thread or task of the call, and then the function: nothing waits in between.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        check: Callable[[], str | None],
        operation: CurrentOperation,
        lease: Lease,
        late: "Callable[[CallOutcome | NotBegun], None]",
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.check = check
        self.operation = operation
        self.lease = lease
        self.late = late
        """Takes the outcome of a call that nobody waits for any more and that could not be stopped."""
        self.left_running = False
        """Set by the driver before it answers or raises: the call goes on, and `late` will be called when it ends."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Call a probe or verify *function*. Answer: what it returned, or None when it failed or took longer than *wait_s*."""

    function: Callable[..., Any]
    request: Any
    wait_s: float


class NotBegun(msgspec.Struct, frozen=True):
    """The check right before the call said no; nothing was called."""

    reason: str


Request: TypeAlias = Ask | Hear | Record | Post | Call | Look
