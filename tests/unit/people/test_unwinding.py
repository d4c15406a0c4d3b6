"""A person asks for a group to be undone (docs/semantics.md §8): what is said before anything is appended."""

from typing import Any

import pytest
from tests.history import History

from landed_services.people.errors import DecisionRefused, PeopleError
from landed_services.people.unwinding import unwind
from landed_services.queries.groups import Group

GIVEN = '{"X": {"amount": 5}}'


def asked(history: History, inputs: str | None) -> Any:
    """Neither log nor database is needed: there is nothing to append."""
    group = Group(tenant_id="acme", route=history.route, now_ms=history.now_ms)
    nothing: Any = None
    return unwind(nothing, nothing, group, by="anna", reason="card declined", inputs=inputs)


def unwinding(inputs: str | None) -> History:
    history = History().prepare().grant().must("outcome_confirmed")
    return history.must("unwind_requested", None, inputs=inputs).must("group_unwinding", None)


def test_asking_again_with_the_same_inputs_or_none_changes_nothing_and_gives_the_plan() -> None:
    for again in (GIVEN, '{ "X" : {"amount":5} }', None):
        assert [step.operation_id for step in asked(unwinding(GIVEN), again).steps] == ["X"]


@pytest.mark.parametrize("first", [None, '{"X": {"amount": 50}}'])
def test_whose_inputs_come_too_late_is_told_so(first: str | None) -> None:
    """Else the whole amount would be refunded, and who asked for a part of it would not know."""
    with pytest.raises(DecisionRefused, match="by a request with other inputs; these were not taken"):
        asked(unwinding(first), GIVEN)


def test_inputs_for_what_is_no_step_of_the_group_are_refused() -> None:
    with pytest.raises(PeopleError, match="inputs: Y is not undone with trip"):
        asked(History().prepare(), '{"Y": {"amount": 5}}')
