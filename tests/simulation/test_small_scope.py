"""Every order of steps of a small world around the real fold and decision: no intention is carried out twice.

`small_world.py` says who acts and what is assumed. Each scope bounds the world differently; each is explored to its end. Then one
rule after the other is taken out of the table, and the exploration has to find the history that goes wrong without it.
"""

from typing import Any

import pytest
from tests.history import DEDUPED, REPLAYABLE
from tests.simulation.small_world import Explorer, Scope, Violation

from landed.core import fold as fold_module
from landed.core.transitions import BY_EVENT, Row
from landed.core.vocabulary import State

NOTHING = {"claims": 2, "crashes": 0, "ghosts": 0, "looks": 0, "people": 0, "unwinds": 0, "ticks": 0}
TWICE: dict[str, Any] = {"retry_rejected": True}
ONCE: dict[str, Any] = {"max_attempts": 1}

SCOPES: dict[str, tuple[Scope, set[State]]] = {
    "two workers, a crash, a reconciler": (
        Scope({}, {**NOTHING, "crashes": 1, "looks": 1, "ticks": 4}),
        {State.NOT_FOUND, State.RECONCILING, State.REJECTED, State.CONFIRMED},
    ),
    "two workers, a projector that dies and its ghost": (
        Scope({}, {**NOTHING, "ghosts": 1, "ticks": 1}),
        {State.REJECTED, State.CONFIRMED, State.UNKNOWN},
    ),
    "two workers, a ghost, an operator who unwinds": (
        Scope({}, {**NOTHING, "ghosts": 1, "unwinds": 1, "ticks": 1}),
        {State.REJECTED, State.CONFIRMED, State.UNKNOWN},
    ),
    "two workers, a careless projector": (
        Scope(TWICE, {**NOTHING, "looks": 1, "ticks": 3}, careless=True),
        {State.REJECTED, State.CONFIRMED, State.NOT_FOUND},
    ),
    "a worker, two reconcilers": (
        Scope({}, {**NOTHING, "looks": 3, "ticks": 2}, workers=1),
        {State.NOT_FOUND, State.RECONCILING},
    ),
    "a worker, a reconciler, a reviewer": (
        Scope({}, {**NOTHING, "looks": 1, "people": 1, "ticks": 3}, workers=1),
        {State.ESCALATED, State.NOT_FOUND},
    ),
    "a worker that releases what it had answered": (
        Scope({}, {**NOTHING, "looks": 1, "ticks": 3}, workers=1, confused=True),
        {State.NOT_FOUND, State.UNKNOWN},
    ),
    "a provider that accepts and takes its time": (
        Scope({}, {**NOTHING, "looks": 1, "ticks": 3}, workers=1, pending=True),
        {State.NOT_FOUND, State.UNKNOWN},
    ),
    "a provider that says no and does it": (
        Scope(TWICE, {**NOTHING, "crashes": 1, "ticks": 1}, workers=1, lying=True, careless=True),
        {State.REJECTED},
    ),
    "three claims, rejections that are tried again": (
        Scope(TWICE, {**NOTHING, "claims": 3, "ticks": 1}, workers=3),
        {State.REJECTED, State.CONFIRMED},
    ),
    "replays under a key": (
        Scope(DEDUPED, {**NOTHING, "looks": 1, "ticks": 4}, workers=1, key=True),
        {State.CONFIRMED, State.RECONCILING},
    ),
    "replays of what is repeatable, two workers": (
        Scope(REPLAYABLE, {**NOTHING, "ticks": 4}, key=True),
        {State.CONFIRMED, State.UNKNOWN},
    ),
}


@pytest.mark.parametrize("name", SCOPES)
def test_no_order_of_steps_dispatches_twice_without_a_reason(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And at most one holder believes at a time that it may call, no evidence is lost, and there is at most one effect."""
    scope, expected = SCOPES[name]
    explorer = Explorer(scope)
    states = explorer.explore()
    with capsys.disabled():
        print(f"\n{name}: {states:,} states, {explorer.transitions:,} steps, {explorer.dispatches:,} dispatches")
    assert explorer.reached >= expected
    assert states > 1_000
    assert explorer.dispatches > 20


GRANT, ABSENCE, RELEASE = "dispatch_granted", "absence_established", "dispatch_released"
NEEDED: list[tuple[str, str, Scope, str]] = [
    # event, guard that is taken out, scope, rule that breaks
    (GRANT, "claim_open", Scope({}, {**NOTHING, "claims": 1, "ghosts": 1}, workers=1), "a withdrawn claim is never granted"),
    (GRANT, "next_attempt", Scope(TWICE, {**NOTHING, "ghosts": 1}), "attempts rise by one"),
    (GRANT, "group_admits_grant", Scope({}, {**NOTHING, "claims": 1, "unwinds": 1}, workers=1), "after unwinding started"),
    (GRANT, "no_late_effect", Scope(TWICE, NOTHING, lying=True, careless=True, workers=1), "beside evidence of an effect"),
    (GRANT, "attempt_left", Scope(ONCE, NOTHING, careless=True, workers=1), "no more attempts than"),
    (GRANT, "replay_permitted", Scope({}, NOTHING, careless=True), "a second dispatch has a recorded reason|at most one"),
    (ABSENCE, "names_last_attempt", Scope({}, {**NOTHING, "looks": 4, "ticks": 2}, workers=1), "absent for good"),
    (ABSENCE, "absence_window_passed", Scope({}, {**NOTHING, "claims": 1, "looks": 1}, workers=1), "absent for good"),
    (
        ABSENCE,
        "no_reference_on_record",
        Scope({}, {**NOTHING, "looks": 1, "ticks": 1}, pending=True, workers=1),
        "absent for good",
    ),
    ("lease_expired", "lease_over", Scope({}, {**NOTHING, "claims": 1}, workers=1), "over for its holder"),
    (RELEASE, "nothing_answered", Scope({}, {**NOTHING, "claims": 1}, confused=True, workers=1), "answered is not taken back"),
]


def without(rows: tuple[Row, ...], guard: str) -> tuple[Row, ...]:
    return tuple(row._replace(guards=tuple(one for one in row.guards if one.__name__ != guard)) for row in rows)


@pytest.mark.parametrize(("event", "guard", "scope", "rule"), NEEDED, ids=[f"{row[0]} without {row[1]}" for row in NEEDED])
def test_a_rule_that_is_left_out_shows_a_history_that_goes_wrong(
    event: str, guard: str, scope: Scope, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(one.__name__ == guard for row in BY_EVENT[event] for one in row.guards)
    Explorer(scope).explore()
    monkeypatch.setattr(fold_module, "BY_EVENT", {**BY_EVENT, event: without(BY_EVENT[event], guard)})
    with pytest.raises(Violation, match=rule):
        Explorer(scope).explore()
