"""A person has a group undone (semantics.md §8)."""

import time
from typing import Any

from landed.core import events as ev
from landed.core.plan import Plan
from landed.core.vocabulary import UNWINDING_OR_AFTER
from landed.ports.log import EventLog
from landed_services.people.appending import SEEN_WITHIN_S, put
from landed_services.people.errors import DecisionRefused, NotSeenYet, PeopleError
from landed_services.queries.groups import Group, group_named, plan_of

_LOOK_EVERY_S = 0.05


def unwind(log: EventLog, connection: Any, group: Group, *, by: str, reason: str, inputs: str | None = None) -> Plan:
    """Has *group* undone and waits until it unwinds; gives the plan. One that unwinds already is left as it is.

    Args:
        inputs: JSON: inputs for an inverse, by operation id.

    Raises:
        PeopleError: who or why is missing.
        DecisionRefused: the group is not one that can be undone.
        NotSeenYet, AppendFailed: see `put`.
    """
    for field, said in (("by", by), ("reason", reason)):
        if not said.strip():
            raise PeopleError(f"{field}: must not be empty")
    if group.route.group_state in UNWINDING_OR_AFTER:
        return plan_of(group)
    name = group.route.route
    event = ev.UnwindRequested(
        event_id="",
        tenant_id=group.tenant_id,
        route=name,
        group_id=name,
        actor=by,
        seen_version=group.route.version,
        reason=reason,
        by=by,
        inputs=inputs,
    )
    folded = put(log, connection, event)
    if not folded.accepted and folded.reason is not None and folded.reason != "repeated":
        raise DecisionRefused(f"{name}: the group cannot be undone: {folded.reason}")
    until_s = time.monotonic() + SEEN_WITHIN_S
    while True:
        now = group_named(connection, group.tenant_id, name)
        if now.route.group_state in UNWINDING_OR_AFTER:
            return plan_of(now)
        if time.monotonic() >= until_s:
            raise NotSeenYet(f"{name}: the request is on the log, and no projector has decided about it yet: is one running?")
        time.sleep(_LOOK_EVERY_S)
