"""Containments: what got through before a breaker opened, as people ask for it (semantics.md §9). Presentation-free."""

from collections.abc import Iterator
from typing import Any

import msgspec

from landed.adapters.postgres.routes import load_routes
from landed.core.containment import CONTAINMENT, alone, apart, plan_of_all, state_of
from landed.core.events import BreakerChanged
from landed.core.group_summary import answers
from landed.core.plan import Plan, plan
from landed.core.policy import policies_of
from landed.core.state import Route
from landed_services.queries.groups import Group, GroupShown, group_named, now_ms_of, only
from landed_services.queries.operations import entries
from landed_services.queries.policies import policy_routes


class Contained(msgspec.Struct, frozen=True, kw_only=True):
    """A containment, with its members as the tables hold them."""

    tenant_id: str
    opened: BreakerChanged
    routes: tuple[Route, ...]
    """Members that are groups of their own."""
    now_ms: int
    """The database's clock."""


def containments(connection: Any, tenant_id: str) -> Iterator[BreakerChanged]:
    """What the log was told of breakers of *tenant_id* that opened under a ceiling with `contain`, the newest first."""
    for entry, _, _ in entries(connection, "containments", {"tenant_id": tenant_id}):
        if isinstance(entry.event, BreakerChanged) and entry.event.containment is not None:
            yield entry.event


def named(connection: Any, tenant_id: str, name: str) -> Group | Contained:
    """The group, operation without one, or containment whose id is *name* or is the only one that begins so.

    Raises:
        NotThere: none of the tenant fits, or several do.
    """
    if name.startswith(CONTAINMENT):
        known = {one.containment or "": one for one in containments(connection, tenant_id)}
        fitting = sorted(one for one in known if one.startswith(name))
        if fitting:
            return contained(connection, tenant_id, known[only(fitting, name, "")])
    return group_named(connection, tenant_id, name)


def contained(connection: Any, tenant_id: str, opened: BreakerChanged) -> Contained:
    """*opened* with its members as they are now."""
    keys = [(tenant_id, route) for route in alone(opened)]
    found = load_routes(connection, keys)
    return Contained(
        tenant_id=tenant_id, opened=opened, routes=tuple(found[key].route for key in keys), now_ms=now_ms_of(connection)
    )


def plan_of_contained(found: Contained) -> Plan:
    """The plan of *found*; before all of it unwinds, what unwinding would do."""
    return plan_of_all(found.opened, found.routes, now_ms=found.now_ms)


def show_contained(connection: Any, found: Contained) -> GroupShown:
    """The four questions about each member of *found*."""
    known = policies_of(policy_routes(connection, found.tenant_id))
    others = tuple(apart(found.opened))
    loaded = load_routes(connection, [(found.tenant_id, group) for group in others])
    planned = plan_of_contained(found)
    return GroupShown(
        group_id=found.opened.containment or "",
        state=state_of(found.routes),
        workflow_type=None,
        parent_group=None,
        intent_ref=found.opened.scope,
        children=tuple((group, loaded[found.tenant_id, group].route.group_state) for group in others),
        operations=tuple(
            answer
            for route in found.routes
            for answer in answers(route, plan(route, now_ms=found.now_ms), now_ms=found.now_ms, is_automatic=known.is_automatic)
        ),
        irreversible=tuple(one.operation_id for one in planned.irreversible),
        next_step=planned.next_step,
    )


__all__ = ["Contained", "contained", "containments", "named", "plan_of_contained", "show_contained"]
