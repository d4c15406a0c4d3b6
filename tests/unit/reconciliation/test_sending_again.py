"""When a request is sent again by itself, and when it never is (docs/semantics.md §7, Replay). Pure, in its own time."""

from typing import Any

import pytest
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.contract import Compensation, Contract, OperationKey
from landed.core.due import gives_up_at_ms
from landed.core.reconciliation import (
    Absent,
    Append,
    Found,
    Probe,
    ProbeFailed,
    Replay,
    Step,
    Wait,
    due_at_ms,
    judge_refusal,
    next_step,
    priority,
    step_now,
)
from landed.core.vocabulary import (
    ActionClass,
    BytesLeft,
    Choice,
    EffectStatus,
    ForwardOutcome,
    GroupState,
    OnAbsent,
    Refusal,
    Stakes,
    State,
)

from .test_what_a_look_proves import CONTRACT, ENDED_MS, Story

WINDOW_END_MS = ENDED_MS + 30_000
KEY = OperationKey(header="Idempotency-Key", lifetime=100.0)
NO_LOOKUP: dict[str, Any] = {"outcome_probe": None, "on_absent": OnAbsent.ESCALATE}
SAFE = replace(CONTRACT, action_class=ActionClass.SAFE_REPLAY, **NO_LOOKUP)
DEDUPED = replace(CONTRACT, action_class=ActionClass.DEDUPE_SUPPORTED, operation_key=KEY, **NO_LOOKUP)


def step(story: Story, now_ms: int, *, cannot_replay: str | None = None, group: GroupState = GroupState.NONE) -> Step:
    return next_step(
        story.op,
        tenant_id="acme",
        route="op",
        now_ms=now_ms,
        can_probe=True,
        cannot_replay=cannot_replay,
        group_state=group,
    )


def escalation(found: Step) -> ev.OperationEscalated:
    assert isinstance(found, Append), found
    event = found.events[-1]
    assert isinstance(event, ev.OperationEscalated)
    return event


def absent(contract: Contract = CONTRACT) -> Story:
    story = Story(contract).unknown()
    story.look(Absent(), at_ms=WINDOW_END_MS)
    assert story.op.state is State.NOT_FOUND
    return story


def exhausted(contract: Contract) -> Story:
    """Looked at as often as the contract allows, and nothing was learnt."""
    story = Story(contract).unknown()
    while isinstance(step(story, due_at_ms(story.op) or 0), Probe):
        story.look(ProbeFailed("timeout"), at_ms=due_at_ms(story.op) or 0)
    return story


# ---- after absence ------------------------------------------------------------------------------------------------------


def test_proven_absence_is_followed_by_the_same_request_once_more() -> None:
    assert step(absent(), WINDOW_END_MS) == Replay(reason="absent")


def test_it_is_due_at_once() -> None:
    story = absent()
    assert (due_at_ms(story.op) or 0) <= WINDOW_END_MS


def test_attempts_are_bounded() -> None:
    story = absent(replace(CONTRACT, max_attempts=1))
    assert due_at_ms(story.op) is None
    assert isinstance(step(story, WINDOW_END_MS), Wait)


def test_a_request_that_is_not_kept_whole_goes_to_a_person() -> None:
    """Else it would be shown as being worked on, and nobody works on it."""
    told = escalation(step(absent(), WINDOW_END_MS, cannot_replay="arguments_not_stored"))
    assert told.reason == "absent"
    assert '"replay":"arguments_not_stored"' in (told.evidence or "")


def test_an_irreversible_call_is_never_sent_again_by_itself() -> None:
    assert escalation(step(absent(replace(CONTRACT, action_class=ActionClass.IRREVERSIBLE)), WINDOW_END_MS)).reason == "absent"


def test_a_person_may_allow_what_is_never_done_by_itself() -> None:
    story = absent(replace(CONTRACT, action_class=ActionClass.IRREVERSIBLE))
    assert story.append(escalation(step(story, WINDOW_END_MS)))
    assert story.op.review is not None
    decided = {"review_id": story.op.review.review_id, "choice": Choice.NOT_FOUND, "reviewer": "anna", "reason": "checked"}
    assert story.add(ev.ReviewDecided, **decided)
    assert step(story, story.at_ms) == Replay(reason="absent")


def test_a_forward_call_of_a_group_that_is_undone_is_not_sent_again() -> None:
    for group in (GroupState.UNWINDING, GroupState.UNWOUND, GroupState.NEEDS_HUMAN):
        assert step(absent(), WINDOW_END_MS, group=group) == Wait(until_ms=None)


def test_the_time_for_a_retry_is_bounded() -> None:
    told = escalation(step(absent(), WINDOW_END_MS + 600_000))
    assert (told.reason, '"replay":"deadline"' in (told.evidence or "")) == ("absent", True)


# ---- in doubt -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", [SAFE, DEDUPED], ids=["safe_replay", "dedupe_supported"])
def test_in_doubt_it_is_sent_again_once_the_window_is_over(contract: Contract) -> None:
    story = Story(contract).unknown()
    assert due_at_ms(story.op) == WINDOW_END_MS
    assert step_now(
        story.op, tenant_id="acme", route="op", now_ms=WINDOW_END_MS - 1, can_probe=False, cannot_replay=None
    ) == Wait(until_ms=WINDOW_END_MS)
    assert step(story, WINDOW_END_MS) == Replay(reason=contract.action_class)


def test_the_window_of_a_lease_that_ran_out_counts_from_its_end() -> None:
    story = Story(SAFE)
    end_ms = story.op.last.lease_end_ms  # type: ignore[union-attr]
    story.at_ms = end_ms + 1
    expiry = step(story, end_ms + 1)
    assert isinstance(expiry, Append)
    assert story.append(expiry.events[0])
    assert due_at_ms(story.op) == end_ms + 30_000


@pytest.mark.parametrize("action_class", [ActionClass.COMPENSATABLE, ActionClass.IRREVERSIBLE])
def test_a_tool_with_neither_key_nor_lookup_is_never_sent_again(action_class: ActionClass) -> None:
    story = Story(replace(CONTRACT, action_class=action_class, **NO_LOOKUP)).unknown()
    told = escalation(step(story, due_at_ms(story.op) or 0))
    assert told.reason == "no_probe"
    assert '"replay":"replay_not_declared"' in (told.evidence or "") or '"replay":"irreversible"' in (told.evidence or "")


def test_a_key_that_would_expire_during_the_attempt_is_no_key() -> None:
    """Lease and longest processing of the new attempt end within the key's lifetime, counted from the first dispatch."""
    granted_ms = Story(DEDUPED).op.attempts[0].granted_at_ms
    needed_s = (WINDOW_END_MS - granted_ms) / 1000 + CONTRACT.lease + CONTRACT.longest_processing
    just = replace(DEDUPED, operation_key=replace(KEY, lifetime=needed_s))
    assert step(Story(just).unknown(), WINDOW_END_MS) == Replay(reason="dedupe_supported")
    short = replace(DEDUPED, operation_key=replace(KEY, lifetime=needed_s - 0.001))
    story = Story(short).unknown()
    assert escalation(step(story, due_at_ms(story.op) or 0)).reason == "no_probe"


def test_a_key_that_expired_since_the_window_ended_is_no_key_any_more() -> None:
    story = Story(DEDUPED).unknown()
    told = escalation(step(story, WINDOW_END_MS + 100_000))
    assert '"replay":"key_expired"' in (told.evidence or "")


def test_with_a_lookup_it_is_sent_again_only_when_no_look_settled_it() -> None:
    contract = replace(SAFE, outcome_probe=CONTRACT.outcome_probe)
    story = exhausted(contract)
    assert story.op.checks == contract.max_checks
    assert story.op.state is State.RECONCILING
    assert step(story, due_at_ms(story.op) or 0) == Replay(reason="safe_replay")


def test_what_was_found_pending_is_not_sent_again() -> None:
    contract = replace(SAFE, outcome_probe=CONTRACT.outcome_probe)
    story = Story(contract).unknown()
    pending = Found(matched_on=("operation_id",), status=EffectStatus.PENDING)
    while story.op.state is not State.ESCALATED:
        now_ms = due_at_ms(story.op) or 0
        assert isinstance(step(story, now_ms), Probe)
        story.look(pending, at_ms=now_ms)
    assert story.op.escalated_for == "probes_exhausted"


def test_what_showed_a_reference_is_not_sent_again() -> None:
    story = Story(SAFE).unknown(reference="re_1")
    assert '"replay":"effect_seen"' in (escalation(step(story, due_at_ms(story.op) or 0)).evidence or "")


def test_in_doubt_a_forward_call_of_a_group_that_is_undone_goes_to_a_person() -> None:
    told = escalation(step(Story(SAFE).unknown(), WINDOW_END_MS, group=GroupState.UNWINDING))
    assert '"replay":"group_unwinding"' in (told.evidence or "")


def test_in_doubt_a_forward_call_whose_inverse_is_safe_for_that_is_left_to_it_until_the_time_is_up() -> None:
    undoable = replace(
        SAFE, compensation=(Compensation(tool="undo", safe_when=(ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN)),)
    )
    story = Story(undoable).unknown()
    until_ms = gives_up_at_ms(story.op) or 0
    assert step(story, WINDOW_END_MS, group=GroupState.UNWINDING) == Wait(until_ms=until_ms)
    assert escalation(step(story, until_ms, group=GroupState.UNWINDING)).reason == "deadline"
    only_certain = replace(SAFE, compensation=(Compensation(tool="undo"),))
    assert escalation(step(Story(only_certain).unknown(), WINDOW_END_MS, group=GroupState.UNWINDING)).reason == "no_probe"


def test_what_is_only_observed_is_never_sent_again() -> None:
    story = Story(SAFE).unknown()
    watched = replace(story.op, attempts=(replace(story.op.attempts[0], observe="approval_required"),))
    story.route = replace(story.route, operations={"op": watched})
    assert '"replay":"observe"' in (escalation(step(story, due_at_ms(story.op) or 0)).evidence or "")


# ---- a claim that was refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [Refusal.SURGE_EXCEEDED, Refusal.RESOURCE_BUSY, Refusal.LEDGER_UNAVAILABLE])
def test_a_refusal_that_passes_is_waited_for(refusal: Refusal) -> None:
    assert judge_refusal(absent().op, refusal, tenant_id="acme", route="op") == ()


@pytest.mark.parametrize("refusal", [Refusal.POLICY_DENIED, Refusal.APPROVAL_EXPIRED, Refusal.OPEN_INTENT])
def test_a_refusal_that_stays_goes_to_a_person(refusal: Refusal) -> None:
    story = absent()
    (told,) = judge_refusal(story.op, refusal, tenant_id="acme", route="op")
    assert story.append(told)
    assert (story.op.state, story.op.escalated_for) == (State.ESCALATED, "absent")
    doubtful = Story(SAFE).unknown()
    (told,) = judge_refusal(doubtful.op, refusal, tenant_id="acme", route="op")
    assert doubtful.append(told)
    assert doubtful.op.escalated_for == "no_probe"


# ---- accepted, not settled ----------------------------------------------------------------------------------------------


def test_what_the_call_said_is_pending_is_looked_at_when_it_is_to_be_settled() -> None:
    """And not given up before, however long that is."""
    story = Story(replace(CONTRACT, settles_after=90_000.0))
    story.at_ms = ENDED_MS
    doubt = {"claim_id": "c", "attempt": 1, "error_class": "pending", "bytes_left": BytesLeft.YES}
    assert story.add(ev.OutcomeUnknown, **doubt, reference="re_1", settles_after_ms=90_000_000)
    due_ms = due_at_ms(story.op)
    assert due_ms == ENDED_MS + 90_000_000
    assert isinstance(step(story, due_ms), Probe)


def test_what_a_look_says_is_pending_keeps_half_of_its_looks_for_when_it_is_to_be_settled() -> None:
    story = Story(replace(CONTRACT, settles_after=500.0, max_checks=6)).unknown()
    looks = []
    while len(looks) < 6:
        looks.append(due_at_ms(story.op) or 0)
        story.look(Found(matched_on=("operation_id",), status=EffectStatus.PENDING), at_ms=looks[-1])
    assert [at_ms >= ENDED_MS + 500_000 for at_ms in looks] == [False] * 3 + [True] * 3


def test_a_person_who_asks_to_look_again_gets_the_whole_time_again() -> None:
    story = Story().unknown()
    late_ms = ENDED_MS + 600_000
    assert story.append(escalation(step(story, late_ms)))
    assert story.op.escalated_for == "deadline"
    story.at_ms = late_ms
    assert story.op.review is not None
    decided = {"review_id": story.op.review.review_id, "choice": Choice.UNKNOWN, "reviewer": "anna", "reason": "look again"}
    assert story.add(ev.ReviewDecided, **decided)
    due_ms = due_at_ms(story.op) or 0
    assert late_ms < due_ms < late_ms + 10_000
    assert isinstance(step(story, due_ms), Probe)


# ---- what comes first ---------------------------------------------------------------------------------------------------


def test_most_at_stake_comes_first_then_least_time_left() -> None:
    def doubtful(stakes: Stakes, deadline: float) -> Story:
        return Story(replace(CONTRACT, stakes=stakes, deadline=deadline)).unknown()

    money, late_money = doubtful(Stakes.MONEY, 600.0), doubtful(Stakes.MONEY, 60.0)
    rest = [doubtful(stakes, 1.0) for stakes in (Stakes.DELETION, Stakes.PERMISSION, Stakes.COMMUNICATION, Stakes.NONE)]
    first = [priority(story.op) for story in (late_money, money, *rest)]
    assert None not in first
    assert first == sorted(first, key=lambda one: one or (9, 0))


def test_what_waits_for_nobody_has_no_priority() -> None:
    assert priority(absent(replace(CONTRACT, on_absent=OnAbsent.OFFER_RETRY)).op) is None


# ---- the request --------------------------------------------------------------------------------------------------------


def test_no_contract_is_no_permission() -> None:
    story = Story(SAFE).unknown()
    story.route = replace(story.route, operations={"op": replace(story.op, contract_text="{}")})
    assert escalation(step(story, WINDOW_END_MS)).reason == "no_probe"
