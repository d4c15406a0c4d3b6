"""How a trial of IrrevonBench is played: which answer of the ledger ends it, and what an agent does before."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from bench.irrevon import play
from bench.irrevon.play import AgentDied, Answer, Call, Play

IDS = {"order_id": "17", "customer_ref": "C-1"}
ASKED, UNKNOWN, CONFIRMED = ("Refused", "approval_required"), ("Unknown", "TimeoutError"), ("Confirmed", None)


class Script:
    """Answers in their order, and what was asked of the ledger and of people."""

    def __init__(self, *answers: tuple[str, str | None] | None, until_ms: int | None = 0) -> None:
        self.answers = list(answers)
        self.until_ms = until_ms
        self.done: list[Any] = []

    def perform(self, call: Call, *, times: int = 1) -> Sequence[Answer]:
        self.done.append((call, times))
        given = [self.answers.pop(0) for _ in range(times)]
        if None in given:
            raise AgentDied
        return [Answer(one[0], "order:17:C-1", one[1]) for one in given if one is not None]

    def kill_caller(self) -> None:
        self.done.append("kill")

    def approve(self, operation_id: str, by: str) -> int | None:
        self.done.append(("approve", operation_id, by))
        return self.until_ms

    def cancel(self, group: str) -> None:
        self.done.append(("cancel", group))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "AGAIN_AFTER_S", 0.0)


def episode(fault: str | None = None, **other: Any) -> Any:
    known = {
        "fault": fault,
        "stable_ids": IDS,
        "parameters": {"sku": "a"},
        "authority_ref": "auth_1",
        "retries": 1,
        "resynth_parameters": None,
        "resynth_stable_ids": None,
        "authority_expired": fault == "stale-authorization",
        "branch_cancelled": fault == "branch-cancellation",
        "branch_ref": "branch-1" if fault == "branch-cancellation" else None,
    }
    return SimpleNamespace(**{**known, **other})


def played(script: Script, of: Any, **options: Any) -> play.Played:
    found = Play(of, "orders.create.c2", script, **options).run()
    assert script.answers == [], "every answer was taken"
    return found


@pytest.mark.parametrize(
    ("last", "outcome", "claim"),
    [
        (CONFIRMED, "committed", "unique"),
        (("Rejected", "400"), "failed", "absent"),
        (("Escalated", "no_probe"), "escalated", None),
        (("Refused", "cancelled"), "suppressed", None),
    ],
)
def test_a_doubt_ends_with_the_answer_that_settles_it_and_with_its_claim(last: Any, outcome: str, claim: str | None) -> None:
    found = played(Script(ASKED, UNKNOWN, ("Unknown", "unresolved"), last), episode("response-lost"))
    assert (found.outcome, found.claim) == (outcome, claim)


def test_what_was_never_in_doubt_claims_nothing_about_a_reconciliation() -> None:
    found = played(Script(ASKED, CONFIRMED), episode())
    assert (found.outcome, found.claim) == ("committed", None)


def test_the_stable_ids_name_the_operation_and_the_authority_of_the_trial_approves_it() -> None:
    script = Script(ASKED, CONFIRMED)
    played(script, episode())
    call = Call("orders.create.c2", {**IDS, "parameters": {"sku": "a"}}, None)
    assert script.done == [(call, 1), ("approve", "order:17:C-1", "auth_1"), (call, 1)]


def test_a_request_for_approval_that_lapses_too_early_is_made_again() -> None:
    script = Script(ASKED, ("Refused", "approval_expired"), ("Refused", "ledger_unavailable"), CONFIRMED, until_ms=None)
    assert played(script, episode()).outcome == "committed"


def test_an_authority_that_has_lapsed_is_not_asked_again() -> None:
    lapses_ms = round(time.time() * 1000) + 50
    script = Script(ASKED, ("Refused", "approval_expired"), until_ms=lapses_ms)
    found = played(script, episode("stale-authorization"))
    assert found.outcome == "suppressed"
    assert [one for one in script.done if one[0] == "approve"] == [("approve", "order:17:C-1", "auth_1")]
    assert time.time() * 1000 > lapses_ms, "it was presented after it had lapsed"


def test_a_branch_is_cancelled_between_intent_and_dispatch() -> None:
    script = Script(ASKED, ("Refused", "group_unwinding"))
    assert played(script, episode("branch-cancellation")).outcome == "suppressed"
    (before, _, cancelled, after) = script.done
    assert cancelled == ("cancel", "branch-1")
    assert before[0].group == after[0].group == "branch-1"


def test_a_killed_agent_comes_back_with_the_same_request_and_its_doubt_counts() -> None:
    script = Script(ASKED, None, ("Unknown", "in_flight"), CONFIRMED)
    found = played(script, episode(play.CRASH))
    assert script.done[0] == "kill"
    assert (found.outcome, found.claim) == ("committed", "unique")


def test_a_storm_is_made_at_once_while_the_first_call_is_in_doubt() -> None:
    doubt = ("Unknown", "unresolved")
    script = Script(ASKED, UNKNOWN, doubt, doubt, doubt, CONFIRMED)
    found = played(script, episode("retry-storm", retries=3))
    assert [times for _, times in (one for one in script.done if isinstance(one[0], Call))] == [1, 1, 3, 1]
    assert found.outcome == "committed"


def test_the_same_order_in_other_words_keeps_its_ids() -> None:
    script = Script(ASKED, UNKNOWN, ("Refused", "request_mismatch"), CONFIRMED)
    of = episode("semantic-resynthesis", resynth_parameters={"items": ["a"]}, resynth_stable_ids=IDS)
    assert played(script, of).outcome == "committed"
    reworded = script.done[3][0]
    assert reworded == Call("orders.create.c2", {**IDS, "parameters": {"items": ["a"]}}, None)


def test_a_doubt_that_nobody_settles_in_time_is_reported_as_such() -> None:
    found = played(Script(UNKNOWN), episode("response-lost"), settled_within_s=0.0)
    assert (found.outcome, found.claim) == ("ambiguous-unresolved", None)
