"""A person has a group undone (semantics.md §8)."""

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from landed.core import events as ev
from landed.core.inverse import unwind_inputs
from landed.core.plan import Plan
from landed.core.state import Route
from landed.core.vocabulary import UNWINDING_OR_AFTER
from landed.ports.log import EventLog
from landed.wire.ids import with_event_id
from landed_services.people.appending import APPEND_TIMEOUT_S, SEEN_WITHIN_S, put
from landed_services.people.errors import DecisionRefused, NotSeenYet, PeopleError
from landed_services.queries.containment import Contained, contained, plan_of_contained
from landed_services.queries.groups import Group, group_named, plan_of

_LOOK_EVERY_S = 0.05


def unwind(log: EventLog, connection: Any, group: Group, *, by: str, reason: str, inputs: str | None = None) -> Plan:
    """Has *group* undone and waits until it unwinds; gives the plan. One that unwinds already is left as it is.

    Args:
        inputs: JSON: inputs for an inverse, by operation id.

    Raises:
        PeopleError: who or why is missing, or *inputs* names what is no step of it.
        DecisionRefused: the group is not one that can be undone, or it unwinds already with other inputs than *inputs*.
        NotSeenYet, AppendFailed: see `put`.
    """
    _check(by, reason)
    given = _decoded(inputs)
    _check_members(given, group.route.operations, group.route.route)
    if group.route.group_state in UNWINDING_OR_AFTER:
        _check_taken(group.route, given)
        return plan_of(group)
    name = group.route.route
    folded = put(log, connection, _request(group.route, by=by, reason=reason, inputs=inputs))
    if not folded.accepted and folded.reason is not None and folded.reason != "repeated":
        raise DecisionRefused(f"{name}: the group cannot be undone: {folded.reason}")
    until_s = time.monotonic() + SEEN_WITHIN_S
    while True:
        now = group_named(connection, group.tenant_id, name)
        if now.route.group_state in UNWINDING_OR_AFTER:
            _check_taken(now.route, given)
            return plan_of(now)
        if time.monotonic() >= until_s:
            raise NotSeenYet(f"{name}: the request is on the log, and no projector has decided about it yet: is one running?")
        time.sleep(_LOOK_EVERY_S)


def unwind_contained(
    log: EventLog, connection: Any, found: Contained, *, by: str, reason: str, inputs: str | None = None
) -> Plan:
    """Has every member of *found* undone that is a group of its own, and waits until all unwind; gives the plan.

    Members that unwind already are left as they are, so that a call which ended in the middle is simply made again.

    Args:
        inputs: JSON: inputs for an inverse, by operation id.

    Raises:
        PeopleError: who or why is missing, or *inputs* names what is no member.
        DecisionRefused: a member unwinds already with other inputs than *inputs*.
        NotSeenYet, AppendFailed: see `put`.
    """
    _check(by, reason)
    given = _decoded(inputs)
    _check_members(given, {name for route in found.routes for name in route.operations}, found.opened.containment or "")
    wanted = [route for route in found.routes if route.group_state not in UNWINDING_OR_AFTER]
    appended = []
    for route in wanted:
        own = {name: given[name] for name in route.operations if name in given}
        text = msgspec.json.encode(own).decode() if own else None
        appended.append(log.append(with_event_id(_request(route, by=by, reason=reason, inputs=text))))
    for one in appended:
        one.result(APPEND_TIMEOUT_S)
    until_s = time.monotonic() + SEEN_WITHIN_S
    while True:
        now = contained(connection, found.tenant_id, found.opened)
        waiting = [route.route for route in now.routes if route.group_state not in UNWINDING_OR_AFTER]
        if not waiting:
            for route in now.routes:
                _check_taken(route, given)
            return plan_of_contained(now)
        if time.monotonic() >= until_s:
            raise NotSeenYet(
                f"{len(waiting)} requests are on the log, and no projector has decided about them yet: is one running?"
            )
        time.sleep(_LOOK_EVERY_S)


def _check_taken(route: Route, given: Mapping[str, Any]) -> None:
    """*route* unwinds: whoever gave inputs must not think that they count where another request came first."""
    counts = unwind_inputs(route)
    if any(inputs != counts.get(name) for name, inputs in given.items() if name in route.operations):
        raise DecisionRefused(f"{route.route}: it unwinds already, by a request with other inputs; these were not taken")


def _decoded(inputs: str | None) -> dict[str, dict[str, Any]]:
    return {} if inputs is None else msgspec.json.decode(inputs, type=dict[str, dict[str, Any]])


def _check_members(given: Mapping[str, Any], members: Collection[str], name: str) -> None:
    if strangers := sorted(given.keys() - set(members)):
        raise PeopleError(f"inputs: {strangers[0]} is not undone with {name}")


def _check(by: str, reason: str) -> None:
    for field, said in (("by", by), ("reason", reason)):
        if not said.strip():
            raise PeopleError(f"{field}: must not be empty")


def _request(route: Route, *, by: str, reason: str, inputs: str | None) -> ev.UnwindRequested:
    return ev.UnwindRequested(
        event_id="",
        tenant_id=route.tenant_id,
        route=route.route,
        group_id=route.route,
        actor=by,
        seen_version=route.version,
        reason=reason,
        by=by,
        inputs=inputs,
    )
