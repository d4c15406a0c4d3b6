"""Ceilings of a tenant with their breakers as they stand now (semantics.md §9). Presentation-free."""

from collections.abc import Iterator
from typing import Any

import msgspec

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement
from landed.core.policy import CEILING, Ceiling, policies_of
from landed.core.surge import Breaker, Used, standing
from landed_services.projector.counting import read_breaker
from landed_services.projector.rooms import read_rooms, window
from landed_services.queries.containment import containments
from landed_services.queries.groups import now_ms_of
from landed_services.queries.policies import policy_routes


class BreakerShown(Breaker, frozen=True, kw_only=True):
    """The breaker of one ceiling, with where it is set."""

    key: str
    """Key of its policy."""
    per_s: int | None
    """Length of the window; None: operations underway at once."""
    scope: str
    """Counted over the tenant or in each group; of a group's the one that was refused last is shown."""
    refused_at: int | None
    """When a claim found no room last (milliseconds, UTC); None: never."""
    containment: str | None
    """Group that holds what got through before it opened last, where a ceiling says `contain`."""


def breakers(connection: Any, tenant_id: str) -> list[BreakerShown]:
    """The breakers of all ceilings that *tenant_id* has now: open while the next claim would find no room after one did not."""
    now_ms = now_ms_of(connection)
    rows = connection.execute(statement("breakers_of_tenant"), {"tenant_id": escaped(tenant_id)}).fetchall()
    last = {unescaped(key): (unescaped(route) or "", read_breaker(unescaped(text)), at_ms) for key, route, text, at_ms, _ in rows}
    ceilings = list(_ceilings(policies_of(policy_routes(connection, tenant_id)).values))
    at = [window(tenant_id, last.get(key, ("", None, 0))[0], key[len(CEILING) :], key, ceiling) for key, ceiling in ceilings]
    rooms = read_rooms(connection, list(dict.fromkeys(at)), now_ms=now_ms)
    contain = any(ceiling.contain for _, ceiling in ceilings)
    held: dict[str, str | None] = {}
    for one in containments(connection, tenant_id) if contain else ():
        held.setdefault(one.scope, one.containment)
    return [
        _shown(key, ceiling, rooms.used(where), last.get(key), held.get(key) if ceiling.contain else None)
        for (key, ceiling), where in zip(ceilings, at, strict=True)
    ]


def _ceilings(values: Any) -> Iterator[tuple[str, Ceiling]]:
    for key, value in sorted(values.items()):
        if key.startswith(CEILING):
            yield from ((key, one) for one in value if isinstance(one, Ceiling))


def _shown(
    key: str, ceiling: Ceiling, used: Used, last: tuple[str, Breaker | None, int] | None, containment: str | None
) -> BreakerShown:
    kind = key[len(CEILING) :]
    refused = last[1] if last is not None else None
    full = used.count >= ceiling.limit and refused is not None and refused.threshold == ceiling.limit
    frees_ms = None
    if used.frees_ms is not None and ceiling.per_s is not None and ceiling.limit:
        # A ceiling of nothing never has room again, whatever its window holds of the time before it was set.
        frees_ms = used.frees_ms + ceiling.per_s * 1000
    one = standing(kind, ceiling, used)
    if full:
        one = msgspec.structs.replace(
            one, state="open", observed=used.count + 1, resets_at=frees_ms, reason=refused.reason if refused is not None else ""
        )
    return BreakerShown(
        **msgspec.structs.asdict(one),
        key=key,
        per_s=ceiling.per_s,
        scope=ceiling.scope,
        refused_at=None if last is None else last[2],
        containment=containment,
    )


__all__ = ["BreakerShown", "breakers"]
