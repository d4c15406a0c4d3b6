"""What of a log is asked for: whose operations, which of them, and up to where. Pure.

A route is always folded from its first event, since a state is the sum of all that came before it: a range narrows what is shown,
and where reading ends, never where folding begins.
"""

import msgspec

from landed.core.state import POLICY_ROUTE
from landed.wire.errors import DecodeError
from landed.wire.keys import RecordKey, parse_key
from landed.wire.partition import partition_for

RouteKey = tuple[str, str]
"""Tenant and route."""


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the log: everything up to and with an append time, or an offset of one partition."""

    at_ms: int | None = None
    """Append time, milliseconds since the epoch, UTC."""
    partition: int | None = None
    """With `offset`: other partitions are not cut."""
    offset: int | None = None

    def covers(self, at_ms: int, partition: int, offset: int) -> bool:
        """Whether the record at that place lies at or before the cut."""
        if self.at_ms is not None and at_ms > self.at_ms:
            return False
        return self.offset is None or partition != self.partition or offset <= self.offset


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are shown. What is None does not narrow."""

    tenant_id: str | None = None
    group: str | None = None
    operation_id: str | None = None
    tool: str | None = None
    routes: frozenset[RouteKey] | None = None
    """Only these: where an operation was found, whose id alone does not say its route."""
    first: Cut | None = None
    """Only events from there on are shown."""
    policies: bool = False
    """The policies of the tenants too, whatever is narrowed: decisions were made under them."""
    within: dict[int, tuple[int, int, int]] | None = None
    """Where all that is in scope lies, when that is known: of each partition the first offset, the one behind the last, and the
    one from which on it is not known."""
    until: Cut | None = None
    """Nothing behind it is read: the end of the story as it was known there."""

    def partitions(self, partitions: int) -> list[int]:
        """Those that can hold what is in scope."""
        if self.policies:
            return list(range(partitions))
        if self.tenant_id is not None and self.group is not None:
            return [partition_for(self.tenant_id, self.group, partitions)]
        if self.routes is not None:
            return sorted({partition_for(*route, partitions) for route in self.routes})
        return list(range(partitions))

    def admits_key(self, key: bytes | None) -> bool:
        """Whether a record under *key* can belong to a route in scope. Looks at nothing else, and so costs little."""
        if self.is_open and self.routes is None:
            return True
        parts = _parts(key)
        if parts is None or not parts.route:
            return self.is_open
        return self.admits_route(parts.tenant_id, parts.route)

    def admits_route(self, tenant_id: str, route: str) -> bool:
        if self.policies and route.startswith(POLICY_ROUTE):
            return self.tenant_id in (None, tenant_id)
        if self.routes is not None and (tenant_id, route) not in self.routes:
            return False
        return self.tenant_id in (None, tenant_id) and self.group in (None, route)

    def begins_operation(self, key: bytes | None) -> tuple[str, RouteKey] | None:
        """Operation and route of a record under *key*, where that operation begins as the one that is asked for."""
        parts = _parts(key)
        if parts is None or parts.operation_id is None or not parts.operation_id.startswith(self.operation_id or ""):
            return None
        route = parts.tenant_id, parts.route
        return (parts.operation_id, route) if self.admits_route(*route) else None

    def route_of(self, key: bytes | None) -> RouteKey | None:
        """Route of a record under *key*, where that is in scope."""
        parts = _parts(key)
        if parts is None or not parts.route or not self.admits_route(parts.tenant_id, parts.route):
            return None
        return parts.tenant_id, parts.route

    @property
    def is_open(self) -> bool:
        """Whether the whole log is in scope."""
        return self.tenant_id is None and self.group is None and self.operation_id is None and self.tool is None

    def shows(self, at_ms: int, partition: int, offset: int) -> bool:
        """Whether an event at that place is shown."""
        first = self.first
        if first is None:
            return True
        if first.at_ms is not None and at_ms < first.at_ms:
            return False
        return first.offset is None or partition != first.partition or offset >= first.offset

    def reads(self, at_ms: int, partition: int, offset: int) -> bool:
        """Whether an event at that place belongs to the story."""
        return self.until is None or self.until.covers(at_ms, partition, offset)


def _parts(key: bytes | None) -> RecordKey | None:
    try:
        return parse_key(key) if key else None
    except DecodeError:
        return None
