"""Ceilings: how many grants count against a claim, and the breaker that refuses it. Pure; whoever decides hands the grants in.

Source: docs/semantics.md §9.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from landed.core.events import CeilingCount
from landed.core.policy import Ceiling
from landed.core.state import Operation

_NO_CEILINGS: Final[Mapping[str, tuple[Ceiling, ...]]] = {}


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant that ceilings count."""

    tenant_id: str
    route: str
    operation_id: str
    attempt: int
    effect_type: str
    at_ms: int


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What the ceilings say about one claim."""

    counts: tuple[CeilingCount, ...] = ()
    """Every ceiling that a grant is counted in, with what was observed before it."""
    breaker: str | None = None
    """JSON of the breaker of the first ceiling that has no room; None: there is room in all."""


def counted(
    ceilings: Mapping[str, tuple[Ceiling, ...]],
    grants: Iterable[Grant],
    *,
    operation: Operation,
    tenant_id: str,
    route: str,
    now_ms: int,
    settled: Callable[[Grant], bool],
) -> Counted:
    """Room for a claim of *operation* at *now_ms* (the database's clock) in all ceilings that apply: in all or in none.

    Args:
        ceilings: by key of their policy, `ceiling:<effect type>` or `ceiling:*`.
        settled: whether the operation of a grant is settled, or the grant was released: for ceilings `at_once`.
    """
    if not ceilings:
        return Counted()
    mine = [grant for grant in grants if grant.tenant_id == tenant_id]
    counts: list[CeilingCount] = []
    for key, several in ceilings.items():
        of_type = mine if key.endswith(":*") else [grant for grant in mine if grant.effect_type == operation.effect_type]
        for ceiling in several:
            in_scope = of_type if ceiling.scope == "tenant" else [grant for grant in of_type if grant.route == route]
            used = _used(ceiling, in_scope, now_ms, settled)
            if len(used) >= ceiling.limit and ceiling.action == "deny":
                return Counted(breaker=_breaker(operation.effect_type or "", ceiling, used, now_ms))
            counts.append(CeilingCount(key=key, window_s=ceiling.per_s or 0, limit=ceiling.limit, observed=len(used)))
    return Counted(counts=tuple(counts))


def _used(ceiling: Ceiling, grants: list[Grant], now_ms: int, settled: Callable[[Grant], bool]) -> list[Grant]:
    if ceiling.per_s is None:
        return [grant for grant in grants if not settled(grant)]
    since_ms = now_ms - ceiling.per_s * 1000
    return [grant for grant in grants if grant.at_ms > since_ms]


def _breaker(effect_type: str, ceiling: Ceiling, used: list[Grant], now_ms: int) -> str:
    window_ms = None if ceiling.per_s is None else ceiling.per_s * 1000
    # The next is granted when the oldest of the last `limit` leaves the window.
    resets = None if window_ms is None or not ceiling.limit else sorted(grant.at_ms for grant in used)[-ceiling.limit] + window_ms
    reason = f"{len(used) + 1} of {ceiling.limit} " + ("at once" if window_ms is None else f"within {ceiling.per_s} s")
    said = {
        "effect_type": effect_type,
        "state": "open",
        "action": ceiling.action,
        "resets_at": resets,
        "observed": len(used) + 1,
        "threshold": ceiling.limit,
        "reason": reason,
    }
    return msgspec.json.encode(said).decode()
