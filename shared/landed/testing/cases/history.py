"""How states came about: the log of a case folded again, step by step."""

from collections.abc import Iterator

import msgspec

from landed.core.events import Entry
from landed.core.fold import empty_route, fold
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState
from landed.testing.cases.world import Known, World


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A route right after one entry of the log."""

    at_s: float
    entry: Entry
    route: Route


def moments(world: World) -> Iterator[Moment]:
    """Every entry of the log in order, with its route after it."""
    routes: dict[tuple[str, str], Route] = {}
    for entry in world.ledger.entries():
        event = entry.event
        key = (event.tenant_id, event.route)
        routes[key] = fold(routes.get(key) or empty_route(*key), entry).route
        yield Moment(at_s=(entry.at_ms - world.timeline.epoch_ms) / 1000, entry=entry, route=routes[key])


def states_of(world: World, known: Known) -> list[Operation]:
    """The operation after each entry of its route."""
    return [
        moment.route.operation(known.operation_id)
        for moment in moments(world)
        if (moment.route.tenant_id, moment.route.route) == (known.tenant_id, known.route)
    ]


def group_states_of(world: World, group: str) -> list[GroupState]:
    return [moment.route.group_state for moment in moments(world) if moment.route.route == group]
