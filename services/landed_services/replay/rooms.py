"""What is used of ceilings, and who holds resources, counted from a log in the order in which it is read. Pure.

A grant of an operation that would have gone another way before is a possible one only: with and without it may be another answer,
and then nothing can be said.
"""

from bisect import bisect_right, insort

import msgspec

from landed.core import events as ev
from landed.core.policy import CEILING, EVERY, Ceiling, Policies
from landed.core.state import Operation, Route, is_settled
from landed.core.surge import Used, room
from landed_services.replay.scope import RouteKey

UNKNOWN_ROOM = "what is used of a ceiling rests on operations that would have gone another way before"
UNREAD_ROOM = "what other groups use of a ceiling or a resource is not read"
CUT_ROOM = "what was granted before the first record of the log counts in a ceiling"
_Counts = tuple[str, str | None, str | None]
"""Tenant; effect type or all; route or all."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What ceilings and resources say about one claim."""

    breaker: str | None = None
    holders: dict[str, str] = {}
    unknown: str = ""
    """Why it cannot be said."""


class _Open(msgspec.Struct, frozen=True):
    effect_type: str
    resources: tuple[str, ...]
    sure: bool


class Rooms:
    """Counts grants and what is underway."""

    def __init__(self) -> None:
        self._sure: dict[_Counts, list[int]] = {}
        self._possible: dict[_Counts, list[int]] = {}
        self._open: dict[str, dict[tuple[str, str], _Open]] = {}
        self._from_ms: int | None = None

    def begins(self, at_ms: int) -> None:
        """What was granted before *at_ms* is not on the log that is read."""
        self._from_ms = at_ms if self._from_ms is None else min(self._from_ms, at_ms)

    def granted(self, route: Route, operation: Operation, at_ms: int, *, sure: bool) -> None:
        """A claim of *operation* was granted, or would be."""
        effect_type = operation.effect_type or ""
        counts = self._sure if sure else self._possible
        for kind in (None, effect_type):
            for name in (None, route.route):
                insort(counts.setdefault((route.tenant_id, kind, name), []), at_ms)
        here = self._open.setdefault(route.tenant_id, {})
        here[route.route, operation.operation_id] = _Open(effect_type, operation.resources, sure)

    def over(self, route: Route, operation: Operation) -> None:
        """Nothing of *operation* is underway any more, as recorded."""
        self._open.get(route.tenant_id, {}).pop((route.route, operation.operation_id), None)

    def unknown_from_here(self, key: RouteKey, operation_id: str) -> None:
        """What *operation_id* has underway may or may not be."""
        here = self._open.get(key[0], {})
        one = here.get((key[1], operation_id))
        if one is not None:
            here[key[1], operation_id] = msgspec.structs.replace(one, sure=False)

    def room(self, policies: Policies, route: Route, operation: Operation, *, now_ms: int, whole: bool) -> Room:
        """Room for a claim of *operation* at *now_ms*.

        Args:
            whole: whether all of the tenant is read.
        """
        effect_type = operation.effect_type or ""
        ceilings = policies.ceilings(effect_type)
        shared = [one for several in ceilings.values() for one in several if one.scope == "tenant"]
        if not whole and (shared or operation.resources):
            return Room(unknown=UNREAD_ROOM)
        found = []
        for possible in (False, True):

            def used(key: str, ceiling: Ceiling, possible: bool = possible) -> Used:
                return self._used(key, ceiling, route, operation, now_ms, possible=possible)

            breaker = room(ceilings, used, effect_type=effect_type).breaker
            found.append((breaker, self._holders(route, operation, possible=possible)))
        least, most = found
        if (least[0] is None) != (most[0] is None) or bool(least[1]) != bool(most[1]):
            return Room(unknown=UNKNOWN_ROOM)
        if least[0] is None and any(self._is_cut(one, now_ms) for several in ceilings.values() for one in several):
            return Room(unknown=CUT_ROOM)
        return Room(breaker=least[0], holders=least[1])

    def _is_cut(self, ceiling: Ceiling, now_ms: int) -> bool:
        """Whether its window reaches back before the log."""
        if self._from_ms is None or ceiling.action != "deny":
            return False
        return ceiling.per_s is None or now_ms - ceiling.per_s * 1000 < self._from_ms

    def _used(self, key: str, ceiling: Ceiling, route: Route, operation: Operation, now_ms: int, *, possible: bool) -> Used:
        kind = None if key == CEILING + EVERY else operation.effect_type or ""
        name = route.route if ceiling.scope == "group" else None
        if ceiling.per_s is None:
            mine = (route.route, operation.operation_id)
            here = self._open.get(route.tenant_id, {})
            return Used(
                count=sum(
                    at != mine and kind in (None, one.effect_type) and name in (None, at[0]) and (possible or one.sure)
                    for at, one in here.items()
                )
            )
        counts = (route.tenant_id, kind, name)
        since_ms = now_ms - ceiling.per_s * 1000
        of = (self._sure, self._possible) if possible else (self._sure,)
        times = [times for one in of if (times := one.get(counts))]
        number = sum(len(some) - bisect_right(some, since_ms) for some in times)
        return Used(count=number)

    def _holders(self, route: Route, operation: Operation, *, possible: bool) -> dict[str, str]:
        held: dict[str, str] = {}
        if not operation.resources:
            return held
        mine = (route.route, operation.operation_id)
        for at, one in self._open.get(route.tenant_id, {}).items():
            if at != mine and (possible or one.sure):
                held |= {resource: at[1] for resource in one.resources if resource in operation.resources}
        return held

    def follow(self, event: ev.Event, route: Route, *, sure: bool, at_ms: int) -> None:
        """What an accepted *event* did to them; *route* is after it."""
        if event.operation_id is None:
            return
        operation = route.operation(event.operation_id)
        if isinstance(event, ev.DispatchGranted):
            self.granted(route, operation, event.decided_at_ms or at_ms, sure=sure)
        elif is_settled(operation) or (operation.last is not None and operation.last.released):
            self.over(route, operation)
