"""Four questions about a group: what exists, what might, what can be undone safely, who decides next (semantics.md §8, §10)."""

from typing import Any

import pytest

from landed.core.group_summary import Answers, answers, exists
from landed.core.plan import plan
from landed.core.state import Attempt, Operation, ReviewTask, Route
from landed.core.vocabulary import EscalationReason, GroupState, State

NOW_MS = 1_000_000
CALLED = Attempt(number=1, claim_id="k1", granted_at_ms=1, lease_end_ms=2, state_before=State.PREPARED)


def operation(state: State, **changes: Any) -> Operation:
    said = {"operation_id": "o1", "tool": "book", "effect_type": "seat.book", "compensation": ("cancel",), "contract_text": None}
    return Operation(**{**said, "state": state, **changes})


@pytest.mark.parametrize(
    ("state", "changes", "answer"),
    [
        (State.CONFIRMED, {}, "yes"),
        (State.CONFIRMED, {"removed_at_ms": 5}, "no"),
        (State.DISPATCHED, {}, "might"),
        (State.UNKNOWN, {}, "might"),
        (State.RECONCILING, {}, "might"),
        (State.COMPENSATING, {}, "might"),
        (State.ESCALATED, {"escalated_for": EscalationReason.NO_PROBE}, "might"),
        (State.ESCALATED, {"escalated_for": EscalationReason.INVERSE_FAILED}, "yes"),
        (State.PREPARED, {}, "no"),
        (State.REJECTED, {}, "no"),
        (State.NOT_FOUND, {}, "no"),
        (State.COMPENSATED, {}, "no"),
        (State.CANCELLED, {}, "no"),
        (State.CANCELLED, {"attempts": (CALLED,)}, "might"),
    ],
)
def test_an_effect_exists_might_exist_or_does_not_as_the_state_says(state: State, changes: dict[str, Any], answer: str) -> None:
    assert exists(operation(state, **changes)).value == answer


def test_every_state_has_an_answer_to_all_four_questions() -> None:
    for state in State:
        for group_state in GroupState:
            one = asked(operation(state), group_state)
            assert one.exists in ("yes", "might", "no")
            assert one.undo
            assert one.decides


def asked(one: Operation, group_state: GroupState = GroupState.UNWINDING, **changes: Any) -> Answers:
    route = Route(tenant_id="t", route="g", operations={"o1": one}, group_state=group_state, **changes)
    (found,) = answers(route, plan(route, now_ms=NOW_MS), now_ms=NOW_MS, is_automatic=lambda tool: True)
    return found


def test_what_is_in_doubt_is_not_undone_and_the_reconciler_decides() -> None:
    one = asked(operation(State.UNKNOWN))
    assert (one.exists, one.undo, one.decides) == ("might", "no: its outcome is unknown", "reconciler")


def test_an_open_review_names_the_queue_of_whoever_decides() -> None:
    task = ReviewTask(review_id=1, opened_at_ms=5, queue="payments", reasons=("no_probe",))
    one = asked(operation(State.ESCALATED, escalated_for=EscalationReason.NO_PROBE, review=task))
    assert (one.exists, one.decides) == ("might", "person (payments)")


def test_an_effect_without_inverse_is_irreversible() -> None:
    assert asked(operation(State.CONFIRMED, compensation=())).undo == "no: irreversible"


def test_what_is_undone_is_done_and_nobody_decides() -> None:
    one = asked(operation(State.COMPENSATED))
    assert (one.exists, one.undo, one.decides) == ("no", "done", "nobody")
