"""What got through before a breaker opened, as one group with one plan (docs/semantics.md §9)."""

import json
from typing import Any

import pytest

from landed.core.containment import CONTAINED_BYTES_MAX, alone, apart, containment_id, listed, plan_of_all, state_of
from landed.core.events import BreakerChanged, Contained
from landed.core.plan import Plan
from landed.core.policy import PolicyError, parsed
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState, State

from .test_plan import NOW, step


def opened(*members: Contained, count: int | None = None) -> BreakerChanged:
    return BreakerChanged(
        event_id="",
        tenant_id="acme",
        route="policy:ceiling:seat.book",
        actor="projector",
        scope="ceiling:seat.book",
        who="projector",
        containment="surge:seat.book:1",
        contained=list(members),
        contained_count=len(members) if count is None else count,
    )


def own(name: str) -> Contained:
    return Contained(route=name, operation_id=name)


def route(operation: Operation, state: GroupState = GroupState.OPEN) -> Route:
    name = operation.operation_id
    return Route(tenant_id="acme", route=name, group_state=state, operations={name: operation})


def planned(*routes: Route, others: tuple[Contained, ...] = (), count: int | None = None) -> Plan:
    return plan_of_all(opened(*(own(one.route) for one in routes), *others, count=count), routes, now_ms=NOW)


def test_the_one_confirmed_last_is_undone_first_and_the_orders_are_counted_through() -> None:
    found = planned(route(step("a", 2)), route(step("b", 3)), route(step("c", 1)))
    assert [(one.order, one.operation_id) for one in found.steps] == [(1, "b"), (2, "a"), (3, "c")]
    assert (found.group_id, found.state) == ("surge:seat.book:1", GroupState.OPEN)
    assert found.next_step == (
        "Not everything of it unwinds yet: this is what unwinding would do. Perform the 3 compensation(s) in the order given."
    )


def test_a_member_in_doubt_stops_none_of_the_others() -> None:
    found = planned(route(step("a", 1)), route(step("b", 2, state=State.UNKNOWN)))
    assert [one.operation_id for one in found.steps] == ["a"]
    assert [one.operation_id for one in found.unresolved] == ["b"]
    assert "1 effect(s) have an unknown outcome, each is undone only once it is settled: b." in found.next_step


def test_a_step_of_another_group_is_named_and_not_undone_here() -> None:
    inside = Contained(route="trip-1", operation_id="trip-1:seat", group_id="trip-1")
    found = planned(route(step("a", 1), GroupState.UNWINDING), others=(inside,))
    assert [one.operation_id for one in found.steps] == ["a"]
    assert [(one.operation_id, one.reason) for one in found.skipped] == [("trip-1:seat", "step of group trip-1")]
    assert found.next_step.endswith("Steps of other groups are undone with these: trip-1.")
    assert (alone(opened(own("a"), inside)), apart(opened(own("a"), inside))) == (("a",), {"trip-1": ("trip-1:seat",)})


def test_what_nothing_takes_back_is_listed_and_a_person_decides() -> None:
    found = planned(route(step("a", 1, compensation=(), no_inverse=True)))
    assert [one.operation_id for one in found.irreversible] == ["a"]
    assert "A person decides about a." in found.next_step


def test_what_no_record_could_name_is_counted_and_said() -> None:
    assert "2 more got through than the record names." in planned(route(step("a", 1)), count=3).next_step
    long = [own("x" * 60_000 + str(number)) for number in range(9)]
    taken = listed(long)
    assert taken == long[: len(taken)]
    assert 0 < sum(2 * len(one.route) for one in taken) <= CONTAINED_BYTES_MAX


@pytest.mark.parametrize(
    ("states", "together"),
    [
        ((), "open"),
        (("open", "unwinding"), "open"),
        (("unwound", "unwinding", "needs_human"), "unwinding"),
        (("unwound", "needs_human"), "needs_human"),
        (("unwound", "unwound"), "unwound"),
    ],
)
def test_its_state_is_that_of_its_members_together(states: tuple[str, ...], together: str) -> None:
    assert state_of([route(step("a", 1), GroupState(one)) for one in states]) == together


def test_its_id_says_what_was_counted_and_when() -> None:
    assert containment_id("ceiling:dns.delete", 17) == "surge:dns.delete:17"
    assert containment_id("ceiling:*", 17) == "surge:*:17"


@pytest.mark.parametrize(
    ("ceiling", "rule"),
    [
        ({"limit": 1001, "per_s": 60}, "contain: is for a limit of at most 1000"),
        ({"limit": 5, "per_s": 60, "scope": "group"}, "contain: is for scope tenant"),
    ],
)
def test_a_ceiling_may_contain_what_one_record_names_and_no_group_has(ceiling: dict[str, Any], rule: str) -> None:
    assert parsed("ceiling:x", json.dumps({"limit": 1000, "per_s": 60, "contain": True}))
    with pytest.raises(PolicyError, match=rule):
        parsed("ceiling:x", json.dumps({**ceiling, "contain": True}))
