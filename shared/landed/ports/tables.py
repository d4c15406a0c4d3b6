"""The view as services read it: current operations, by what is due. A view is late, never wrong: whoever acts on it appends an
event, and the fold refuses what came too late."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from landed.core.state import Operation
from landed.core.vocabulary import GroupState


class DueOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation about which something is to be done."""

    tenant_id: str
    route: str
    group_id: str | None
    group_state: GroupState = GroupState.NONE
    operation: Operation
    forward: Operation | None = None
    """Of an inverse: the operation that it undoes."""
    due_at_ms: int
    place: tuple[object, ...] = ()
    """Where it stands in the order of what is due: `after` of the next page."""


class DueOperations(Protocol):
    """Operations by when something is to be done about them (`core.reconciliation.due_at_ms`)."""

    def due(
        self, *, now_ms: int, limit: int, after: Sequence[object] | None = None, closed_tools: Collection[str] = ()
    ) -> Sequence[DueOperation]:
        """Operations due at *now_ms*, in the order of `core.reconciliation.priority`, at most *limit*, of all tenants and
        partitions that this service works for.

        Args:
            after: `place` of the last operation of the page before; None: from the beginning.
            closed_tools: of these tools only leases that ran out are wanted.
        """
        ...

    def next_due_ms(self) -> int | None:
        """When the next one is due, milliseconds since the epoch, UTC; None when none is."""
        ...


class ProviderBudgets(Protocol):
    """Tokens of providers, shared by all reconcilers: each is good for one call."""

    def take(self, provider: str, *, wanted: int, per_second: float) -> int:
        """Tokens that were taken, 0 to *wanted*; so many a second come back, and at most a second's worth is kept."""
        ...

    def pause(self, provider: str, *, seconds: float, per_second: float) -> None:
        """Gives no token of *provider* for *seconds*."""
        ...
