"""The fold: state of a route before an event, and the event, give the state after it. Total, pure, and it never decides.

`transitions.py` says which state follows, `writing.py` what else each event writes, `coupling.py` how an inverse moves its
forward operation. An event that its state does not allow changes nothing and comes back refused with the reason.

Source: docs/semantics.md §2, §3, §8, §10.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from landed.core import events as ev
from landed.core import recovery
from landed.core.coupling import couple, put
from landed.core.state import POLICY_ROUTE, Operation, Route
from landed.core.tasks import opened
from landed.core.transitions import BY_EVENT, FINAL_BY_EVENT, GROUP_TABLE, Row
from landed.core.vocabulary import UNWINDING_OR_AFTER, GroupState, Mark
from landed.core.writing import clocks, write


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What one event did."""

    route: Route
    accepted: bool
    """False: refused, nothing changed (but for the note that it was seen)."""
    reason: str | None = None
    """Why it was refused; None when accepted."""
    repeated: bool = False
    """The same event was folded before; nothing changed."""
    mark: Mark | None = None
    touched: tuple[str, ...] = ()
    """Operations whose state is another value now."""


DUPLICATE_ID = "event_id_with_other_content"
"""Reason that is alarmed: the same id with other content is no repeat but a broken or hostile writer (§2)."""


def empty_route(tenant_id: str, route: str) -> Route:
    return Route(tenant_id=tenant_id, route=route)


def fold(route: Route, entry: ev.Entry) -> Folded:
    """State of *route* after *entry*.

    Returns:
        Always a result: an event that the state does not allow comes back with `accepted` False and its reason.
    """
    event = entry.event
    if event.operation_id is None:
        return _fold_group(route, entry)
    operation = route.operation(event.operation_id)
    known = operation.seen.get(event.event_id)
    if known is not None:
        if known == entry.digest:
            return Folded(route=route, accepted=False, repeated=True)
        return Folded(route=route, accepted=False, reason=DUPLICATE_ID)
    row, reason = _row_for(route, operation, entry)
    seen = operation.seen | {event.event_id: entry.digest}
    if row is None:
        # Its first place in the log counts: a redelivery must not be accepted once the state would allow it.
        noted = put(route, replace(operation, seen=seen))
        return Folded(route=noted, accepted=False, reason=reason, touched=(event.operation_id,))
    moved = write(route, operation, entry, row)
    moved = replace(moved, version=operation.version + 1, seen=seen, **clocks(moved, operation, entry.at_ms))
    if row.mark is not None:
        moved = opened(moved, row.mark, entry.at_ms)
    state = route.group_state
    if state is GroupState.NONE and isinstance(event, ev.OperationPrepared):
        state = GroupState.OPEN
    after = replace(route, operations=route.operations | {moved.operation_id: moved}, group_state=state)
    after, touched = couple(after, operation, moved, entry)
    return Folded(route=_derived(after), accepted=True, mark=row.mark, touched=(event.operation_id, *touched))


def freeze(route: Route, operation_id: str | None, position: ev.Position) -> Route:
    """*route* with *operation_id* frozen by the record at *position*, which this release cannot read (§2).

    A record that names no operation speaks of the group: it freezes all its operations, those that come later too.
    """
    if operation_id is None:
        if position in route.frozen_at:
            return route
        frozen = replace(route, frozen_at=(*route.frozen_at, position))
        for name in route.operations:
            frozen = freeze(frozen, name, position)
        return _derived(frozen)
    operation = route.operation(operation_id)
    if position in operation.frozen_at:
        return route
    return _derived(put(route, replace(operation, frozen_at=(*operation.frozen_at, position))))


# ---- the table --------------------------------------------------------------------------------------------------------


def _row_for(route: Route, operation: Operation, entry: ev.Entry) -> tuple[Row | None, str]:
    reason: str | None = None
    state, rows = operation.state, FINAL_BY_EVENT if operation.final else BY_EVENT
    for row in rows.get(ev.TYPE_OF[type(entry.event)], ()):
        if state not in row.states:
            continue
        for guard in row.guards:
            if (failed := guard(route, operation, entry)) is not None:
                reason = reason or failed
                break
        else:
            return row, ""
    return None, reason or ("final" if operation.final else f"not_allowed_in_{operation.state}")


def _derived(route: Route) -> Route:
    if route.group_state not in UNWINDING_OR_AFTER:
        return route
    state = recovery.derived_group_state(route)
    return route if state is route.group_state else replace(route, group_state=state)


# ---- groups -----------------------------------------------------------------------------------------------------------


def _fold_group(route: Route, entry: ev.Entry) -> Folded:
    event = entry.event
    known = route.seen.get(event.event_id)
    if known is not None:
        if known == entry.digest:
            return Folded(route=route, accepted=False, repeated=True)
        return Folded(route=route, accepted=False, reason=DUPLICATE_ID)
    if isinstance(event, ev.PolicyChanged):
        return _fold_policy(route, event, entry.digest)
    name = ev.TYPE_OF[type(event)]
    moves = GROUP_TABLE.get(name)
    if name in BY_EVENT:
        return Folded(route=route, accepted=False, reason="operation_missing")
    if moves is None:
        # Facts that belong to no operation and to no group state: breakers, unmatched news, genesis, heartbeats.
        return Folded(route=route, accepted=True)
    state = moves.get(route.group_state)
    seen = {**route.seen, event.event_id: entry.digest}
    if state is None:
        return Folded(route=replace(route, seen=seen), accepted=False, reason=f"not_allowed_in_{route.group_state}")
    changes: dict[str, Any] = {
        "group_state": state,
        "version": route.version + 1,
        "seen": seen,
    }
    if isinstance(event, ev.GroupOpened) and route.workflow_type is None:
        changes |= {
            "workflow_type": event.workflow_type,
            "parent_group": event.parent_group,
            "intent_ref": event.intent_ref,
        }
    asked_before = route.unwind_reason is not None or route.group_state not in (GroupState.OPEN, GroupState.CLOSED)
    if isinstance(event, ev.UnwindRequested) and not asked_before:
        # The first request is the one that is carried out: of two that race, the later takes no input of the other away.
        changes |= {"unwind_reason": event.reason, "unwind_inputs": event.inputs}
    if isinstance(event, ev.GroupUnwinding):
        changes |= {"unwind_reason": event.reason, "unwinding_since_ms": entry.at_ms}
    return Folded(route=_derived(replace(route, **changes)), accepted=True)


def _fold_policy(route: Route, event: ev.PolicyChanged, digest: str) -> Folded:
    """The change of a policy: the next one, made by somebody who saw the last one (`core/policy.py`)."""
    reason = None
    if route.route != POLICY_ROUTE + event.scope:
        reason = "scope_is_not_route"
    elif event.seen_version != route.version:
        reason = "policy_changed_since"
    seen = {**route.seen, event.event_id: digest}
    if reason is not None:
        return Folded(route=replace(route, seen=seen), accepted=False, reason=reason)
    return Folded(route=replace(route, policy=event.new, version=route.version + 1, seen=seen), accepted=True)
