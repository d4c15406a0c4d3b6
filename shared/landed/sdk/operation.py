"""What a tool may ask about the operation that it is called for."""

import time
from contextvars import ContextVar

from landed.sdk.errors import NoOperation
from landed.sdk.leases import Lease
from landed.sdk.token import Execute


class CurrentOperation:
    """The operation under way in this context: pass `id` to the provider, and `attempt` where it takes a fencing token."""

    __slots__ = ("_lease", "_token", "provider_request_id", "response_status")

    def __init__(self, token: Execute, lease: Lease) -> None:
        self._token = token
        self._lease = lease
        self.provider_request_id: str | None = None
        self.response_status: str | None = None

    @property
    def id(self) -> str:
        """The operation id: the provider's key or reference for this effect."""
        return self._token.operation_id

    @property
    def attempt(self) -> int:
        """Number of this attempt, rising: a fencing token."""
        return self._token.attempt

    @property
    def tenant_id(self) -> str:
        return self._token.tenant_id

    @property
    def group_id(self) -> str | None:
        return self._token.group_id

    @property
    def deadline(self) -> float:
        """End of the lease as `time.monotonic` counts, in seconds; it moves while the lease is renewed."""
        return time.monotonic() + self.remaining()

    def remaining(self) -> float:
        """Seconds until `deadline`, never negative: the longest time limit that a request should have."""
        return max(0.0, self._lease.remaining_s())

    def note(self, *, request_id: str | None = None, response_status: str | int | None = None) -> None:
        """Has the provider's request id and status of its answer recorded with this attempt."""
        if request_id is not None:
            self.provider_request_id = request_id
        if response_status is not None:
            self.response_status = str(response_status)


CURRENT: ContextVar[CurrentOperation | None] = ContextVar("landed_current_operation", default=None)


def current_operation() -> CurrentOperation:
    """The operation that a ledger calls the present tool for.

    Raises:
        NoOperation: outside a tool that a ledger calls.
    """
    found = CURRENT.get()
    if found is None:
        raise NoOperation("current_operation() is known only inside a tool that a ledger calls")
    return found
