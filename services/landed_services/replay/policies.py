"""Which policies go with a part of a log, so that its decisions can be made again from that part alone. Pure.

Source: docs/semantics.md §5, §9.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.policy import AUTOMATIC, CEILING, COMPENSATION, EVERY, TOOL
from landed.core.state import POLICY_ROUTE
from landed_services.reading import Freezing, Item
from landed_services.replay.scope import RouteKey, Scope

_OF_ALL: Final = (TOOL + EVERY, CEILING + EVERY, AUTOMATIC, COMPENSATION)


def with_policies(scope: Scope, items: Iterable[Item]) -> Scope:
    """*scope* with the policies that hold for its tools and their effects, by the routes that they stand on.

    Args:
        scope: of some groups, or of those of one operation.
        items: the log, or of it what is in *scope*.
    """
    routes = set[RouteKey]()
    for item in items:
        what = item.what
        if not isinstance(what, ev.Entry | Freezing):
            continue
        event = what.event if isinstance(what, ev.Entry) else what
        if not scope.admits_route(event.tenant_id, event.route):
            continue
        routes.add((event.tenant_id, event.route))
        routes.update((event.tenant_id, POLICY_ROUTE + key) for key in _OF_ALL)
        if isinstance(event, ev.OperationPrepared):
            own = [TOOL + event.tool, *(TOOL + one for one in event.compensation), CEILING + (event.effect_type or "")]
            routes.update((event.tenant_id, POLICY_ROUTE + key) for key in own)
    # By routes alone: the group is one of them.
    return replace(scope, group=None, routes=frozenset(routes))


def without_policies(items: Iterable[Item]) -> Iterator[Item]:
    """*items* as they were before policies were put beside them."""
    for item in items:
        what = item.what
        if isinstance(what, ev.Entry | Freezing):
            route = what.event.route if isinstance(what, ev.Entry) else what.route
            if route.startswith(POLICY_ROUTE):
                continue
        yield item
