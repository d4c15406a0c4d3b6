"""Where a contract is allowed and yet weak (semantics.md §4, §7): each warning has a contract that earns it."""

from typing import Any

import pytest
from tests.history import contract

from landed.core.contract import Compensation, Effect, OperationKey, Probe
from landed.core.contract_questions import questions
from landed.core.contract_rules import problems
from landed.core.contract_weak import at_most_one_effect, weaknesses
from landed.core.contract_words import PARTS
from landed.core.vocabulary import ActionClass, ForwardOutcome, OnAbsent, ReadKind, Reversible

SOUND: dict[str, Any] = {
    "reference_field": "id",
    "receipt_fields": ("id",),
    "operation_key": OperationKey(header="Idempotency-Key"),
    "compensation": (Compensation(tool="cancel", required_fields=("id",)),),
}
UNKNOWN_TOO = (ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN)

WEAK: list[tuple[dict[str, Any], str, str]] = [
    ({"outcome_probe": None, "on_absent": OnAbsent.ESCALATE}, "outcome_probe", "goes to a person"),
    ({"outcome_probe": Probe(tool="f", lookup_key="reference")}, "outcome_probe.lookup_key", "no look-up by key"),
    ({"outcome_probe": Probe(tool="f", lookup_key="o"), "stored_args": ("o",)}, "outcome_probe.lookup_key", "no look-up by key"),
    ({"outcome_probe": Probe(tool="f", read_kind=ReadKind.SEARCH_INDEX)}, "outcome_probe.read_kind", "never proves absence"),
    ({"minimum_evidence": ("amount",)}, "minimum_evidence", "may be taken for ours"),
    ({"outcome_probe": Probe(tool="f", lag=6.0)}, "safe_window", "5 s is shorter than the provider's documented lag of 6 s"),
    ({"deadline": 4.0}, "deadline", "absence is never proven"),
    ({"operation_key": None}, "operation_key", "at most one effect rests on no key"),
    ({"operation_key": OperationKey(header="k", honoured=False)}, "operation_key", "at most one effect rests on no key"),
    ({"max_attempts": 1}, "max_attempts", "leaves no attempt for on_absent"),
    ({"max_attempts": 1, "on_absent": OnAbsent.ESCALATE, "retry_rejected": True}, "max_attempts", "for retry_rejected"),
    (
        {"action_class": ActionClass.DEDUPE_SUPPORTED, "operation_key": OperationKey(header="k", lifetime=9.0)},
        "operation_key.lifetime",
        "nothing is ever sent again",
    ),
    ({"compensation": (), "effect": Effect(kind="x", reversible=Reversible.YES)}, "effect.reversible", "no inverse is declared"),
    (
        {"compensation": (), "effect": Effect(kind="x", reversible=Reversible.CONDITIONAL)},
        "effect.reversible",
        "no inverse is declared",
    ),
    (
        {"compensation": (), "no_inverse": True, "effect": Effect(kind="x", reversible=Reversible.YES)},
        "no_inverse",
        "is said of an effect that is reversible",
    ),
    (
        {"compensation": (Compensation(tool="u", safe_when=UNKNOWN_TOO, required_fields=("id",)),)},
        "compensation[0].input_from",
        "an unknown outcome has none",
    ),
    ({"receipt_fields": ()}, "compensation[0].required_fields", "not among receipt_fields"),
    ({"reference_field": None}, "reference_field", "any answer that is not empty counts as a success"),
    ({"personal": ("iban",)}, "personal", "cannot retry by itself"),
]


@pytest.mark.parametrize(("changes", "field", "what"), WEAK)
def test_a_weak_contract_is_valid_and_says_where_it_is_weak(changes: dict[str, Any], field: str, what: str) -> None:
    one = contract(**SOUND | changes)
    assert problems(one) == ()
    assert [said.field for said in weaknesses(one) if what in said.what] == [field], [str(said) for said in weaknesses(one)]


def test_a_sound_contract_has_no_weakness() -> None:
    assert weaknesses(contract(**SOUND)) == ()


def test_a_window_as_long_as_the_documented_lag_is_long_enough() -> None:
    """`safe_window` is never shorter than `longest_processing`, so that counts as well."""
    assert weaknesses(contract(**SOUND, outcome_probe=Probe(tool="f", lag=5.0))) == ()
    longer = contract(**SOUND | {"outcome_probe": Probe(tool="f", lag=8.0), "longest_processing": 8.0})
    assert weaknesses(longer) == ()


def test_a_read_has_nothing_to_be_weak_about() -> None:
    read = contract(read_only=True, outcome_probe=None, compensation=())
    assert weaknesses(read) == ()
    assert at_most_one_effect(read) == "a read has no effect"


def test_arguments_that_are_not_stored_cannot_be_sent_again_by_itself() -> None:
    (said,) = weaknesses(contract(**SOUND, stored_args=("order",)), arguments=("order", "amount"))
    assert str(said) == "stored_args: 'amount' are not stored: the same request cannot be sent again by itself"
    assert weaknesses(contract(**SOUND, stored_args=("order", "amount")), arguments=("order", "amount")) == ()
    offered = contract(**SOUND, on_absent=OnAbsent.OFFER_RETRY)
    assert weaknesses(offered, arguments=("order",)) == (), "the caller brings them again"


def test_personal_arguments_under_a_data_key_can_be_sent_again() -> None:
    assert weaknesses(contract(**SOUND, personal=("iban",)), data_key=True) == ()


def test_it_is_said_in_words_what_at_most_one_effect_rests_on() -> None:
    """§7: a single dispatch ever, or a key honoured for all attempts; else all four, each left out gave two effects."""
    bare = contract(operation_key=None, longest_processing=3.0)
    assert at_most_one_effect(bare) == (
        "no key, so all of: 'find_refund' being an authoritative read (declared: authoritative);"
        " longest_processing (3 s) being true; the window (5 s) counted from the lease end;"
        " the lease counted from the claim's sending"
    )
    assert at_most_one_effect(contract(on_absent=OnAbsent.ESCALATE)).startswith("a single dispatch, ever")
    assert at_most_one_effect(contract(**SOUND)) == "the provider honours the operation id as key for all attempts"
    short = at_most_one_effect(contract(operation_key=OperationKey(header="k", lifetime=60.0)))
    assert short.startswith(
        "the provider honours the operation id as key for 60 s from the first dispatch; a retry after that: no key"
    )
    assert "author's word" in at_most_one_effect(contract(action_class=ActionClass.SAFE_REPLAY))


@pytest.mark.parametrize("changes", [{}, SOUND, *(changes for changes, _, _ in WEAK)])
def test_the_five_parts_are_asked_in_their_order_and_answered(changes: dict[str, Any]) -> None:
    asked = questions(contract(**changes))
    assert list(dict.fromkeys(one.part for one in asked)) == [part for part, _ in PARTS]
    assert all(one.question.endswith("?") and one.answer for one in asked)


def test_the_answers_are_those_of_the_contract() -> None:
    said = {one.question: one.answer for one in questions(contract(**SOUND, longest_processing=8.0, queue="finance"))}
    assert said["How is the operation id passed to the provider?"] == "as header 'Idempotency-Key', honoured as key for ever"
    assert said["How late is 'not there' believed?"] == "8 s after the last attempt ended"
    assert said["What follows proven absence?"] == "it is sent again under the same id"
    assert said["What undoes it?"] == "cancel, input from forward_output, needs id"
    assert "queue 'finance'" in said["When and how often is it looked up?"]
