"""Rules of the fold that the transition table does not show: what an event writes beside the state."""

import pytest
from msgspec.structs import replace
from tests.history import (
    DEDUPED,
    LEASE_MS,
    OF_A_GROUP,
    OF_NEITHER,
    QUIET_MS,
    REPLAYABLE,
    T0,
    History,
    claim,
    contract,
    entry,
    event,
)

from landed.core.contract import Compensation, OperationKey, contract_json
from landed.core.decide import Facts, Granted, Refused, decide
from landed.core.events import CATALOGUE, Position
from landed.core.fold import freeze
from landed.core.reconciliation import due_at_ms
from landed.core.vocabulary import Choice, EscalationReason, ForwardOutcome, GroupState, Mark, OnAbsent, State

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


# ---- two who ask for the same (§8) --------------------------------------------------------------------------------------


def test_of_two_requests_to_undo_a_group_the_first_counts_with_its_reason_and_its_inputs() -> None:
    """The second would take the part of an amount away that the first one named, and the whole would be refunded."""
    history = History().prepare()
    history.must("unwind_requested", None, reason="first", inputs='{"X": {"amount": 5}}')
    history.must("unwind_requested", None, reason="second", inputs=None)
    history.must("unwind_requested", None, reason="third", inputs='{"X": {"amount": 9}}')
    history.must("group_unwinding", None, reason="first")
    history.must("unwind_requested", None, reason="fourth", inputs='{"X": {"amount": 10}}')
    assert (history.route.unwind_reason, history.route.unwind_inputs) == ("first", '{"X": {"amount": 5}}')
    without = History().prepare().must("unwind_requested", None, inputs=None)
    without.must("unwind_requested", None, reason="second", inputs='{"X": {"amount": 5}}')
    assert without.route.unwind_inputs is None


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


# ---- intent (§1, §3, §8) ------------------------------------------------------------------------------------------------


def test_a_claim_that_the_same_intent_brings_again_is_the_first_claim_of_its_operation() -> None:
    """What is confirmed by then comes before it in the group's order."""
    history = History().prepare("A").prepare("B", depends_on=None)
    history.grant("A").must("outcome_confirmed", "A")
    history.prepare("B", depends_on=None, claim=claim())
    assert history.op("B").confirmed_before == ("A",)


def test_the_first_intent_says_what_an_operation_replaces() -> None:
    history = History().prepare("A").prepare("B").prepare("B", replaces="A")
    assert history.op("A").replaced_by is None
    history.prepare("C", replaces="A")
    assert (history.op("A").replaced_by, history.op("C").replaces) == ("C", "A")


# ---- total: whatever contract is on the log -----------------------------------------------------------------------------

HOSTILE_CONTRACTS = {
    "no JSON": "{",
    "another shape": "[]",
    "a field of a later release": contract_json(contract()).replace('{"tool"', '{"novelty":1,"tool"'),
    "deeply nested": '{"tool":' + "[" * 100_000,
    "a lone surrogate": '"\ud800"',
}


@pytest.mark.parametrize("text", HOSTILE_CONTRACTS.values(), ids=HOSTILE_CONTRACTS)
def test_a_contract_that_cannot_be_read_raises_nothing_and_allows_nothing(text: str) -> None:
    history = History().must("operation_prepared", contract=text)
    assert history.op().contract is None
    history.grant().expire().wait(10 * QUIET_MS).must("probe_recorded")
    assert not history.add("absence_established").accepted
    assert not history.add("dispatch_granted", claim_id="k2", attempt=2, replay=True).accepted
    refused = decide(history.route, "X", claim("k3"), Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms))
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("seconds", [1e308, -1e308])
def test_absurd_durations_of_a_contract_on_the_log_raise_nothing(seconds: float) -> None:
    terms = {**DEDUPED, "safe_window": seconds, "longest_processing": seconds}
    terms["operation_key"] = OperationKey(header="Idempotency-Key", lifetime=seconds)
    history = History().prepare(terms=terms).grant()
    history.must("lease_renewed").must("outcome_unknown").must("probe_recorded")
    history.add("dispatch_granted", claim_id="k2", attempt=2, replay=True)
    history.add("absence_established")
    history.unwind()
    assert history.op().state in (State.RECONCILING, State.NOT_FOUND, State.DISPATCHED)


# ---- erased and retired (§2) --------------------------------------------------------------------------------------------


def unresolved_late_effect() -> History:
    history = History().prepare().grant().must("outcome_rejected").must("operation_erased", final_state="rejected")
    return history.must("outcome_confirmed")


@pytest.mark.parametrize("choice", Choice)
def test_a_reviewer_only_acknowledges_what_arrived_after_an_erasure(choice: Choice) -> None:
    history = unresolved_late_effect()
    assert history.add("review_decided", review_id=7, choice=str(choice)).reason == "review_not_open"
    said = history.add("review_decided", choice=str(choice))
    assert said.accepted is (choice is Choice.ACKNOWLEDGED)
    assert history.op().state is State.REJECTED
    assert (history.op().review is None) is said.accepted


@pytest.mark.parametrize("state", State)
def test_a_claim_on_an_erased_operation_gets_its_state_and_never_a_grant(state: State) -> None:
    """Whatever stood before the erasure, and also when nothing else is left of the operation."""
    terms = {**REPLAYABLE, "retry_rejected": True, "max_attempts": 5}
    for before in (History(), History().prepare(terms=terms), History().prepare(terms=terms).grant().must("dispatch_released")):
        history = before.must("operation_erased", final_state=str(state)).wait(10 * QUIET_MS)
        facts = Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms, presented_contract=contract())
        answer = decide(history.route, "X", claim("k9", replay=True, retry=True), facts)
        assert isinstance(answer, Refused)
        assert not history.add("dispatch_granted", claim_id="k9", attempt=2, replay=True).accepted


@pytest.mark.parametrize("left", range(4))
def test_an_eraser_that_stopped_midway_revives_nothing(left: int) -> None:
    """Tombstones remove the newest records first; the retirement stays, and the fold starts from it whatever is left before."""
    whole = History().prepare().grant().must("outcome_confirmed")
    history = History()
    for one in whole.log[:left]:
        history.take(one)
    history.must("operation_retired", final_state="confirmed", seen_version=whole.op().version)
    assert (history.op().state, history.op().final) == (State.CONFIRMED, True)
    assert history.add("dispatch_granted", claim_id="k9", attempt=2).reason == "final"


def test_a_retirement_that_something_overtook_is_refused() -> None:
    history = History().prepare().grant().must("outcome_confirmed")
    seen = history.op().version
    history.must("effect_reverted")
    assert history.add("operation_retired", seen_version=seen).reason == "review_open"


@pytest.mark.parametrize("state", ["none", "prepared", "dispatched", "unknown", "reconciling", "escalated", "compensating"])
def test_nothing_is_retired_into_a_state_that_settles_nothing(state: str) -> None:
    assert History().prepare().add("operation_retired", final_state=state, seen_version=9).reason == "not_settled"


# ---- people (§10) -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_absent", OnAbsent)
@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_a_reviewer_allows_one_attempt_more_whatever_the_contract_says(max_attempts: int, on_absent: OnAbsent) -> None:
    history = History().prepare(terms={"max_attempts": max_attempts, "on_absent": on_absent})
    history.grant().expire().must("operation_escalated").wait(QUIET_MS).must("review_decided", choice="not_found")
    facts = Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms)
    assert isinstance(decide(history.route, "X", claim("k2", retry=True), facts), Granted)
    history.grant().expire().absent()
    more = history.add("dispatch_granted", claim_id="k3", attempt=3)
    assert more.accepted is (max_attempts > 2 and on_absent is not OnAbsent.ESCALATE), "after that one the contract counts again"


@pytest.mark.parametrize("terms", [{}, {"retry_rejected": True}])
def test_the_choice_rejected_waits_for_the_window_where_the_contract_tries_again(terms: dict[str, bool]) -> None:
    def given() -> History:
        return History().prepare(terms=terms).grant().expire().must("operation_escalated")

    assert given().add("review_decided", choice="rejected").reason == ("safe_window" if terms else None)
    assert given().wait(QUIET_MS).add("review_decided", choice="rejected").accepted


def inverse_dispatched() -> History:
    history = History().prepare().grant().must("outcome_confirmed").unwind()
    return history.prepare("compensate:X", tool="cancel_refund", terms={"max_attempts": 1}).grant("compensate:X")


def test_the_choice_compensating_needs_no_proof_about_an_inverse_that_was_never_sent() -> None:
    history = inverse_dispatched().must("dispatch_released", "compensate:X").must("operation_escalated", reason="inverse_failed")
    history.must("review_decided", choice="compensating")
    assert (history.op().state, history.op("compensate:X").state) == (State.COMPENSATING, State.PREPARED)


def test_the_choice_compensating_closes_no_attempt_of_the_inverse() -> None:
    """A person's word closes no attempt: what is open stays open until it is answered."""
    history = inverse_dispatched().expire("compensate:X").must("outcome_rejected", "compensate:X").wait(QUIET_MS)
    before = history.op("compensate:X").attempts
    history.must("review_decided", choice="compensating")
    assert history.op("compensate:X").state is State.NOT_FOUND
    assert history.op("compensate:X").attempts == before


@pytest.mark.parametrize(("choice", "inverse"), [("kept", State.CANCELLED), ("compensated", State.ESCALATED)])
def test_a_decision_about_a_failed_inverse_ends_the_recovery_of_the_group(choice: str, inverse: State) -> None:
    """Nothing waits for a person any more, whatever the inverse is left as."""
    history = inverse_dispatched().expire("compensate:X").must("operation_escalated", "compensate:X")
    before = history.route.group_state
    history.must("review_decided", choice=choice)
    assert history.op("compensate:X").state is inverse
    assert (before, history.route.group_state) == (GroupState.NEEDS_HUMAN, GroupState.UNWOUND)


@pytest.mark.parametrize(
    ("choice", "inverse", "forward", "group"),
    [
        ("compensating", State.NOT_FOUND, State.COMPENSATING, GroupState.UNWINDING),
        ("kept", State.CANCELLED, State.CONFIRMED, GroupState.UNWOUND),
        ("compensated", State.ESCALATED, State.COMPENSATED, GroupState.UNWOUND),
    ],
)
def test_an_inverse_that_comes_undone_takes_its_forward_operation_back_from_compensated_to_one_task(
    choice: str, inverse: State, forward: State, group: GroupState
) -> None:
    """A refund that bounces days later: the charge stands again, and nobody may be told that it was taken back."""
    history = inverse_dispatched().must("outcome_confirmed", "compensate:X", reference="rf-1").wait(QUIET_MS)
    assert history.op().state is State.COMPENSATED
    history.must("effect_reverted", "compensate:X")
    assert (history.op().state, history.op().escalated_for) == (State.ESCALATED, EscalationReason.INVERSE_FAILED)
    assert history.op().review is not None
    assert history.op("compensate:X").review is None
    assert history.route.group_state is GroupState.NEEDS_HUMAN
    history.must("review_decided", choice=choice)
    assert (history.op("compensate:X").state, history.op().state, history.route.group_state) == (inverse, forward, group)
    again = history.add("dispatch_granted", "compensate:X", claim_id="again", attempt=2)
    assert again.accepted is (choice == "compensating")


def test_an_inverse_that_comes_undone_after_its_forward_operation_was_erased_is_a_task_of_its_own() -> None:
    history = inverse_dispatched().must("outcome_confirmed", "compensate:X")
    history.must("operation_erased", final_state="compensated").must("effect_reverted", "compensate:X")
    assert (history.op().state, history.op("compensate:X").state) == (State.COMPENSATED, State.ESCALATED)
    assert history.op("compensate:X").review is not None


def test_the_choice_kept_cancels_an_inverse_that_is_prepared() -> None:
    history = History().prepare().grant().must("outcome_confirmed").unwind().prepare("compensate:X", tool="cancel_refund")
    history.must("operation_escalated", reason="skipped").must("review_decided", choice="kept")
    assert history.op("compensate:X").state is State.CANCELLED
    assert history.op("compensate:X").settled_at_ms == history.now_ms


def test_what_a_reviewer_confirmed_has_its_time_its_reference_and_can_be_contradicted() -> None:
    doubtful = History().prepare().grant().expire().must("operation_escalated")
    late = History().prepare().grant().must("outcome_rejected").must("outcome_confirmed", reference="r9")
    for history in (doubtful, late):
        history.wait(7).must("review_decided", choice="confirmed", reference="r9")
        assert (history.op().state, history.op().confirmed_at_ms) == (State.CONFIRMED, history.now_ms)
        assert [one.value for one in history.op().references] == ["r9"]
        facts = Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms)
        answer = decide(history.route, "X", claim("k2"), facts)
        assert isinstance(answer, Refused)
        assert answer.detail == {"reference": "r9", "at_ms": str(history.now_ms)}
        assert history.add("outcome_rejected").mark is Mark.CONTRADICTION


# ---- contradiction (§3) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "reference", "mark"),
    [
        (1, None, Mark.CONTRADICTION),
        (1, "r2", Mark.CONTRADICTION),
        (None, "r1", Mark.CONTRADICTION),
        (None, "r0", None),
        (None, "r2", None),
        (2, None, None),
    ],
)
def test_a_rejection_contradicts_the_attempt_or_the_reference_that_was_confirmed(
    attempt: int | None, reference: str | None, mark: Mark | None
) -> None:
    """r0 was accepted and never settled, r1 was confirmed."""
    history = History().prepare().grant().must("outcome_unknown", reference="r0").must("outcome_confirmed", reference="r1")
    said = history.add("outcome_rejected", attempt=attempt, reference=reference)
    assert (said.accepted, said.mark) == (True, mark)


# ---- attempts and leases (§3) -------------------------------------------------------------------------------------------


def test_a_second_effect_after_a_reverted_one_has_its_own_receipt_and_is_undone_like_any_other() -> None:
    history = History().prepare().grant().must("outcome_confirmed", receipt='{"id": "r1"}', removed_at_ms=1, no_op=True)
    history.must("effect_reverted").must("review_decided", choice="kept")
    history.must("effect_reverted").wait(QUIET_MS).must("review_decided", review_id=2, choice="not_found")
    history.grant().must("outcome_confirmed", attempt=2, reference="r2", receipt='{"id": "r2"}')
    op = history.op()
    assert (op.receipt, op.confirmed_attempt, op.removed_at_ms, op.no_op, op.kept) == ('{"id": "r2"}', 2, None, False, False)
    assert [one.value for one in op.references] == ["r1", "r2"]


@pytest.mark.parametrize("longest_processing", [0.0, 15.0])
@pytest.mark.parametrize("lease_ms", [-5_000, 0, 1, LEASE_MS, 100 * LEASE_MS])
def test_a_renewal_never_shortens_a_lease_and_never_reaches_beyond_the_longest_processing(
    lease_ms: int, longest_processing: float
) -> None:
    history = History().prepare(terms={"longest_processing": longest_processing}).grant().wait(1_000)
    history.must("lease_renewed", lease_ms=lease_ms)
    end_ms = history.op().attempts[0].lease_end_ms - T0
    asked_ms = min(1_000 + lease_ms, round(longest_processing * 1_000) or 1_000 + lease_ms)
    assert end_ms == max(LEASE_MS, asked_ms)


@pytest.mark.parametrize("news", ["outcome_confirmed", "outcome_rejected", "dispatch_released"])
def test_an_inverse_that_leaves_its_escalation_keeps_no_reason_of_it(news: str) -> None:
    """Its task was held by X; the reason is gone with the state."""
    history = inverse_dispatched().expire("compensate:X").must("operation_escalated", "compensate:X").must(news, "compensate:X")
    assert history.op("compensate:X").state is not State.ESCALATED
    assert history.op("compensate:X").escalated_for is None


@pytest.mark.parametrize(("reference", "state"), [("r0", State.REJECTED), ("r5", State.UNKNOWN), (None, State.UNKNOWN)])
def test_a_rejection_may_name_its_attempt_by_the_reference_that_it_brought(reference: str | None, state: State) -> None:
    history = History().prepare().grant().must("outcome_unknown", reference="r0")
    history.must("outcome_rejected", source="webhook", attempt=None, claim_id=None, reference=reference)
    assert history.op().state is state
    assert history.op().attempts[0].open is (state is State.UNKNOWN)


# ---- a list of compensations (§4, §8) -----------------------------------------------------------------------------------


def test_of_a_list_of_inverses_the_next_runs_only_after_the_one_before_it_failed() -> None:
    """Two inverses at once would undo one effect twice."""
    history = inverse_dispatched().prepare("compensate:X:2", tool="cancel_refund", terms={"max_attempts": 1})
    for step in ("outcome_unknown", "probe_recorded"):
        assert history.add("dispatch_granted", "compensate:X:2", claim_id="c2").reason == "other_inverse"
        facts = Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms)
        answer = decide(history.route, "compensate:X:2", claim("c3", lease_ms=1), facts)
        assert isinstance(answer, Refused)
        history.must(step, "compensate:X")
    failed = inverse_dispatched().prepare("compensate:X:2", tool="cancel_refund").must("outcome_rejected", "compensate:X")
    failed.wait(QUIET_MS).must("review_decided", choice="compensating")
    failed.grant("compensate:X:2")
    assert failed.op("compensate:X:2").state is State.DISPATCHED


def test_each_inverse_of_a_list_is_safe_when_its_own_entry_says_so() -> None:
    careful = Compensation(tool="cancel_refund", safe_when=(ForwardOutcome.SUCCEEDED,))
    always = Compensation(tool="void_refund", safe_when=(ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN))
    history = History().prepare(terms={"compensation": (careful, always)}).grant().expire().unwind()
    history.prepare("compensate:X", tool="cancel_refund").prepare("compensate:X:2", tool="void_refund")
    assert history.add("dispatch_granted", "compensate:X").reason == "compensation_unsafe"
    answer = decide(history.route, "compensate:X", claim("c1"), Facts(now_ms=history.now_ms, claimed_at_ms=history.now_ms))
    assert isinstance(answer, Refused)
    assert answer.detail == {"state": "unknown", "safe_when": "succeeded"}
    history.grant("compensate:X:2")
    assert history.op().state is State.COMPENSATING


def test_a_group_record_that_cannot_be_read_freezes_operations_that_come_later_too() -> None:
    history = History().prepare("A")
    history.route = freeze(history.route, None, Position(partition=0, offset=7))
    history.prepare("B")
    for name in ("A", "B"):
        assert history.op(name).frozen_at == (Position(partition=0, offset=7),)
        assert due_at_ms(history.op(name)) is None


def test_an_erased_operation_is_never_due_again() -> None:
    history = History().prepare().grant()
    assert due_at_ms(history.op()) is not None
    history.must("operation_erased", final_state=State.DISPATCHED)
    assert due_at_ms(history.op()) is None
