"""What a route was, event by event, for as long as a decision that is still to come may have seen it. Pure.

A decision says how many events of its operation it had seen, not which ones of its group; and decisions that were on their way
when it was made stand before it on the log. So several states may be the one that it was made from, and it is explained where one
of them leads to it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from landed.core import events as ev
from landed.core.fold import empty_route, fold
from landed.core.projection import PROJECTOR
from landed.core.state import Route, is_settled

_KEPT_MAX: Final = 512
"""Moments of a route that are kept while something is open; a decision about older ones is not judged."""
_TRIED_MAX: Final = 16
"""Moments that a decision is tried at, beside the one of its claim."""


class State(NamedTuple):
    """A route as recorded, and as it would be under other contracts."""

    was: Route
    would: Route


class Moment(NamedTuple):
    offset: int
    said: tuple[ev.Entry, ev.Entry] | None
    """The event as recorded, and as it would be; None: before the first."""
    state: State


class Moments:
    """The history of one route."""

    def __init__(self, tenant_id: str, route: str) -> None:
        empty = empty_route(tenant_id, route)
        self._kept = [Moment(-1, None, State(empty, empty))]
        self.claims: dict[str, ev.Entry] = {}
        """Claims that are not decided, by id: as recorded."""

    @property
    def now(self) -> State:
        return self._kept[-1].state

    def add(self, entry: ev.Entry, would: ev.Entry, state: State) -> None:
        """*state* after *entry*, which *would* be said otherwise under other contracts."""
        self._kept.append(Moment(entry.position.offset, (entry, would), state))
        if len(self._kept) > _KEPT_MAX:
            del self._kept[: _KEPT_MAX // 2]

    def freeze(self, state: State) -> None:
        """A record that cannot be read froze what is now *state*."""
        self._kept.append(Moment(self._kept[-1].offset, None, state))

    def trim(self) -> None:
        """Forgets what no decision can rest on any more: nothing is asked, and every operation is settled."""
        if len(self._kept) > 1 and not self.claims:
            route = self.now.was
            if all(is_settled(one) and one.review is None for one in route.operations.values()):
                del self._kept[:-1]

    def seen_by(self, operation_id: str, version: int, *, since: int = -1) -> Iterator[State]:
        """States that a decision may have been made from, the likeliest first; others only where none has that many events.

        Args:
            version: accepted events of the operation that it had seen.
            since: offset that it had surely read.
        """
        others = []
        found = False
        for state in self._candidates(since):
            if state.was.operation(operation_id).version == version:
                found = True
                yield state
            else:
                others.append(state)
        if not found:
            yield from others

    def of_version(self, operation_id: str, version: int) -> Iterator[State]:
        """States in which the operation had *version* events, the newest first."""
        for moment in reversed(self._kept):
            if moment.state.was.operation(operation_id).version == version:
                yield moment.state

    def _candidates(self, since: int) -> Iterator[State]:
        first = next((n for n, one in enumerate(self._kept) if one.offset >= since), len(self._kept) - 1)
        newest = len(self._kept) - 1
        tried = [*range(newest, max(first, newest - _TRIED_MAX), -1), first]
        for number in dict.fromkeys(tried):
            state = self._kept[number].state
            ahead = state
            for later in self._kept[number + 1 :]:
                # What the projector had decided before was folded already, though it was not on the log yet.
                if later.said is not None and later.said[0].event.actor == PROJECTOR:
                    was = fold(ahead.was, later.said[0]).route
                    ahead = State(was, was if ahead.would is ahead.was else fold(ahead.would, later.said[1]).route)
            yield ahead
            if ahead is not state:
                yield state
