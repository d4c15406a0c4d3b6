"""Rules of the fold that the transition table does not show: what an event writes beside the state."""

from tests.history import QUIET_MS, History

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
