"""Ceilings: how many grants count against a claim, and the breaker that refuses it. Pure; whoever decides hands the grants in.

Source: docs/semantics.md §9.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from landed.core.events import CeilingCount
from landed.core.policy import CEILING, EVERY, Ceiling
from landed.core.state import Operation


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant that ceilings count, whether or not there was one when it was decided."""

    tenant_id: str
    route: str
    operation_id: str
    attempt: int
    effect_type: str
    at_ms: int
    void: bool = False
    """Refused by the fold: it keeps its room in a window, and nothing of it is underway."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What of a ceiling is used before a claim."""

    count: int = 0
    """Grants in the window; for `at_once` the other operations that are not settled."""
    frees_ms: int | None = None
    """When the oldest of the last `limit` of them was granted: then the next finds room. None for `at_once` or none."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling as people see it (§9)."""

    effect_type: str
    state: Literal["open", "closed"]
    action: Literal["deny", "observe"]
    resets_at: int | None
    """When the next would be granted (milliseconds, UTC); None: when an operation is settled, or never with a limit of 0."""
    observed: int
    """Grants in the window, and the first claim that was refused."""
    threshold: int
    reason: str


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling that a claim found without room."""

    key: str
    breaker: Breaker


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What the ceilings say about one claim."""

    counts: tuple[CeilingCount, ...] = ()
    """Every ceiling that a grant is counted in, with what was observed before it."""
    breaker: str | None = None
    """JSON of the breaker of the first ceiling that has no room; None: there is room in all, or those without it only observe."""
    opened: tuple[Opened, ...] = ()
    """Ceilings without room, those that only observe too."""


_ROOM: Final = Counted()


def room(ceilings: Mapping[str, tuple[Ceiling, ...]], used: Callable[[str, Ceiling], Used], *, effect_type: str) -> Counted:
    """Room for a claim of *effect_type* in all *ceilings* that apply: in all or in none.

    Args:
        ceilings: by key of their policy, `ceiling:<effect type>` or `ceiling:*`.
        used: what is used of a ceiling of that key.
    """
    if not ceilings:
        return _ROOM
    counts: list[CeilingCount] = []
    opened: list[Opened] = []
    for key, several in ceilings.items():
        for ceiling in several:
            now = used(key, ceiling)
            counts.append(CeilingCount(key=key, window_s=ceiling.per_s or 0, limit=ceiling.limit, observed=now.count))
            if now.count >= ceiling.limit:
                opened.append(Opened(key=key, breaker=_breaker(effect_type, ceiling, now)))
    refusing = next((one for one in opened if one.breaker.action == "deny"), None)
    return Counted(
        counts=tuple(counts), breaker=None if refusing is None else breaker_json(refusing.breaker), opened=tuple(opened)
    )


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
    """Room for a claim of *operation* at *now_ms* (the database's clock) where all *grants* are at hand.

    Args:
        settled: whether the operation of a grant is settled, or the grant was released: for ceilings `at_once`.
    """
    if not ceilings:
        return _ROOM
    mine = [grant for grant in grants if grant.tenant_id == tenant_id]

    def used(key: str, ceiling: Ceiling) -> Used:
        of_type = mine if key == CEILING + EVERY else [grant for grant in mine if grant.effect_type == operation.effect_type]
        in_scope = of_type if ceiling.scope == "tenant" else [grant for grant in of_type if grant.route == route]
        if ceiling.per_s is None:
            # A replay is of an operation that is counted already.
            names = {(grant.route, grant.operation_id) for grant in in_scope if not settled(grant)}
            return Used(count=len(names - {(route, operation.operation_id)}))
        since_ms = now_ms - ceiling.per_s * 1000
        times = sorted(grant.at_ms for grant in in_scope if grant.at_ms > since_ms)
        return Used(count=len(times), frees_ms=times[-min(len(times), ceiling.limit or 1)] if times else None)

    return room(ceilings, used, effect_type=operation.effect_type or "")


def standing(effect_type: str, ceiling: Ceiling, used: Used) -> Breaker:
    """The breaker of *ceiling* while nobody is refused by it."""
    reason = f"{used.count} of {ceiling.limit} {_window(ceiling)}"
    return Breaker(
        effect_type=effect_type,
        state="closed",
        action=ceiling.action,
        resets_at=None,
        observed=used.count,
        threshold=ceiling.limit,
        reason=reason,
    )


def is_of(breaker: Breaker, ceiling: Ceiling) -> bool:
    """Whether *breaker* is one of *ceiling* as it is now."""
    same = (breaker.threshold, breaker.action) == (ceiling.limit, ceiling.action)
    return same and breaker.reason.endswith(_window(ceiling))


def breaker_json(breaker: Breaker) -> str:
    """*breaker* as it stands on the log and in a refusal."""
    return msgspec.json.encode(breaker).decode()


def _breaker(effect_type: str, ceiling: Ceiling, used: Used) -> Breaker:
    # The next is granted when the oldest of the last `limit` leaves the window.
    resets_at = None
    if ceiling.per_s is not None and ceiling.limit and used.frees_ms is not None:
        resets_at = used.frees_ms + ceiling.per_s * 1000
    return Breaker(
        effect_type=effect_type,
        state="open",
        action=ceiling.action,
        resets_at=resets_at,
        observed=used.count + 1,
        threshold=ceiling.limit,
        reason=f"{used.count + 1} of {ceiling.limit} {_window(ceiling)}",
    )


def _window(ceiling: Ceiling) -> str:
    return "at once" if ceiling.per_s is None else f"within {ceiling.per_s} s"


__all__ = ["Breaker", "Counted", "Grant", "Opened", "Used", "breaker_json", "counted", "is_of", "room", "standing"]
