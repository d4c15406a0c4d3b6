"""Groups as people ask for them: what unwinding does or would do, and the four questions of each operation. Presentation-free."""

from typing import Any

import msgspec

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.routes import load_routes
from landed.adapters.postgres.statements import statement
from landed.core.group_summary import Answers, answers
from landed.core.plan import Plan, plan
from landed.core.policy import policies_of
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState
from landed.core.wording import label, sentence
from landed_services.people.errors import NotThere
from landed_services.queries.operations import Known, found, timeline_of
from landed_services.queries.policies import policy_routes
from landed_services.queries.timeline import TimelineRow

LISTED = 5


class GroupShown(msgspec.Struct, frozen=True, kw_only=True):
    """A group with the answers to the four questions."""

    group_id: str
    state: GroupState
    workflow_type: str | None
    parent_group: str | None
    intent_ref: str | None
    children: tuple[tuple[str, str], ...]
    """Groups that were opened under it, each with its state."""
    operations: tuple[Answers, ...]
    irreversible: tuple[str, ...]
    next_step: str


class OperationShown(msgspec.Struct, frozen=True, kw_only=True):
    """An operation with its timeline."""

    operation_id: str
    group_id: str | None
    state: str
    label: str
    sentence: str
    tool: str | None
    effect_type: str | None
    attempts: int
    references: tuple[str, ...]
    review: str | None
    timeline: tuple[TimelineRow, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group as the tables hold it."""

    tenant_id: str
    route: Route
    now_ms: int
    """The database's clock."""


def group_named(connection: Any, tenant_id: str, name: str) -> Group:
    """The group, or operation without one, whose id is *name* or is the only one that begins so.

    Raises:
        NotThere: none of the tenant fits, or several do.
    """
    parameters = {"tenant_id": escaped(tenant_id), "prefix": escaped(name), "limit": LISTED + 1}
    rows = connection.execute(statement("routes_named"), parameters).fetchall() if name else []
    known = only([unescaped(route) or "" for (route,) in rows], name, f"no group of tenant {tenant_id!r} begins with {name!r}")
    now_ms = now_ms_of(connection)
    route = load_routes(connection, [(tenant_id, known)])[tenant_id, known].route
    return Group(tenant_id=tenant_id, route=route, now_ms=now_ms)


def operation_named(connection: Any, tenant_id: str, name: str) -> Known:
    """The operation whose id is *name* or is the only one that begins so.

    Raises:
        NotThere: none of the tenant fits, or several do.
    """
    fitting = found(connection, "operations_beginning", tenant_id, {"prefix": escaped(name), "limit": LISTED + 1}) if name else []
    names = [one.operation.operation_id for one in fitting]
    known = only(names, name, f"no operation of tenant {tenant_id!r} begins with {name!r}")
    return fitting[names.index(known)]


def now_ms_of(connection: Any) -> int:
    """The database's clock (milliseconds, UTC)."""
    return int(connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()[0])


def only(names: list[str], wanted: str, none: str) -> str:
    """The one of *names* that is *wanted*, else the only one.

    Raises:
        NotThere: there is none (says *none*), or there are several.
    """
    if not names:
        raise NotThere(none)
    if len(names) > 1 and names[0] != wanted:
        raise NotThere(f"{wanted!r} fits several: {', '.join(names[:LISTED])}{', …' if len(names) > LISTED else ''}")
    return names[0]


def plan_of(group: Group) -> Plan:
    """The plan of *group*; before it unwinds, what unwinding would do."""
    return plan(group.route, now_ms=group.now_ms)


def show_group(connection: Any, group: Group) -> GroupShown:
    """The four questions about *group*."""
    route, planned = group.route, plan_of(group)
    known = policies_of(policy_routes(connection, group.tenant_id))
    parameters = {"tenant_id": escaped(group.tenant_id), "group_id": escaped(route.route)}
    children = connection.execute(statement("children_of_group"), parameters).fetchall()
    return GroupShown(
        group_id=route.route,
        state=route.group_state,
        workflow_type=route.workflow_type,
        parent_group=route.parent_group,
        intent_ref=route.intent_ref,
        children=tuple((unescaped(child) or "", state) for child, state in children),
        operations=answers(route, planned, now_ms=group.now_ms, is_automatic=known.is_automatic),
        irreversible=tuple(one.operation_id for one in planned.irreversible),
        next_step=planned.next_step,
    )


def show_operation(connection: Any, known: Known) -> OperationShown:
    """*known* with its timeline."""
    operation: Operation = known.operation
    review = operation.review
    return OperationShown(
        operation_id=operation.operation_id,
        group_id=known.group_id,
        state="frozen" if operation.frozen_at else operation.state.value,
        label=label(operation, known.group_state),
        sentence=sentence(operation, known.group_state),
        tool=operation.tool,
        effect_type=operation.effect_type,
        attempts=operation.attempts_counted,
        references=tuple(one.value for one in operation.references),
        review=None if review is None else f"{operation.operation_id}#{review.review_id}",
        timeline=tuple(timeline_of(connection, known)),
    )
