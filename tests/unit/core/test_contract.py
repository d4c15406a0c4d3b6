"""Contracts of tools (semantics.md §4): every rule has a contract that breaks it, and the problem names field and rule."""

import sys
from typing import Any

import msgspec
import pytest
from tests.history import contract

from landed.core.contract import (
    Compensation,
    Contract,
    Effect,
    OperationKey,
    Probe,
    Problem,
    Requires,
    Webhook,
    contract_from_json,
    contract_json,
    milliseconds,
    readable_contract,
)
from landed.core.contract_rules import problems
from landed.core.vocabulary import ActionClass, ForwardOutcome, OnAbsent, Reversible

PROBE = Probe(tool="find")
INFINITY, NAN = float("inf"), float("nan")

BROKEN: list[tuple[dict[str, Any], str, str]] = [
    # changes, field, rule
    ({"tool": " "}, "tool", "must not be empty"),
    ({"effect": Effect(kind="")}, "effect.kind", "must not be empty"),
    ({"lease": 0.0}, "lease", "must be greater than 0"),
    ({"lease": NAN}, "lease", "must be greater than 0"),
    ({"lease": INFINITY}, "lease", "must be a finite number"),
    ({"backoff": 0.0}, "backoff", "must be greater than 0"),
    ({"backoff": 0.5}, "backoff", "factor of at least 1"),
    ({"backoff": INFINITY}, "backoff", "must be a finite number"),
    ({"max_interval": 0.0}, "max_interval", "must be greater than 0"),
    ({"max_interval": INFINITY}, "max_interval", "must be a finite number"),
    ({"deadline": -1.0}, "deadline", "must be greater than 0"),
    ({"deadline": INFINITY}, "deadline", "must be a finite number"),
    ({"longest_processing": -0.1}, "longest_processing", "must not be negative"),
    ({"longest_processing": INFINITY}, "longest_processing", "must be a finite number"),
    ({"safe_window": -0.1}, "safe_window", "must not be negative"),
    ({"safe_window": NAN}, "safe_window", "must not be negative"),
    ({"safe_window": INFINITY}, "safe_window", "must be a finite number"),
    ({"first_check_after": -0.1}, "first_check_after", "must not be negative"),
    ({"first_check_after": INFINITY}, "first_check_after", "must be a finite number"),
    ({"max_attempts": 0}, "max_attempts", "must be at least 1"),
    ({"max_checks": 0}, "max_checks", "must be at least 1"),
    ({"identity_args": ("a",), "volatile_args": ("a",)}, "identity_args", "'a' cannot be identity-bearing and left out"),
    ({"identity_args": ("a",), "free_text_args": ("a",)}, "identity_args", "'a' cannot be identity-bearing and left out"),
    ({"personal": ("a",), "stored_args": ("a",)}, "stored_args", "'a' is personal"),
    ({"operation_key": OperationKey()}, "operation_key", "exactly one of argument, header, reference"),
    ({"operation_key": OperationKey(argument="a", header="b")}, "operation_key", "exactly one of"),
    ({"operation_key": OperationKey(header="b", lifetime=0.0)}, "operation_key.lifetime", "must be greater than 0"),
    ({"outcome_probe": Probe(tool="find", lookup_key="a")}, "outcome_probe.lookup_key", "'a' is not among stored_args"),
    ({"minimum_evidence": ()}, "minimum_evidence", "at least one field"),
    ({"outcome_probe": None}, "on_absent", "needs an outcome_probe"),
    ({"outcome_probe": None, "on_absent": OnAbsent.OFFER_RETRY}, "on_absent", "needs an outcome_probe"),
    ({"tool": "pay\n"}, "tool", "must not contain control characters"),
    ({"settles_after": -1.0}, "settles_after", "must be a finite number, not negative"),
    ({"outcome_probe": Probe(tool="find", lag=INFINITY)}, "outcome_probe.lag", "must be a finite number, not negative"),
    ({"outcome_probe": Probe(tool="find", lag=-1.0)}, "outcome_probe.lag", "must be a finite number, not negative"),
    ({"webhook": Webhook(match="data..id")}, "webhook.match", "names with dots between"),
    ({"webhook": Webhook(match="id", confirmed_when=("paid",))}, "webhook.status", "must say where the words stand"),
    (
        {"webhook": Webhook(match="id", status="s", confirmed_when=("paid",), rejected_when=("paid",))},
        "webhook",
        "a word stands in one of",
    ),
    ({"webhook": Webhook(match="reference", keep_unmatched=NAN)}, "webhook.keep_unmatched", "must be a finite number"),
    ({"compensation": (Compensation(tool="u", expires_after=0.0),)}, "compensation[0].expires_after", "must be greater than 0"),
    (
        {"compensation": (Compensation(tool="u", requires=Requires(read="r", condition="c", wait=-1.0)),)},
        "compensation[0].requires.wait",
        "not negative",
    ),
    ({"business_key": "refund:{order"}, "business_key", "is not a template"),
    ({"resources": ("order:{",)}, "resources", "is not a template"),
    ({"implies": ("order:}",)}, "implies", "is not a template"),
    ({"business_key": "refund"}, "business_key", "names no argument"),
    ({"business_key": "refund:{now}", "volatile_args": ("now",)}, "business_key", "'now', left out of the hash"),
    ({"reference_pattern": "re_("}, "reference_pattern", "is not a regular expression"),
    ({"ownership": {"account": "{account"}}, "ownership.account", "is not a template"),
    ({"ownership": {"account": "{account}"}}, "ownership.account", "known are tenant_id, operation_id, group_id"),
    ({"no_effect_errors": ("a",), "already_exists_errors": ("a",)}, "already_exists_errors", "proves that nothing happened"),
    ({"read_only": True}, "compensation", "a read has no effect to undo"),
    ({"no_inverse": True}, "no_inverse", "is said beside a compensation"),
    ({"follow_up": "ticket"}, "follow_up", "is for an effect with no inverse"),
    ({"compensation": (Compensation(tool=" "),)}, "compensation[0].tool", "a contract of its own"),
    ({"compensation": (Compensation(tool="refund"),)}, "compensation[0].tool", "a contract of its own"),
    (
        {"compensation": (Compensation(tool="u", next_on=("gone",)), Compensation(tool="u"))},
        "compensation[1].tool",
        "'u' is named twice",
    ),
    ({"compensation": (Compensation(tool="u", input_from=()),)}, "compensation[0].input_from", "at least one source"),
    ({"compensation": (Compensation(tool="u", safe_when=()),)}, "compensation[0].safe_when", "at least one outcome"),
    (
        {"compensation": (Compensation(tool="u", gone_only_after_own_try=True),)},
        "compensation[0].gone_only_after_own_try",
        "is about `gone_errors`",
    ),
    ({"compensation": (Compensation(tool="u"), Compensation(tool="v"))}, "compensation[0].next_on", "never reached"),
    ({"action_class": ActionClass.DEDUPE_SUPPORTED}, "action_class", "needs an operation_key"),
    (
        {"action_class": ActionClass.DEDUPE_SUPPORTED, "operation_key": OperationKey(header="k", honoured=False)},
        "action_class",
        "needs an operation_key that the provider honours",
    ),
    (
        {"action_class": ActionClass.IRREVERSIBLE, "effect": Effect(kind="mail.send", reversible=Reversible.YES)},
        "effect.reversible",
        "cannot be reversible",
    ),
    (
        {"compensation": (Compensation(tool="undo", input_from=("forward_input",), required_fields=("a",)),)},
        "compensation[0].required_fields",
        "'a' is not among stored_args",
    ),
]


@pytest.mark.parametrize(("changes", "field", "rule"), BROKEN)
def test_a_contract_that_breaks_a_rule_is_told_field_and_rule(changes: dict[str, Any], field: str, rule: str) -> None:
    found = problems(contract(**changes))
    assert any(one.field == field and rule in one.rule for one in found), [str(one) for one in found]
    assert all(str(one) == f"{one.field}: {one.rule}" for one in found)


def test_every_rule_in_the_code_has_a_contract_that_breaks_it() -> None:
    """A rule that nobody can break is no rule: the lines that find a problem are all reached by the cases above."""
    hit: set[int] = set()
    source = problems.__code__.co_filename

    def trace(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename == source:
            hit.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for changes, _, _ in BROKEN:
            problems(contract(**changes))
    finally:
        sys.settrace(before)
    with open(source) as lines:
        rules = {number for number, line in enumerate(lines, 1) if "found.append(Problem(" in line}
    assert len(rules) >= 15
    assert rules <= hit


VALID: list[dict[str, Any]] = [
    {},
    {"max_attempts": 1, "on_absent": OnAbsent.ESCALATE, "outcome_probe": None},
    {"action_class": ActionClass.DEDUPE_SUPPORTED, "operation_key": OperationKey(header="Idempotency-Key", lifetime=1.0)},
    {"outcome_probe": Probe(tool="find", lookup_key="order"), "stored_args": ("order",)},
    {"outcome_probe": Probe(tool="find", lookup_key="reference")},
    {"read_only": True, "outcome_probe": None, "compensation": ()},
    {"compensation": (Compensation(tool="u", next_on=("gone",)), Compensation(tool="v"))},
    {"compensation": (), "no_inverse": True, "follow_up": "ticket"},
    {"ownership": {"metadata.tenant": "{tenant_id}", "account": "acct_1"}},
    {"resources": ("order:{order}",), "implies": ("shipment:{order}",), "business_key": "{order}"},
    {"compensation": (Compensation(tool="undo", input_from=("forward_input",), required_fields=("a",)),), "stored_args": ("a",)},
    {"safe_window": 0.0, "longest_processing": 0.0, "first_check_after": 0.0, "backoff": 1.0},
    {"action_class": ActionClass.IRREVERSIBLE},
]


@pytest.mark.parametrize("changes", VALID)
def test_a_contract_that_breaks_no_rule_has_no_problem(changes: dict[str, Any]) -> None:
    assert problems(contract(**changes)) == ()


def test_every_problem_is_told_at_once() -> None:
    found = problems(contract(tool="", lease=0.0, max_checks=0, minimum_evidence=()))
    assert {one.field for one in found} == {"tool", "lease", "max_checks", "minimum_evidence"}
    assert Problem("tool", "must not be empty") in found


# ---- on the log ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", VALID)
def test_a_contract_travels_as_canonical_json(changes: dict[str, Any]) -> None:
    one = contract(**changes)
    text = contract_json(one)
    assert contract_from_json(text) == readable_contract(text) == one
    assert contract_json(contract_from_json(text)) == text


def test_equal_contracts_give_equal_text_and_defaults_are_not_written() -> None:
    one, other = contract(success_when={"a": "1", "b": "2"}), contract(success_when={"b": "2", "a": "1"})
    assert contract_json(one) == contract_json(other)
    assert contract_json(Contract(tool="t", effect=Effect(kind="k"))) == '{"tool":"t","effect":{"kind":"k"}}'


WRONG_DOCUMENTS: list[tuple[Any, str]] = [
    ({"tool": "t"}, "effect"),
    ({"tool": "t", "effect": {"kind": "k"}, "max_atempts": 2}, "max_atempts"),
    ({"tool": "t", "effect": {"kind": "k"}, "max_attempts": "two"}, r"\$\.max_attempts"),
    ({"tool": "t", "effect": {"kind": "k", "colour": "red"}}, "colour"),
    ({"tool": "t", "effect": {"kind": "k"}, "on_absent": "shrug"}, r"shrug.*\$\.on_absent"),
    ({"tool": "t", "effect": {"kind": "k"}, "compensation": [{"tool": "u", "safe_when": ["sometimes"]}]}, r"safe_when"),
]


@pytest.mark.parametrize(("document", "named"), WRONG_DOCUMENTS)
def test_a_document_of_another_shape_is_refused_with_the_field(document: Any, named: str) -> None:
    text = msgspec.json.encode(document).decode()
    with pytest.raises(msgspec.ValidationError, match=named):
        contract_from_json(text)
    assert readable_contract(text) is None


# ---- what follows from a contract ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("safe_window", "longest", "quiet_ms"), [(5.0, 0.0, 5000), (0.0, 7.5, 7500), (5.0, 2.0, 5000), (0.0, 0.0, 0)]
)
def test_the_safe_window_is_never_shorter_than_the_longest_processing(safe_window: float, longest: float, quiet_ms: int) -> None:
    assert contract(safe_window=safe_window, longest_processing=longest).quiet_after_ms == quiet_ms


def test_durations_are_whole_milliseconds_within_bounds() -> None:
    assert [milliseconds(one) for one in (0.0, 0.0004, 0.0006, 1.5, -3.0)] == [0, 0, 1, 1500, 0]
    assert milliseconds(INFINITY) == milliseconds(1e300) == 10**14


def test_safe_when_is_what_any_inverse_allows() -> None:
    two = contract(
        compensation=(
            Compensation(tool="a", safe_when=(ForwardOutcome.SUCCEEDED,)),
            Compensation(tool="b", safe_when=(ForwardOutcome.UNKNOWN,)),
        )
    )
    assert two.safe_when() == {ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN}
    assert contract(compensation=()).safe_when() == frozenset()


def test_a_key_that_is_not_honoured_is_no_key() -> None:
    assert contract(operation_key=OperationKey(header="k")).key_honoured
    assert not contract(operation_key=OperationKey(header="k", honoured=False)).key_honoured
    assert not contract().key_honoured
