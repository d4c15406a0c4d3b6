"""What got through before a breaker opened, as one group with one plan: pure functions over the routes of its members.

Members keep the groups that they were prepared in, since a route never changes. One without a group is a group of its own and is
undone by itself; one that is a step of a group is undone with that group, and is only named here.

Source: docs/semantics.md §8, §9; docs/decisions/0015-containment-is-a-list-of-groups.md.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from landed.core.events import BreakerChanged, Contained
from landed.core.plan import Plan, Skipped, StepDecision, plan
from landed.core.policy import CEILING
from landed.core.recovery import confirmed_order
from landed.core.state import Route
from landed.core.vocabulary import UNWINDING_OR_AFTER, GroupState

CONTAINMENT: Final = "surge:"
"""How the id of every containment begins."""
CONTAINED_BYTES_MAX: Final = 262_144
"""What the members may take of the record that lists them."""


def containment_id(key: str, at_ms: int) -> str:
    """Id of what got through before the breaker of the policy *key* was seen open at *at_ms* (the database's clock)."""
    return f"{CONTAINMENT}{key[len(CEILING) :]}:{at_ms}"


def listed(found: Iterable[Contained]) -> list[Contained]:
    """As many of *found*, from the first on, as one record holds."""
    taken, size = [], 0
    for one in found:
        size += sum(len(name.encode("utf-8", "surrogatepass")) for name in (one.route, one.operation_id, one.group_id or ""))
        if size > CONTAINED_BYTES_MAX:
            break
        taken.append(one)
    return taken


def alone(opened: BreakerChanged) -> tuple[str, ...]:
    """Routes of the members that are groups of their own."""
    return tuple(dict.fromkeys(one.route for one in opened.contained if one.group_id is None))


def apart(opened: BreakerChanged) -> dict[str, tuple[str, ...]]:
    """Members that are steps of other groups, by group."""
    found: dict[str, tuple[str, ...]] = {}
    for one in opened.contained:
        if one.group_id is not None:
            found[one.group_id] = (*found.get(one.group_id, ()), one.operation_id)
    return found


def state_of(routes: Sequence[Route]) -> GroupState:
    """State of a containment whose members that are groups of their own are *routes*."""
    states = {route.group_state for route in routes}
    if not states <= UNWINDING_OR_AFTER or not states:
        return GroupState.OPEN
    return next((one for one in (GroupState.UNWINDING, GroupState.NEEDS_HUMAN) if one in states), GroupState.UNWOUND)


def plan_of_all(opened: BreakerChanged, routes: Sequence[Route], *, now_ms: int) -> Plan:
    """One plan over *routes*, the members of *opened* that are groups of their own: the one confirmed last is undone first.

    Nothing in it waits for anything else in it: each is undone as soon as its own outcome is known.
    """
    plans = [(route, plan(route, now_ms=now_ms)) for route in routes]
    by_time = sorted(
        ((confirmed_order(route.operation(step.operation_id)), step) for route, one in plans for step in one.steps),
        key=lambda pair: pair[0],
        reverse=True,
    )
    steps = tuple(msgspec.structs.replace(step, order=number) for number, (_, step) in enumerate(by_time, start=1))
    elsewhere = tuple(
        Skipped(operation_id=name, effect_type="", state="", reason=f"step of group {group}")
        for group, names in apart(opened).items()
        for name in names
    )
    unresolved = tuple(chain.from_iterable(one.unresolved for _, one in plans))
    state = state_of(routes)
    return Plan(
        group_id=opened.containment or "",
        state=state,
        steps=steps,
        irreversible=tuple(chain.from_iterable(one.irreversible for _, one in plans)),
        unresolved=unresolved,
        skipped=(*chain.from_iterable(one.skipped for _, one in plans), *elsewhere),
        next_step=_next_step(
            opened,
            state,
            steps_todo=sum(one.decision is not StepDecision.ESCALATE for one in steps),
            people=tuple(one.operation_id for one in steps if one.decision is StepDecision.ESCALATE),
            doubtful=tuple(one.operation_id for one in unresolved),
        ),
    )


def _next_step(
    opened: BreakerChanged, state: GroupState, *, steps_todo: int, people: tuple[str, ...], doubtful: tuple[str, ...]
) -> str:
    parts = []
    if state not in UNWINDING_OR_AFTER:
        parts.append("Not everything of it unwinds yet: this is what unwinding would do.")
    if doubtful:
        names = ", ".join(doubtful)
        parts.append(f"{len(doubtful)} effect(s) have an unknown outcome, each is undone only once it is settled: {names}.")
    if steps_todo:
        parts.append(f"Perform the {steps_todo} compensation(s) in the order given.")
    if people:
        parts.append(f"A person decides about {', '.join(people)}.")
    if groups := apart(opened):
        parts.append(f"Steps of other groups are undone with these: {', '.join(groups)}.")
    if (missing := opened.contained_count - len(opened.contained)) > 0:
        parts.append(f"{missing} more got through than the record names.")
    if not doubtful and not steps_todo and not people:
        parts.append("Nothing else is left to undo." if groups else "Nothing is left to undo.")
    return " ".join(parts)
