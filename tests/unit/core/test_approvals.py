"""Approvals: bound to the request, decided once and in time (§5); observe mode and statements of agents (§10)."""

from typing import Any

import pytest
from tests.history import REPLAYABLE, T0, History, claim

from landed.core import events as ev
from landed.core.approvals import open_approval, request_of, undecidable
from landed.core.decide import WOULD_BE_SENT_AGAIN, Facts, Granted, Refused, decide
from landed.core.offers import offers
from landed.core.projection import decision_event
from landed.core.state import Operation
from landed.core.statements import STATEMENTS, disagrees, disagrees_now
from landed.core.verdict import LET_THROUGH, verdict_of
from landed.core.vocabulary import Choice, Refusal


def facts(**changes: Any) -> Facts:
    return Facts(**{"now_ms": T0, "claimed_at_ms": T0, "approval_needed": True, "policy_version": "p1", **changes})


def asked(history: History, **changes: Any) -> tuple[Granted | Refused, ev.ApprovalRequested | None]:
    """The decision of a claim, and the request for approval that goes with it."""
    known, operation = facts(**changes), history.op()
    answer = decide(history.route, "X", claim(), known)
    request = request_of(operation, history.log[0].event, claim(), answer, known) if isinstance(answer, Refused) else None
    return answer, request


def requested(**body: Any) -> History:
    return History().prepare().must("approval_requested", **body)


# ---- asking ------------------------------------------------------------------------------------------------------------


def test_a_claim_without_approval_asks_for_one_of_its_own_request() -> None:
    answer, request = asked(History().prepare(), approval_lifetime_ms=5_000, approval_wait_ms=700, four_eyes=True)
    assert isinstance(answer, Refused)
    assert (answer.reason, answer.detail["approval_wait_ms"]) == (Refusal.APPROVAL_REQUIRED, "700")
    assert request is not None
    assert (request.request_hash, request.expires_at_ms, request.requested_by) == ("h1", T0 + 5_000, "w1")
    assert (request.policy_version, request.four_eyes, request.seen_version) == ("p1", True, 1)


def test_the_same_claim_decided_twice_asks_once_and_other_requests_ask_under_other_ids() -> None:
    _, first = asked(History().prepare())
    _, again = asked(History().prepare())
    assert first == again
    history = requested(approval_id=first.approval_id, expires_at_ms=T0)  # type: ignore[union-attr]
    _, next_one = asked(history)
    assert next_one is not None
    assert next_one.approval_id != first.approval_id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "reason", "asks"),
    [
        (lambda: requested(), Refusal.APPROVAL_REQUIRED, False),
        (lambda: requested(expires_at_ms=T0), Refusal.APPROVAL_EXPIRED, True),
        (lambda: requested().must("approval_decided", decision="deny", policy_version="p1"), Refusal.POLICY_DENIED, False),
        (lambda: requested().must("approval_decided", policy_version="p0"), Refusal.POLICY_DENIED, True),
        (lambda: requested().must("approval_decided", expires_at_ms=T0, policy_version="p1"), Refusal.APPROVAL_EXPIRED, True),
        (lambda: requested(request_hash="h2"), Refusal.APPROVAL_REQUIRED, True),
    ],
    ids=["one is open", "it lapsed", "it was denied", "another policy", "it is over", "it is about another request"],
)
def test_a_new_approval_is_asked_for_where_a_person_said_nothing_that_still_holds(
    given: Any, reason: Refusal, asks: bool
) -> None:
    answer, request = asked(given())
    assert isinstance(answer, Refused)
    assert answer.reason is reason
    assert (request is not None) is asks


def test_nothing_is_asked_for_a_tool_that_is_disabled() -> None:
    answer, request = asked(requested().must("approval_decided", policy_version="p0"), tool_disabled=True)
    assert isinstance(answer, Refused)
    assert answer.detail["rule"] == "tool disabled"
    assert request is None


# ---- deciding ----------------------------------------------------------------------------------------------------------

IN_VAIN: list[tuple[str, Any, dict[str, Any]]] = [
    ("approval_not_requested", lambda: History().prepare(), {}),
    ("approval_not_requested", lambda: requested(), {"approval_id": "other"}),
    ("request_mismatch", lambda: requested(), {"request_hash": "h2"}),
    ("approval_expired", lambda: requested(expires_at_ms=T0), {}),
    ("approver_is_requester", lambda: requested(four_eyes=True), {"approver": "w1"}),
    ("approval_already_decided", lambda: requested().must("approval_decided", decision="deny"), {}),
]


@pytest.mark.parametrize(("why", "given", "said"), IN_VAIN, ids=[f"{row[0]} {number}" for number, row in enumerate(IN_VAIN)])
def test_a_decision_that_does_not_count_is_kept_and_grants_nothing(why: str, given: Any, said: dict[str, Any]) -> None:
    history = given()
    before = history.op().approvals
    body = {"approval_id": "a1", "request_hash": "h1", "approver": "anna", **said}
    known = next((one for one in before if one.approval_id == body["approval_id"]), None)
    assert undecidable(known, request_hash=body["request_hash"], approver=body["approver"], at_ms=T0) == why
    history.must("approval_decided", **body)
    assert history.op().approvals == before
    assert isinstance(asked(history)[0], Refused)


def test_an_approval_is_open_until_it_is_used_or_denied() -> None:
    history = requested()
    assert _open(history.op()) == "a1"
    history.must("approval_decided", policy_version="p1")
    assert _open(history.op()) == "a1"
    assert _open(history.grant(approval_id="a1").op()) is None
    released = history.must("dispatch_released", attempt=1).op()
    assert _open(released) == "a1", "nothing was called: it has not run"
    assert _open(requested().must("approval_decided", decision="deny").op()) is None
    assert _open(history.grant(approval_id="a1").must("outcome_rejected", attempt=2, claim_id="k2").op()) is None, "it was used"


def _open(operation: Operation) -> str | None:
    found = open_approval(operation)
    return None if found is None else found.approval_id


# ---- observe mode ------------------------------------------------------------------------------------------------------


def observed(history: History, **changes: Any) -> Granted | Refused:
    return decide(history.route, "X", claim("k9"), facts(observe=True, approval_needed=False, **changes))


def test_observe_mode_grants_what_policy_would_refuse_and_says_what_it_would_have_been() -> None:
    history = History().prepare()
    for changes in ({"tool_disabled": True}, {"breaker": "{}"}, {"resource_holders": {"r": "other"}}):
        answer = observed(history, **changes)
        assert isinstance(answer, Granted)
        assert answer.observe is not None
        decision = decision_event(_claimed(history), answer, policy_version="p1", version=1)
        assert isinstance(decision, ev.DispatchGranted)
        assert decision.observe == answer.observe.reason
        assert decision.policy_version == "p1"
    plain = observed(history)
    assert isinstance(plain, Granted)
    assert plain.observe is None


def test_a_tool_without_contract_runs_in_observe_mode_and_nowhere_else() -> None:
    history = History().must("operation_prepared")
    assert isinstance(observed(history), Granted)
    refused = decide(history.route, "X", claim("k9"), facts(approval_needed=False))
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.NO_CONTRACT


def test_what_nobody_waits_for_is_refused_in_observe_mode_too() -> None:
    assert isinstance(observed(History().prepare(), claimed_at_ms=0), Refused)
    assert isinstance(observed(History().prepare(), invalid="x"), Refused)


def test_what_automation_would_send_again_is_recorded_and_never_let_through() -> None:
    history = History().prepare(terms=REPLAYABLE | {"safe_window": 0}).grant().expire()
    replay = {"replay": True, "replay_reason": "safe_replay"}
    now = {"now_ms": history.now_ms, "claimed_at_ms": history.now_ms, "approval_needed": False}
    assert isinstance(decide(history.route, "X", claim("k9", **replay), facts(**now)), Granted), "it would be sent"
    refused = decide(history.route, "X", claim("k9", **replay), facts(observe=True, **now))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.observe, refused.detail["rule"]) == (Refusal.POLICY_DENIED, False, WOULD_BE_SENT_AGAIN)
    early = History().prepare(terms=REPLAYABLE).grant().expire()
    stopped = decide(early.route, "X", claim("k9", **replay), facts(observe=True, approval_needed=False))
    assert isinstance(stopped, Refused)
    assert stopped.reason is Refusal.UNRESOLVED, "a replay that the rules forbid is not let through either"


def test_a_caller_that_was_let_through_is_told_so_without_an_attempt() -> None:
    history = History().prepare().grant()
    answer = observed(history)
    assert isinstance(answer, Granted)
    assert answer.observe is not None
    assert not history.add("dispatch_granted", claim_id="k9", attempt=answer.attempt).accepted
    history.must("dispatch_refused", claim_id="k9", reason=answer.observe.reason, observe=True)
    verdict = verdict_of(history.op(), history.log[-1], claim=claim("k9"), accepted=True)
    assert verdict is not None
    assert (verdict.granted, verdict.attempt, verdict.observe, verdict.reason) == (True, LET_THROUGH, "in_flight", None)


def _claimed(history: History) -> ev.Entry:
    said = history.add("dispatch_requested", claim=claim("k9"))
    assert said.accepted
    return history.log[-1]


# ---- what agents told ---------------------------------------------------------------------------------------------------

TOLD = [
    (lambda: History().prepare().grant().must("outcome_confirmed"), {"succeeded", "confirmed"}),
    (lambda: History().prepare().grant().must("outcome_rejected"), {"failed", "rejected", "not_found"}),
    (lambda: History().prepare().grant().expire(), {"unknown", "dispatched", "reconciling"}),
    (lambda: History().prepare().grant().expire().must("operation_escalated"), {"needs_human", "escalated"}),
    (lambda: History().prepare().must("operation_cancelled"), {"cancelled"}),
    (lambda: History().prepare(), {"prepared"}),
]


@pytest.mark.parametrize(("given", "agreeing"), TOLD)
def test_a_statement_agrees_with_the_words_that_mean_the_same_and_with_no_other(given: Any, agreeing: set[str]) -> None:
    operation = given().op()
    assert {word for word in STATEMENTS if not disagrees(word, operation)} == agreeing
    assert disagrees("booked!", operation)


def test_a_disagreement_is_counted_when_it_is_told_and_shown_as_long_as_it_holds() -> None:
    history = History().prepare().grant().expire().must("agent_statement", claimed_state="succeeded")
    assert (history.op().disagreements, disagrees_now(history.op())) == (1, True)
    history.must("outcome_confirmed")
    assert (history.op().disagreements, disagrees_now(history.op())) == (1, False)
    history.must("agent_statement", claimed_state="succeeded", message_digest="m2").must("effect_reverted")
    assert (history.op().disagreements, disagrees_now(history.op())) == (1, True), "what was true then is not what holds now"


# ---- what a reviewer is offered -----------------------------------------------------------------------------------------


def test_offers_say_from_when_a_choice_that_calls_again_is_safe_and_the_fold_agrees() -> None:
    history = History().prepare().grant().expire().must("operation_escalated")
    waits = {one.choice: one.from_ms for one in offers(history.route, history.op(), now_ms=history.now_ms)}
    assert [choice for choice, from_ms in waits.items() if from_ms] == [Choice.NOT_FOUND]
    from_ms = waits[Choice.NOT_FOUND]
    assert from_ms is not None
    history.now_ms = from_ms - 1
    early = history.add("review_decided", choice="not_found")
    assert (early.accepted, early.reason) == (False, "safe_window")
    history.now_ms = from_ms
    assert all(one.is_open for one in offers(history.route, history.op(), now_ms=from_ms))
    history.must("review_decided", choice="not_found")
    assert offers(history.route, history.op(), now_ms=from_ms) == ()


def test_another_attempt_of_an_inverse_is_not_offered_while_nobody_knows_whether_it_happened() -> None:
    history = History().prepare(terms={"outcome_probe": None, "on_absent": "escalate"}).grant().must("outcome_confirmed").unwind()
    history.prepare("compensate:X", tool="cancel_refund", terms={"max_attempts": 1}).grant("compensate:X")
    history.expire("compensate:X").must("operation_escalated", "compensate:X")
    (again,) = [one for one in offers(history.route, history.op(), now_ms=history.now_ms) if one.choice is Choice.COMPENSATING]
    assert again.blocked_by == "compensate:X"
