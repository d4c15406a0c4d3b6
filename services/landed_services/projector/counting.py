"""What ceilings count and what calls hold alone, as rows: of decisions, and of the same decisions when they come back.

A row is written in the transaction of its decision, so that no projector decides without it, and again when the log is folded,
so that a rebuild has the same rows. Source: docs/semantics.md §5, §9.
"""

from typing import Final

import msgspec

from landed.adapters.postgres.escaping import escaped
from landed.adapters.postgres.rows import Row
from landed.core import events as ev
from landed.core.fold import Folded
from landed.core.surge import Breaker, Opened, breaker_json

COUNTED: Final = (ev.DispatchGranted, ev.DispatchReleased, ev.BreakerChanged)
"""Events that may change what is counted."""


GRANT_COLUMNS: Final = {
    "tenant_id": "text",
    "route": "text",
    "operation_id": "text",
    "claim_id": "text",
    "attempt": "int8",
    "effect_type": "text",
    "decided_at_ms": "int8",
    "void": "bool",
}
"""Columns of `grants` in the order in which they are written."""

RESOURCE_COLUMNS: Final = {
    "tenant_id": "text",
    "resource": "text",
    "route": "text",
    "operation_id": "text",
    "claim_id": "text",
    "attempt": "int8",
    "decided_at_ms": "int8",
    "void": "bool",
}
"""Columns of `resources_taken` in the order in which they are written."""


class Counting:
    """Rows that one batch adds."""

    def __init__(self) -> None:
        self.grants: dict[tuple[str | None, ...], Row] = {}
        """By what tells rows apart."""
        self.resources: dict[tuple[str | None, ...], Row] = {}
        self.released: list[dict[str, str | None]] = []
        self.opened: dict[tuple[str, str], Row] = {}
        """By tenant and key: only the last of a batch is written."""
        self.told: list[Row] = []
        self.refusals: list[tuple[str, str, str | None, str | None]] = []
        """Tenant, key of the ceiling, tool and workflow type of each claim that was refused."""

    def folded(self, entry: ev.Entry, folded: Folded, *, has_rows: bool = False) -> None:
        """Takes what *entry* says.

        Args:
            has_rows: a grant whose rows were written with its decision: there is only more to say when it was refused.
        """
        event = entry.event
        if folded.repeated:
            return
        if isinstance(event, ev.DispatchGranted):
            operation = folded.route.operation(event.operation_id or "")
            # A second decision about a claim is refused; the first one stands.
            stands = folded.accepted or any(one.claim_id == event.claim_id for one in operation.attempts)
            if not (stands and has_rows):
                self.granted(event, operation.effect_type, void=not stands)
        elif isinstance(event, ev.DispatchReleased) and event.attempt is not None and folded.accepted:
            names = {"tenant_id": event.tenant_id, "route": event.route, "operation_id": event.operation_id}
            self.released.append({name: escaped(value) for name, value in (names | {"claim_id": event.claim_id}).items()})
        elif isinstance(event, ev.BreakerChanged):
            self.tell(event, entry.position.partition)

    def granted(self, event: ev.DispatchGranted, effect_type: str | None, *, void: bool = False) -> None:
        """Takes a grant, whether or not a ceiling counts it now: one that is set later counts what its window holds."""
        at_ms = event.decided_at_ms
        if at_ms is None:
            return
        tenant_id = escaped(event.tenant_id)
        names = (escaped(event.route), escaped(event.operation_id), escaped(event.claim_id))
        # The first decision about a claim stands; a second one says nothing new.
        self.grants.setdefault((tenant_id, *names), (tenant_id, *names, event.attempt, escaped(effect_type or ""), at_ms, void))
        for resource in event.resources:
            keys = (tenant_id, escaped(resource), *names)
            self.resources.setdefault(keys, (*keys, event.attempt, at_ms, void))

    def found_full(self, tenant_id: str, one: Opened, *, partition: int, route: str, now_ms: int) -> None:
        """A claim found no room.

        Args:
            partition: of the route of the policy.
            route: group of the claim.
        """
        key, resets = escaped(one.key), one.breaker.resets_at
        row = (escaped(tenant_id), key, partition, escaped(route), escaped(breaker_json(one.breaker)), now_ms, resets)
        self.opened[tenant_id, one.key] = row

    def tell(self, event: ev.BreakerChanged, partition: int) -> None:
        """The log is told of a breaker."""
        at_ms, new = event.decided_at_ms or 0, read_breaker(event.new)
        is_open = new is not None and new.state == "open"
        text, resets = escaped(event.new), None if new is None else new.resets_at
        names = (escaped(event.tenant_id), escaped(event.scope), partition, "")
        self.told.append((*names, text or "", at_ms if is_open else 0, resets, text, is_open, at_ms))


def read_breaker(text: str | None) -> Breaker | None:
    """The breaker of its JSON; None where there is none that can be read."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Breaker)
    except msgspec.MsgspecError:
        return None
