"""The view as services read it: current operations, by what is due. A view is late, never wrong: whoever acts on it appends an
event, and the fold refuses what came too late."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from landed.core.state import Operation


class DueOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation about which something is to be done."""

    tenant_id: str
    route: str
    group_id: str | None
    operation: Operation
    due_at_ms: int


class DueOperations(Protocol):
    """Operations by when something is to be done about them (`core.reconciliation.due_at_ms`)."""

    def due(self, *, now_ms: int, limit: int) -> Sequence[DueOperation]:
        """Operations due at *now_ms*, earliest first, at most *limit*, of all tenants that this service works for."""
        ...

    def next_due_ms(self) -> int | None:
        """When the next one is due, milliseconds since the epoch, UTC; None when none is."""
        ...
