"""The report of observe mode: what would have been refused and what was said, beside what the providers showed (§10)."""

from typing import Any

import pytest
from tests.history import event

from landed.core.decide import WOULD_BE_SENT_AGAIN
from landed_services.queries.observing import Observed, Seen, report

CONFIRMED, REJECTED, UNKNOWN = "outcome_confirmed", "outcome_rejected", "outcome_unknown"
WORKER = {"source": "worker", "claim_id": "k1"}


def operation(*told: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str], name: str = "op") -> Observed:
    seen = [
        Seen(event=event(one[0], name, event_id=f"e{at}", **one[1]), mark=one[2] if len(one) > 2 else None)
        for at, one in enumerate(told)
    ]
    return Observed(operation_id=name, tool="pay", state="confirmed", events=tuple(seen))


GRANTED = ("dispatch_granted", {"observe": "policy_denied"})
LET_THROUGH = ("dispatch_refused", {"claim_id": "k2", "reason": "in_flight", "observe": True})

CAME_OF_IT: list[tuple[str, list[Any], tuple[int, int, int, int]]] = [
    # what came of a call that would have been refused: effect, second effect, none, nothing yet
    ("an effect", [GRANTED, (CONFIRMED, WORKER)], (1, 0, 0, 0)),
    ("none", [GRANTED, (REJECTED, {})], (0, 0, 1, 0)),
    ("proven absence", [GRANTED, (UNKNOWN, {}), ("absence_established", {})], (0, 0, 1, 0)),
    ("nothing yet", [GRANTED, (UNKNOWN, {})], (0, 0, 0, 1)),
    ("found later", [GRANTED, (UNKNOWN, {}), (CONFIRMED, {"source": "probe"})], (1, 0, 0, 0)),
]


@pytest.mark.parametrize(("title", "told", "counts"), CAME_OF_IT, ids=[row[0] for row in CAME_OF_IT])
def test_a_call_that_would_have_been_refused_is_shown_with_what_came_of_it(
    title: str, told: list[Any], counts: tuple[int, int, int, int]
) -> None:
    (row,) = report([operation(*told)]).would_refuse
    assert (row.tool, row.reason, row.calls, row.operations) == ("pay", "policy_denied", 1, ("op",))
    assert (row.had_effect, row.second_effects, row.had_none, row.nothing_yet) == counts


def test_a_second_effect_is_one_that_the_refusal_would_have_prevented() -> None:
    second = (CONFIRMED, {"source": "worker", "claim_id": "k2", "attempt": None, "reference": "r2"}, "duplicate_effect")
    granted: tuple[str, dict[str, Any]] = ("dispatch_granted", {})
    (row,) = report([operation(granted, LET_THROUGH, (CONFIRMED, WORKER), second)]).would_refuse
    assert (row.reason, row.had_effect, row.second_effects) == ("in_flight", 1, 1)


@pytest.mark.parametrize(("reference", "second"), [("r1", 0), ("r2", 1), (None, 1)])
def test_an_effect_that_was_there_before_is_no_second_one(reference: str | None, second: int) -> None:
    first = (CONFIRMED, {"source": "worker", "claim_id": "k1", "reference": "r1"})
    repeated = (CONFIRMED, {"source": "worker", "claim_id": "k2", "attempt": None, "reference": reference})
    (row,) = report([operation(("dispatch_granted", {}), first, LET_THROUGH, repeated)]).would_refuse
    assert (row.had_effect, row.second_effects) == (1, second)


SAID: list[tuple[str, list[Any], tuple[str, str, bool]]] = [
    ("found after all", [(UNKNOWN, {}), (CONFIRMED, {"source": "probe"})], ("unknown", "effect", False)),
    ("absent after all", [(UNKNOWN, {}), ("absence_established", {})], ("unknown", "no_effect", False)),
    ("a person knows", [(UNKNOWN, {}), ("review_decided", {"choice": "confirmed"})], ("unknown", "effect", False)),
    (
        "a person knows better",
        [(CONFIRMED, WORKER), ("review_decided", {"choice": "rejected"})],
        ("confirmed", "no_effect", True),
    ),
    ("nobody knows", [(UNKNOWN, {})], ("unknown", "nothing_yet", False)),
    ("no effect after all", [(CONFIRMED, WORKER), (REJECTED, {"source": "webhook"})], ("confirmed", "no_effect", True)),
    ("confirmed twice", [(CONFIRMED, WORKER), (CONFIRMED, {"source": "webhook"})], ("confirmed", "effect", False)),
    ("an effect after all", [(REJECTED, {}), (CONFIRMED, {"source": "sweep"})], ("rejected", "effect", True)),
]


@pytest.mark.parametrize(("title", "told", "row"), SAID, ids=[row[0] for row in SAID])
def test_what_was_said_of_a_call_is_held_against_what_others_showed(
    title: str, told: list[Any], row: tuple[str, str, bool]
) -> None:
    (found,) = report([operation(("dispatch_granted", {}), *told)], observing=frozenset({"pay"})).classified
    assert (found.said, found.shown, found.contradicts) == row


def test_operations_that_nobody_observed_are_not_counted() -> None:
    assert report([operation(("dispatch_granted", {}), (CONFIRMED, WORKER))]).operations == 0


def test_what_would_have_been_sent_again_is_counted() -> None:
    again = ("dispatch_refused", {"claim_id": "k2", "reason": "policy_denied", "detail": {"rule": WOULD_BE_SENT_AGAIN}})
    (row,) = report([operation(("dispatch_granted", {}), (UNKNOWN, {}), again)]).would_send_again
    assert (row.tool, row.replays, row.operations) == ("pay", 1, ("op",))
