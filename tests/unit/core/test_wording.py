"""What a person is told (semantics.md §3, last column): made from the state alone."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.history import QUIET_MS, History

from landed.core.state import Attempt, Operation, shown_outcome
from landed.core.vocabulary import GroupState, OnAbsent, Outcome, State
from landed.core.wording import GROUP_LABELS, group_label, label, sentence


def dispatched(**terms: object) -> History:
    return History().prepare(terms=terms).grant()


def confirmed() -> History:
    return dispatched().must("outcome_confirmed", source="worker", claim_id="k1")


def compensating() -> History:
    return confirmed().unwind().prepare("compensate:X", tool="cancel_refund").grant("compensate:X")


def declined() -> History:
    history = dispatched().expire().must("operation_escalated").wait(QUIET_MS)
    return history.must("review_decided", choice="cancelled")


SHOWN: list[tuple[str, Callable[[], History], str, Outcome | None]] = [
    # given, what is seen, outcome shown
    ("none", History, "Not started", None),
    ("prepared", lambda: History().prepare(), "Not started", None),
    ("dispatched", dispatched, "Processing safely", None),
    ("confirmed", confirmed, "Done", Outcome.SUCCEEDED),
    ("removed since", lambda: dispatched().must("outcome_confirmed", removed_at_ms=5), "Done", Outcome.SUCCEEDED),
    ("rejected", lambda: dispatched().must("outcome_rejected"), "Failed before effect", Outcome.FAILED),
    ("unknown", lambda: dispatched().expire(), "Processing safely", Outcome.UNKNOWN),
    ("reconciling", lambda: dispatched().expire().must("probe_recorded"), "Processing safely", Outcome.UNKNOWN),
    ("absent, a retry is due", lambda: dispatched().expire().absent(), "Processing safely", Outcome.FAILED),
    ("absent, unwinding", lambda: dispatched().expire().absent().unwind(), "Failed before effect", Outcome.FAILED),
    ("absent, none left", lambda: dispatched(max_attempts=1).expire().absent(), "Failed before effect", Outcome.FAILED),
    (
        "absent, offered",
        lambda: dispatched(on_absent=OnAbsent.OFFER_RETRY).expire().absent(),
        "Failed before effect",
        Outcome.FAILED,
    ),
    ("escalated", lambda: dispatched().expire().must("operation_escalated"), "Needs review", Outcome.NEEDS_HUMAN),
    ("withdrawn", lambda: History().prepare().must("operation_cancelled"), "Cancelled", Outcome.FAILED),
    (
        "withdrawn after a release",
        lambda: dispatched().must("dispatch_released").must("operation_cancelled"),
        "Cancelled",
        Outcome.FAILED,
    ),
    ("declined after a call", declined, "Declined: the effect may exist", Outcome.UNKNOWN),
    ("compensating", compensating, "Processing safely", Outcome.COMPENSATING),
    ("compensated", lambda: compensating().must("outcome_confirmed", "compensate:X"), "Recovered", Outcome.COMPENSATED),
]


@pytest.mark.parametrize(("title", "given", "seen", "outcome"), SHOWN, ids=[row[0] for row in SHOWN])
def test_a_person_sees_what_the_norm_says(title: str, given: Callable[[], History], seen: str, outcome: Outcome | None) -> None:
    history = given()
    assert label(history.op(), history.route.group_state) == seen
    assert shown_outcome(history.op()) is outcome


def test_every_state_is_shown() -> None:
    assert {given().op().state for _, given, _, _ in SHOWN} == set(State)


@pytest.mark.parametrize(("title", "given", "seen", "outcome"), SHOWN, ids=[row[0] for row in SHOWN])
def test_a_sentence_promises_no_effect_and_no_repetition_that_the_state_does_not(
    title: str, given: Callable[[], History], seen: str, outcome: Outcome | None
) -> None:
    history = given()
    text = sentence(history.op(), history.route.group_state)
    assert text.endswith(".")
    state = history.op().state
    if state in (State.UNKNOWN, State.RECONCILING):
        assert "not certain" in text
        assert "not sent again" in text
    if state not in (State.CONFIRMED, State.COMPENSATING, State.COMPENSATED):
        assert "It happened" not in text
    if seen == "Declined: the effect may exist":
        assert "may exist" in text
    if state is State.NOT_FOUND:
        assert ("tried once more" in text) is (seen == "Processing safely")


MARKED: list[tuple[str, Callable[[], History], str]] = [
    ("late_effect", lambda: dispatched().must("outcome_rejected").must("outcome_confirmed"), "arrived late"),
    ("contradiction", lambda: confirmed().must("outcome_rejected"), "contradict"),
    ("duplicate_effect", lambda: confirmed().must("outcome_confirmed", reference="r2"), "A second effect"),
]


@pytest.mark.parametrize(("mark", "given", "words"), MARKED, ids=[row[0] for row in MARKED])
def test_a_mark_is_told_while_its_task_is_open(mark: str, given: Callable[[], History], words: str) -> None:
    history = given()
    assert words in sentence(history.op())
    history.must("review_decided", choice="acknowledged")
    assert words not in sentence(history.op())
    if history.op().state is State.CONFIRMED:
        history.must("effect_reverted")
        assert words not in sentence(history.op()), "another task is open now, that mark was answered"


def test_what_was_removed_since_is_not_told_as_being_there() -> None:
    assert "removed since" in sentence(dispatched().must("outcome_confirmed", removed_at_ms=5).op())


def test_a_group_is_shown_by_its_state() -> None:
    assert set(GROUP_LABELS) == set(GroupState)
    assert group_label(confirmed().route) == "Processing safely"
    assert group_label(confirmed().unwind().route) == "Processing safely"
    assert group_label(compensating().must("outcome_confirmed", "compensate:X").route) == "Recovered"
    assert group_label(dispatched().expire().must("operation_escalated").unwind().route) == "Needs review"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: dispatched().must("outcome_rejected").must("outcome_confirmed"), "no effect, and that is in question"),
        (
            lambda: compensating().must("outcome_confirmed", "compensate:X").must("outcome_confirmed", reference="r9"),
            "in question",
        ),
        (lambda: confirmed().must("outcome_rejected"), "done, and that is in question"),
        (lambda: confirmed().must("outcome_confirmed", reference="r2"), "more than once"),
        (
            lambda: confirmed().must("outcome_confirmed", reference="r2").must("review_decided", choice="acknowledged"),
            "more than once",
        ),
    ],
)
def test_what_evidence_puts_in_question_is_not_told_as_certain(given: Callable[[], History], words: str) -> None:
    text = sentence(given().op())
    assert words in text
    assert "It happened, once" not in text
    assert "had no effect" not in text


@pytest.mark.parametrize(("decision", "words"), [(None, "waits for a person"), ("allow", "has not run"), ("deny", "denied it")])
def test_a_request_that_a_person_has_to_approve_says_where_it_stands(decision: str | None, words: str) -> None:
    history = History().prepare().must("approval_requested")
    if decision is not None:
        history.must("approval_decided", decision=decision)
    assert words in sentence(history.op())
    assert label(history.op()) == "Not started"
    assert words not in sentence(history.grant().op())


def test_no_other_part_of_the_product_has_labels_of_its_own() -> None:
    """What a person sees is made in one place; a face that wrote its own words would say something else one day (§3, §10)."""
    shown = {row[2] for row in SHOWN} | set(GROUP_LABELS.values())
    root = Path(__file__).resolve().parents[3]
    sources = [path for folder in ("shared", "services", "demo") for path in (root / folder).rglob("*.py")]
    assert len(sources) > 100
    for path in sources:
        if path.name == "wording.py":
            continue
        text = path.read_text()
        found = {label for label in shown if f'"{label}"' in text or f"'{label}'" in text}
        assert not found, f"{path.relative_to(root)}: {found}"


@pytest.mark.parametrize("state", [State.COMPENSATING, State.COMPENSATED])
def test_an_effect_that_nobody_ever_saw_is_not_told_to_have_happened(state: State) -> None:
    attempt = Attempt(number=1, claim_id="c", granted_at_ms=1, lease_end_ms=2, state_before=State.PREPARED)
    unseen = Operation(operation_id="x", state=state, attempts=(attempt,))
    assert "It happened" not in sentence(unseen)
    assert sentence(msgspec.structs.replace(unseen, confirmed_at_ms=1)).startswith("It happened")
