"""Rules of the fold that the transition table does not show: what an event writes beside the state."""

import pytest
from msgspec.structs import replace
from tests.history import OF_A_GROUP, OF_NEITHER, QUIET_MS, History, entry, event

from landed.core.events import CATALOGUE
from landed.core.vocabulary import GroupState, State

# ---- redelivery (§2) ----------------------------------------------------------------------------------------------------


def test_an_event_that_was_refused_stays_refused_when_it_comes_again() -> None:
    """Its first place in the log counts, also when the state would allow it by now."""
    history = History().prepare().grant().expire().must("probe_recorded")
    early = history.add("absence_established")
    assert (early.accepted, early.reason, early.touched) == (False, "safe_window", ("X",))
    history.wait(10 * QUIET_MS)
    again = history.take(history.log[-1])
    assert (again.accepted, again.repeated) == (False, True)
    assert history.op().state is State.RECONCILING


def test_a_group_event_that_was_refused_stays_refused_when_it_comes_again() -> None:
    history = History()
    assert not history.add("group_closed", None).accepted
    closing = history.log[-1]
    history.must("group_opened", None)
    assert history.take(closing).repeated
    assert history.route.group_state is GroupState.OPEN


# ---- envelope (§2) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {*OF_A_GROUP, *OF_NEITHER}))
def test_an_event_about_an_operation_that_names_none_is_refused(name: str) -> None:
    """Evidence that is taken for nothing would be lost without a trace."""
    said = History().prepare().grant().add(name, None)
    assert (said.accepted, said.reason) == (False, "operation_missing")


@pytest.mark.parametrize("name", OF_A_GROUP)
def test_an_event_about_a_group_that_names_an_operation_is_refused(name: str) -> None:
    history = History().prepare()
    said = history.take(entry(replace(event(name, None, event_id="odd"), operation_id="X")))
    assert (said.accepted, said.reason) == (False, "not_allowed_in_prepared")
