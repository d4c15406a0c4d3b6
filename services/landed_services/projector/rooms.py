"""Room in ceilings and free resources, for the claims of one turn: looked up under a lock, and counted on as claims are granted.

The lock of a ceiling, or of a resource, is held from the look-up to the commit of the decisions; whoever comes next sees them. So
with ceiling N exactly N are granted, whichever projectors decide. Source: docs/semantics.md §5, §9.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.containment import containment_id, listed
from landed.core.policy import CEILING, EVERY, Ceiling, Policies, policy_route
from landed.core.state import Operation
from landed.core.surge import Breaker, Counted, Used, is_of, room, standing

LOCK_SPACE: Final = 0x6C616E65
"""Of the advisory locks on ceilings and resources."""
LOCK_BUCKETS: Final = 1024
FORGET_AFTER_MS: Final = 3_600_000
"""Grants are kept for at least so long, whatever the windows: an hour is what a ceiling counts that is set now."""
FORGET_AT_ONCE: Final = 2_000
"""Grants that are forgotten in one transaction."""


class Window(NamedTuple):
    """What is counted for one ceiling: grants of a tenant, of one effect type or all, in one group or all."""

    tenant_id: str
    effect_type: str | None
    route: str | None
    per_s: int | None
    """None: operations underway at once."""
    limit: int


class Claimed(NamedTuple):
    """What a claim may need room for."""

    tenant_id: str
    route: str
    effect_type: str
    resources: tuple[str, ...]


def window(tenant_id: str, route: str, effect_type: str, key: str, ceiling: Ceiling) -> Window:
    """What *ceiling* counts for a claim of *effect_type* on *route*."""
    return Window(
        tenant_id=tenant_id,
        effect_type=None if key == CEILING + EVERY else effect_type,
        route=route if ceiling.scope == "group" else None,
        per_s=ceiling.per_s,
        limit=ceiling.limit,
    )


class Rooms:
    """What is used, as the tables say, and what this turn granted since.

    Args:
        used: of each window.
        underway: route and operation of what each window at once counts.
        holders: route and operation that hold each resource of a tenant.
    """

    def __init__(
        self,
        *,
        used: Mapping[Window, Used] = MappingProxyType({}),
        underway: Mapping[Window, set[tuple[str, str]]] = MappingProxyType({}),
        holders: Mapping[tuple[str, str], set[tuple[str, str]]] = MappingProxyType({}),
    ) -> None:
        self._used = dict(used)
        self._underway = {one: set(names) for one, names in underway.items()}
        self._holders = {one: set(names) for one, names in holders.items()}

    @property
    def tenants(self) -> frozenset[str]:
        """Tenants of whom anything is counted or held."""
        return frozenset([one.tenant_id for one in (*self._used, *self._underway)] + [one[0] for one in self._holders])

    def used(self, at: Window) -> Used:
        """What is used of a window that was looked up, as the tables say."""
        return Used(count=len(self._underway[at])) if at.per_s is None else self._used[at]

    def counted(
        self,
        ceilings: Mapping[str, tuple[Ceiling, ...]],
        *,
        tenant_id: str,
        route: str,
        operation: Operation,
        is_over: Callable[[str, str], bool],
    ) -> Counted | None:
        """What the ceilings say about a claim of *operation*; None: it was not looked up.

        Args:
            is_over: whether nothing of an operation is underway as the fold knows by now, which may be more than the tables do.
        """
        effect_type, mine = operation.effect_type or "", (route, operation.operation_id)

        def used(key: str, ceiling: Ceiling) -> Used:
            at = window(tenant_id, route, effect_type, key, ceiling)
            if ceiling.per_s is not None:
                return self._used[at]
            return Used(count=sum(one != mine and not is_over(*one) for one in self._underway[at]))

        try:
            return room(ceilings, used, effect_type=effect_type)
        except KeyError:
            return None

    def busy(self, *, tenant_id: str, route: str, operation: Operation, is_over: Callable[[str, str], bool]) -> dict[str, str]:
        """Operation that holds each resource which *operation* needs."""
        found = {}
        for resource in operation.resources:
            for one in sorted(self._holders.get((tenant_id, resource), ())):
                if one != (route, operation.operation_id) and not is_over(*one):
                    found[resource] = one[1]
        return found

    def knows(self, *, tenant_id: str, operation: Operation) -> bool:
        """Whether the resources of *operation* were looked up."""
        return all((tenant_id, resource) in self._holders for resource in operation.resources)

    def took(self, event: ev.DispatchGranted, effect_type: str, now_ms: int) -> None:
        """A claim of this turn was granted."""
        mine = (event.route, event.operation_id or "")
        for resource in event.resources:
            self._holders.setdefault((event.tenant_id, resource), set()).add(mine)
        for at, used in self._used.items():
            if _counts(at, event, effect_type):
                self._used[at] = Used(count=used.count + 1, frees_ms=now_ms if used.frees_ms is None else used.frees_ms)
        for at, names in self._underway.items():
            if _counts(at, event, effect_type):
                names.add(mine)


def _counts(at: Window, event: ev.DispatchGranted, effect_type: str) -> bool:
    return at.tenant_id == event.tenant_id and at.effect_type in (None, effect_type) and at.route in (None, event.route)


def look_up(connection: Any, claimed: Iterable[Claimed], policies: Mapping[str, Policies], *, now_ms: int) -> Rooms:
    """Locks the ceilings and resources of *claimed*, and reads what is used of them; nothing where none has any."""
    windows: dict[Window, None] = {}
    resources: dict[tuple[str, str], None] = {}
    locks: set[str] = set()
    for one in claimed:
        known = policies.get(one.tenant_id)
        for key, several in known.ceilings(one.effect_type).items() if known is not None else ():
            locks.add(f"{one.tenant_id}/{key}")
            windows |= dict.fromkeys(window(one.tenant_id, one.route, one.effect_type, key, each) for each in several)
        for resource in one.resources:
            locks.add(f"{one.tenant_id}//{resource}")
            resources[one.tenant_id, resource] = None
    if not locks:
        return Rooms()
    # In one order for all, so that two projectors never wait for each other.
    buckets = sorted({zlib.crc32(name.encode("utf-8", "surrogatepass")) % LOCK_BUCKETS for name in locks})
    connection.execute(statement("lock_ids"), {"space": LOCK_SPACE, "buckets": buckets}, binary=True)
    return read_rooms(connection, [*windows], [*resources], now_ms=now_ms)


def read_rooms(connection: Any, windows: list[Window], resources: list[tuple[str, str]] | None = None, *, now_ms: int) -> Rooms:
    """What is used of *windows* and *resources* at *now_ms*, the database's clock."""
    used: dict[Window, Used] = {}
    underway: dict[Window, set[tuple[str, str]]] = {one: set() for one in windows if one.per_s is None}
    of_type = [(n, one) for n, one in enumerate(windows) if one.per_s is not None and one.effect_type is not None]
    of_all = [(n, one) for n, one in enumerate(windows) if one.per_s is not None and one.effect_type is None]
    at_once = [(n, one) for n, one in enumerate(windows) if one.per_s is None]
    asked = [
        (kind, connection.execute(statement(kind), _parameters(some, now_ms, typed=kind != "grants_of_tenant"), binary=True))
        for kind, some in (("grants_of_type", of_type), ("grants_of_tenant", of_all), ("grants_underway", at_once))
        if some
    ]
    held = None
    if resources:
        names = {"tenant_ids": [escaped(one[0]) for one in resources], "resources": [escaped(one[1]) for one in resources]}
        held = connection.execute(statement("resources_held"), names, binary=True)
    for kind, answer in asked:
        for n, first, second in answer.fetchall():
            if kind == "grants_underway":
                underway[windows[n]].add((unescaped(first) or "", unescaped(second) or ""))
            else:
                used[windows[n]] = Used(count=first, frees_ms=second)
    holders: dict[tuple[str, str], set[tuple[str, str]]] = {one: set() for one in resources or ()}
    for tenant_id, resource, route, operation_id in held.fetchall() if held is not None else ():
        at = (unescaped(tenant_id) or "", unescaped(resource) or "")
        holders.setdefault(at, set()).add((unescaped(route) or "", unescaped(operation_id) or ""))
    return Rooms(used=used, underway=underway, holders=holders)


def _parameters(some: list[tuple[int, Window]], now_ms: int, *, typed: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": [n for n, _ in some],
        "tenant_ids": [escaped(one.tenant_id) for _, one in some],
        "routes": [escaped(one.route) for _, one in some],
        "since_ms": [now_ms - (one.per_s or 0) * 1000 for _, one in some],
        "most": [one.limit for _, one in some],
    }
    if typed:
        found["effect_types"] = [escaped(one.effect_type) for _, one in some]
    return found


# ---- what the log is told ------------------------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker of which the log may have to be told."""

    tenant_id: str
    key: str
    partition: int
    route: str
    breaker: str
    refused_at_ms: int
    """When a claim found no room last, by the database's clock."""
    told: str | None
    told_open: bool


def breakers_to_tell(connection: Any, partitions: list[int]) -> list[Told]:
    """Breakers whose policies stand on *partitions* that opened since the log was told, and those that may have closed."""
    rows = connection.execute(statement("breakers_to_tell"), {"partitions": partitions}, binary=True).fetchall()
    return [
        Told(
            tenant_id=unescaped(tenant_id) or "",
            key=unescaped(key) or "",
            partition=partition,
            route=unescaped(route) or "",
            breaker=unescaped(breaker) or "",
            refused_at_ms=refused_at_ms,
            told=unescaped(told),
            told_open=told_open,
        )
        for tenant_id, key, partition, route, breaker, refused_at_ms, _, told, told_open in rows
    ]


def breaker_event(one: Told, policies: Policies, connection: Any, *, now_ms: int) -> ev.BreakerChanged | None:
    """What the log is told about *one* at *now_ms*; None: nothing changed."""
    new = one.breaker if not one.told_open else closed(one, policies, connection, now_ms=now_ms)
    if new is None:
        return None
    contained = None if one.told_open else got_through(one, policies, connection)
    return ev.BreakerChanged(
        event_id="",
        tenant_id=one.tenant_id,
        route=policy_route(one.key),
        actor="projector",
        seen_version=policies.versions.get(one.key, 0),
        policy_version=policies.version(one.key),
        scope=one.key,
        old=one.told,
        new=new,
        who="projector",
        decided_at_ms=now_ms,
        containment=None if contained is None else containment_id(one.key, now_ms),
        contained=listed(contained or ()),
        contained_count=len(contained or ()),
    )


def got_through(one: Told, policies: Policies, connection: Any) -> list[ev.Contained] | None:
    """What the ceiling that opened *one* had granted, the newest first; None where it does not say `contain`."""
    was, effect_type = msgspec.json.decode(one.breaker, type=Breaker), one.key[len(CEILING) :]
    ceilings = policies.ceilings(effect_type).get(one.key, ())
    opened = next((each for each in ceilings if each.contain and (each.limit, each.action) == (was.threshold, was.action)), None)
    if opened is None:
        return None
    names = {
        "tenant_id": escaped(one.tenant_id),
        "effect_type": None if effect_type == EVERY else escaped(effect_type),
        "since_ms": None if opened.per_s is None else one.refused_at_ms - opened.per_s * 1000,
    }
    rows = connection.execute(statement("grants_contained"), names, binary=True).fetchall()
    return [
        ev.Contained(route=unescaped(route) or "", operation_id=unescaped(operation_id) or "", group_id=unescaped(group_id))
        for route, operation_id, group_id in rows
    ]


def closed(one: Told, policies: Policies, connection: Any, *, now_ms: int) -> str | None:
    """The breaker of *one*, where all ceilings of its key have room again; None where one has not."""
    effect_type, was = one.key[len(CEILING) :], msgspec.json.decode(one.breaker, type=Breaker)
    ceilings = policies.ceilings(effect_type).get(one.key, ())
    if was.resets_at is not None and now_ms < was.resets_at and any(is_of(was, each) for each in ceilings):
        return None  # the ceiling that opened it stands as it was: there is no need to count
    at = {each: window(one.tenant_id, one.route, effect_type, one.key, each) for each in ceilings}
    rooms = read_rooms(connection, [*dict.fromkeys(at.values())], now_ms=now_ms)
    found = rooms.counted(
        {one.key: ceilings},
        tenant_id=one.tenant_id,
        route=one.route,
        operation=Operation(operation_id="", effect_type=effect_type),
        is_over=lambda route, operation_id: False,
    )
    if found is None or found.opened:
        return None
    if not found.counts:
        return msgspec.json.encode(msgspec.structs.replace(was, state="closed", resets_at=None, reason="no ceiling")).decode()
    fits = [(each, count) for each, count in zip(ceilings, found.counts, strict=True) if each.limit == was.threshold]
    each, count = fits[0] if fits else (ceilings[0], found.counts[0])
    return msgspec.json.encode(standing(was.effect_type, each, Used(count=count.observed))).decode()


def forget_grants(connection: Any, tenant_id: str, effect_type: str, *, before_ms: int, most: int = FORGET_AT_ONCE) -> None:
    """Forgets the oldest grants of *effect_type* that were decided before and are over, at most so many."""
    names = {"tenant_id": escaped(tenant_id), "effect_type": escaped(effect_type), "before_ms": before_ms, "most": most}
    connection.execute(statement("forget_grants"), names)


def forget_resources(connection: Any, tenant_id: str, *, before_ms: int) -> None:
    """Forgets resources that were taken before and given back."""
    connection.execute(statement("forget_resources"), {"tenant_id": escaped(tenant_id), "before_ms": before_ms})


def longest_window_ms(policies: Policies) -> int:
    """How far back the ceilings of a tenant look."""
    windows = [
        each.per_s or 0
        for value in policies.values.values()
        if isinstance(value, tuple)
        for each in value
        if isinstance(each, Ceiling)
    ]
    return max([FORGET_AFTER_MS, *(one * 1000 for one in windows)])


NO_ROOMS: Final = Rooms()
