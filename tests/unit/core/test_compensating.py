"""What the compensator does next (docs/semantics.md §8): what is allowed and due, waiting where it has to, else handing over."""

from typing import Any

import pytest
from msgspec.structs import replace

from landed.core.compensating import Action, HandOver, Leave, Means, Perform, Wait, next_actions
from landed.core.contract import Compensation, Contract, Effect, Requires, contract_json
from landed.core.inverse import condition_met
from landed.core.state import Attempt, Operation, Route
from landed.core.vocabulary import ActionClass, EscalationReason, GroupState, OnAbsent, State

NOW = 1_000_000


def step(name: str, at: int, *, state: State = State.CONFIRMED, **compensation: Any) -> Operation:
    registered = Compensation(tool=f"cancel_{name}", automatic=True, **compensation)
    contract = Contract(tool=name, effect=Effect(kind=name), compensation=(registered,), longest_processing=2.0)
    return Operation(
        operation_id=name,
        state=state,
        tool=name,
        effect_type=name,
        contract_text=contract_json(contract),
        compensation=(registered.tool,),
        confirmed_at_ms=at,
        receipt='{"id": "r", "revision": 7}',
        depends_on=(),
    )


def group(*operations: Operation, state: GroupState = GroupState.UNWINDING) -> Route:
    known = {op.operation_id: op for op in operations}
    return Route(tenant_id="acme", route="trip", group_state=state, unwinding_since_ms=NOW - 10_000, operations=known)


def inverse_contract(tool: str = "cancel_a", **fields: Any) -> Contract:
    return Contract(tool=tool, effect=Effect(kind=tool), max_attempts=3, retry_rejected=True, first_check_after=4.0, **fields)


def ended(state: State, *, at_ms: int, attempts: int = 1, **terms: Any) -> Operation:
    """The inverse of `a` after *attempts*, the last of which its holder answered at *at_ms*."""
    made = tuple(
        Attempt(
            number=number,
            claim_id=f"k{number}",
            granted_at_ms=at_ms,
            lease_end_ms=at_ms + 10_000,
            ended_at_ms=at_ms,
            state_before=State.PREPARED,
            open=False,
        )
        for number in range(1, attempts + 1)
    )
    contract = inverse_contract(**terms)
    return Operation(
        operation_id="compensate:a",
        state=state,
        tool="cancel_a",
        contract_text=contract_json(contract),
        stored_args='{"id": "as prepared"}',
        attempts=made,
    )


def actions(
    route: Route, *, now_ms: int = NOW, registered: bool = True, allowed: bool = True, **terms: Any
) -> tuple[Action, ...]:
    means = Means(
        contract_of=lambda tool: inverse_contract(tool, **terms) if registered else None,
        wanted=lambda tool: ("id",),
        allowed=lambda tool: allowed,
    )
    return next_actions(route, means, now_ms=now_ms)


def test_of_a_plan_only_the_step_that_is_due_is_performed() -> None:
    found = actions(group(step("a", 1), step("b", 2)))

    assert found == (Perform(operation_id="b", inverse_id="compensate:b", tool="cancel_b", arguments={"id": "r"}),)


def test_steps_that_may_run_beside_each_other_are_performed_at_the_same_time() -> None:
    found = actions(group(step("a", 1, parallel_safe=True), step("b", 2, parallel_safe=True)))

    assert [one.operation_id for one in found] == ["b", "a"]


def test_a_blocked_step_holds_up_what_comes_after_it_an_independent_branch_goes_on() -> None:
    blocked = replace(step("b", 3), state=State.ESCALATED, escalated_for=EscalationReason.INVERSE_FAILED, depends_on=("a",))
    route = group(step("a", 1), step("c", 2), blocked)

    assert [one.operation_id for one in actions(route)] == ["c"]


@pytest.mark.parametrize("state", [GroupState.OPEN, GroupState.CLOSED])
def test_nothing_is_undone_in_a_group_that_does_not_unwind(state: GroupState) -> None:
    assert actions(group(step("a", 1), state=state)) == ()


def test_nothing_is_done_while_anything_is_unresolved() -> None:
    assert actions(group(step("a", 1), step("pay", 2, state=State.UNKNOWN))) == ()


def test_an_inverse_is_automatic_only_if_contract_and_tenant_say_so_and_it_can_be_taken_back_itself() -> None:
    by_hand = group(step("a", 1))
    contract = replace(by_hand.operations["a"].contract or inverse_contract(), compensation=(Compensation(tool="cancel_a"),))
    by_hand = group(replace(by_hand.operations["a"], contract_text=contract_json(contract)))

    assert isinstance(actions(group(step("a", 1)))[0], Perform)
    assert isinstance(actions(group(step("a", 1)), allowed=False)[0], Leave)
    assert isinstance(actions(group(step("a", 1)), action_class=ActionClass.IRREVERSIBLE)[0], Leave)
    assert isinstance(actions(by_hand)[0], Leave)


def test_what_a_reviewer_wants_undone_is_performed_whatever_the_allowlist_says() -> None:
    wanted = replace(step("a", 1), state=State.COMPENSATING, undo_approved_by="anna")

    assert isinstance(actions(group(wanted), allowed=False)[0], Perform)


def test_an_inverse_that_is_not_registered_here_and_one_without_its_inputs_go_to_a_person() -> None:
    assert isinstance(actions(group(step("a", 1)), registered=False)[0], HandOver)


def test_an_inverse_waits_until_no_call_of_the_forward_operation_can_be_under_way() -> None:
    open_attempt = Attempt(
        number=1, claim_id="k", granted_at_ms=NOW - 9_000, lease_end_ms=NOW + 1_000, state_before=State.PREPARED
    )
    forward = replace(step("a", 1), attempts=(open_attempt,))

    (waits,) = actions(group(forward))
    assert isinstance(waits, Wait)
    assert waits.until_ms == NOW + 3_000
    assert isinstance(actions(group(forward), now_ms=NOW + 3_000)[0], Perform)


def test_a_failed_inverse_is_tried_again_under_its_own_policy_with_the_request_it_was_prepared_with() -> None:
    forward = step("a", 1, state=State.COMPENSATING)
    once = group(forward, ended(State.REJECTED, at_ms=NOW - 1_000))
    twice = group(forward, ended(State.REJECTED, at_ms=NOW - 1_000, attempts=2))

    assert [one.until_ms for one in actions(once) if isinstance(one, Wait)] == [NOW + 3_000]
    assert [one.until_ms for one in actions(twice) if isinstance(one, Wait)] == [NOW + 7_000]
    (again,) = actions(once, now_ms=NOW + 3_000)
    assert isinstance(again, Perform)
    assert again.arguments == {"id": "as prepared"}


def test_an_inverse_that_is_proven_absent_is_sent_again_only_after_its_window() -> None:
    forward = step("a", 1, state=State.COMPENSATING)
    inverse = ended(State.NOT_FOUND, at_ms=NOW, safe_window=9.0, on_absent=OnAbsent.RETRY)

    assert [one.until_ms for one in actions(group(forward, inverse)) if isinstance(one, Wait)] == [NOW + 9_000]


def test_an_inverse_in_doubt_is_left_to_the_reconciler() -> None:
    forward = step("a", 1, state=State.COMPENSATING)

    assert actions(group(forward, ended(State.UNKNOWN, at_ms=NOW))) == ()


def test_a_requirement_is_read_before_the_inverse_and_waited_for_as_long_as_it_says() -> None:
    needs = Requires(read="payment.status", condition="status settled", wait=60.0)
    (found,) = actions(group(step("a", 1, requires=needs)))

    assert isinstance(found, Perform)
    assert (found.requires, found.gives_up_at_ms) == (needs, NOW + 50_000)


@pytest.mark.parametrize(
    ("condition", "found", "met"),
    [
        ("found", {}, True),
        ("found", None, False),
        ("status settled", {"status": "settled"}, True),
        ("status settled", {"status": "open"}, False),
        ("status settled", {}, False),
        ("unchanged revision", {"revision": 7}, True),
        ("unchanged revision", {"revision": 8}, False),
        ("unchanged other", {"other": 1}, False),
        ("unchanged revision", None, False),
        ("whatever", {"whatever": True}, False),
    ],
)
def test_a_condition_holds_only_if_the_read_shows_it(condition: str, found: dict[str, Any] | None, met: bool) -> None:
    assert condition_met(condition, step("a", 1), found) is met
