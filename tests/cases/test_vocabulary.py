"""Every word of the schema is played, what it means is shown, and anything else is turned away by name."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from landed.testing.cases import CasesError, cases_of, run
from landed.testing.cases.command import main
from landed.testing.cases.loading import schema
from landed.testing.cases.verbs import PLAYED

from .renaming import Renamed

WORDS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text())


def case(**changes: Any) -> dict[str, Any]:
    """The smallest exact case: one call that succeeds."""
    return {
        "id": "C900",
        "source": "test",
        "title": "one call",
        "kind": "log",
        "story": "one call",
        "tool_contract": {"x.write": {}},
        "provider_behaviour": [],
        "steps": [{"at": 0, "actor": "agent", "do": "call", "op": "A", "tool": "x.write", "args": {"n": "1", "m": "2"}}],
        "outcome_form": "exact",
        "expected_final_state": {"A": "succeeded"},
        "expected_provider_effects": {"x.write": 1},
        "expected_operator_facts": ["one dispatch"],
        "must_not": ["a second effect"],
        **changes,
    }


def played(document: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    (one,) = cases_of({"format": 2, "cases": [document]}, "test")
    outcome = run(one)
    return outcome.result, outcome.because


# ---- words that show what they mean --------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", WORDS["cases"], ids=[one["title"] for one in WORDS["cases"]])
def test_a_word_means_what_its_case_shows(document: dict[str, Any]) -> None:
    assert played(document) == ("pass", ())
    assert played(Renamed(document, 1).document) == ("pass", ())


# ---- each word once ------------------------------------------------------------------------------------------------------


def verbs() -> list[tuple[str, str]]:
    """Pairs of actor and verb that the schema allows."""
    rules = schema()["$defs"]["step"]["allOf"]
    actors = [rule for rule in rules if "actor" in rule["if"]["properties"]]
    return [
        (rule["if"]["properties"]["actor"]["const"], do) for rule in actors for do in rule["then"]["properties"]["do"]["enum"]
    ]


NEEDED: dict[str, dict[str, Any]] = {
    "call": {"op": "B", "tool": "x.write"},
    "call_many": {"ops": ["B", "C"], "tool": "x.write"},
    "call_again": {"op": "A"},
    "rewrite_args": {"op": "A", "args": {"n": "1", "m": "2"}},
    "give_up_waiting": {"op": "A"},
    "heartbeat": {"op": "A", "node": "agent"},
    "pause": {"until": 6},
    "report_step_failed": {"group": "g"},
    "start_workflow": {"workflow": "w"},
    "note": {"text": "nothing"},
    "unwind": {"group": "g"},
    "cancel": {"group": "g"},
    "replay": {"op": "A"},
    "disable_tool": {"tool": "x.write"},
    "override": {"op": "A", "decision": "confirmed"},
    "erase": {"subject": "s"},
    "set_count": {"tool": "x.write", "value": 3},
    "snapshot": {"name": "s"},
    "reset_offsets": {"back_s": 10},
    "park": {"op": "A"},
    "replay_parked": {"op": "A"},
    "add_partitions": {"partitions": 12},
    "approve": {"op": "A"},
    "reject": {"op": "A"},
    "webhook": {"op": "A", "tool": "x.write", "says": "confirmed"},
    "outside_change": {"tool": "x.write", "text": "changed"},
    "transport_repeats_request": {"op": "A"},
    "skew": {"node": "n", "by_s": 5},
    "refuse_writes": {"until": 6},
    "unavailable": {"until": 6},
    "rebalance": {"to_node": "n"},
    "prune": {"op": "A"},
    "truncate": {"cut_after": 10_000},
    "open_transaction": {"tx": "t", "until": 6},
    "append": {"op": "A", "event": "succeeded"},
    "insert_lease": {"op": "A"},
}


def test_every_verb_of_every_actor_is_played() -> None:
    assert set(PLAYED) == set(verbs())


@pytest.mark.parametrize(("actor", "do"), verbs())
def test_each_verb_leaves_what_has_succeeded_as_it_is(actor: str, do: str) -> None:
    """Played after a call that succeeded: nothing is sent again, nothing is lost, and no verb is unknown."""
    step = {"at": 5, "actor": actor, "do": do, **NEEDED.get(do, {})}
    if do == "restore":
        before = [{"at": 4, "actor": "operator", "do": "snapshot", "name": "s"}]
        step["name"] = "s"
    else:
        before = []
    once = {"tool": "x.write", "call": 1, "effect": "commit", "answer": "ok"}
    provider = [once, {"tool": "x.write", "effect": "same", "answer": "ok"}]
    steps = [*case()["steps"], *before, step]
    # What was set aside is not applied: its outcome is not there until it is.
    shown = {"A": "running"} if do == "park" else {"A": "succeeded"}
    assert played(case(steps=steps, provider_behaviour=provider, expected_final_state=shown)) == ("pass", ())


CONTRACT: dict[str, dict[str, Any]] = {
    "read_only": {"read_only": True},
    "key": {"key": "honoured"},
    "key_ttl_s": {"key": "honoured", "key_ttl_s": 60},
    "key_argument": {"key": "honoured", "key_argument": "k"},
    "lookup": {"lookup": "by_id"},
    "probe": {"lookup": "by_id", "probe": "x.find"},
    "evidence": {"evidence": ["id", "mark"]},
    "absence_window_s": {"absence_window_s": 5},
    "absence_proof": {"absence_proof": "strong"},
    "max_in_flight_s": {"max_in_flight_s": 5},
    "replay_safe": {"replay_safe": True},
    "irreversible": {"irreversible": True},
    "no_effect_errors": {"no_effect_errors": ["e"]},
    "exists_errors": {"exists_errors": ["e"]},
    "gone_errors": {"gone_errors": ["e"]},
    "gone_only_after_own_try": {"gone_errors": ["e"], "gone_only_after_own_try": True},
    "retry_rejected": {"retry_rejected": True},
    "success_when": {"success_when": {"done": True}},
    "verify": {"verify": "x.get"},
    "removed_when": {"removed_when": ["gone"]},
    "undo": {"undo": "x.undo"},
    "undo_next_on": {"undo": ["x.undo", "x.drop"], "undo_next_on": ["e"]},
    "undo_when": {"undo": "x.undo", "undo_when": ["succeeded", "unknown"]},
    "undo_requires": {"undo": "x.undo", "undo_requires": {"read": "x.get", "status": "s"}},
    "undo_wait_s": {"undo": "x.undo", "undo_requires": {"read": "x.get", "unchanged": "f"}, "undo_wait_s": 5},
    "undo_handler": {"undo": "x.undo", "undo_handler": False},
    "settles_after_s": {"settles_after_s": 5},
    "max_attempts": {"max_attempts": 2},
    "max_probes": {"max_probes": 2},
    "backoff": {"backoff": "exponential"},
    "deadline_s": {"deadline_s": 60},
    "lease_s": {"lease_s": 60},
    "volatile_args": {"volatile_args": ["n"]},
    "free_text_args": {"free_text_args": ["n"]},
    "identity_args": {"identity_args": ["n"]},
    "same_message_duplicates": {"same_message_duplicates": "fold"},
    "unit": {"unit": "item"},
    "ceilings": {"ceilings": [{"limit": 5, "at_once": True, "scope": "workflow"}, {"limit": 5, "per_s": 60}]},
    "resource_lock": {"resource_lock": ["n"]},
    "implies": {"implies": ["made:{n}"]},
    "needs_approval": {"needs_approval": True},
    "approval_wait_s": {"needs_approval": True, "approval_wait_s": 60},
    "recheck_at_dispatch": {"recheck_at_dispatch": ["policy_version", "tool_enabled", "tool_version"]},
    "supersedes": {"supersedes": True},
    "webhook": {"webhook": {"match": "reference", "park_unmatched_s": 5, "order_by": "provider_time", "dedupe_by": "delivery"}},
    "unique_field": {"unique_field": "n"},
}


def test_every_key_of_a_contract_is_fed() -> None:
    assert set(CONTRACT) == set(schema()["$defs"]["contract"]["properties"])


@pytest.mark.parametrize("key", sorted(CONTRACT))
def test_each_key_of_a_contract_lets_a_call_that_succeeds_succeed(key: str) -> None:
    steps = [*case()["steps"], {"at": 1, "actor": "reviewer", "do": "approve", "op": "A"}]
    rules = [
        {"tool": "x.get", "answer": "found"},
        {"tool": "x.write", "effect": "commit", "answer": "ok", "value": {"done": True}},
    ]
    effects = {} if key == "read_only" else {"x.write": 1}
    changed = {"tool_contract": {"x.write": CONTRACT[key]}, "provider_behaviour": rules, "expected_provider_effects": effects}
    assert played(case(steps=steps, **changed)) == ("pass", ())


@pytest.mark.parametrize("effect", schema()["$defs"]["rule"]["properties"]["effect"]["enum"])
@pytest.mark.parametrize("answer", schema()["$defs"]["rule"]["properties"]["answer"]["enum"])
def test_each_answer_and_effect_of_a_call(answer: str, effect: str) -> None:
    rule = {"tool": "x.write", "effect": effect, "answer": answer, "code": "e", "sent": True, "differs": ["id"]}
    known = {"ok": "succeeded", "found": "succeeded", "lookalike": "succeeded", "truth": "succeeded"}
    changed = {
        "provider_behaviour": [rule],
        "expected_final_state": {"A": known.get(answer, "unknown")},
        "expected_provider_effects": {"x.write": 1 if effect in ("commit", "partial") else 0},
    }
    assert played(case(**changed)) == ("pass", ())


READS = {
    "found": "succeeded",
    "lookalike": "needs_human",
    "not_found": "failed",
    "truth": "succeeded",
}


@pytest.mark.parametrize("answer", schema()["$defs"]["rule"]["properties"]["answer"]["enum"])
def test_each_answer_of_a_read(answer: str) -> None:
    contract = {"x.write": {"lookup": "by_id", "probe": "x.find"}}
    rules = [
        {"tool": "x.write", "effect": "commit", "answer": "lost"},
        {"tool": "x.find", "answer": answer, "code": "e", "sent": True, "differs": ["id"]},
    ]
    steps = [*case()["steps"], {"at": 60, "actor": "reconciler", "do": "tick"}]
    known = {**READS, "ok": "succeeded", "raised": "succeeded"}  # what is no answer of a read is answered with the truth
    states = {"A": known.get(answer, "unknown")}
    assert played(case(tool_contract=contract, provider_behaviour=rules, steps=steps, expected_final_state=states)) == (
        "pass",
        (),
    )


# ---- anything else -------------------------------------------------------------------------------------------------------


UNKNOWN_WORDS = [
    ("a verb", lambda one: one["steps"][0].update(do="shout"), "steps.0.do"),
    ("an actor", lambda one: one["steps"][0].update(actor="nobody"), "steps.0.actor"),
    ("a verb of another actor", lambda one: one["steps"][0].update(do="rebalance"), "steps.0.do"),
    ("a field of a step", lambda one: one["steps"][0].update(mood="bad"), "steps.0"),
    ("an answer", lambda one: one["provider_behaviour"].append({"tool": "x.write", "answer": "maybe"}), "provider_behaviour.0"),
    ("an effect", lambda one: one["provider_behaviour"].append({"tool": "x.write", "answer": "ok", "effect": "half"}), "effect"),
    ("a key of a contract", lambda one: one["tool_contract"]["x.write"].update(colour="red"), "tool_contract.x.write"),
    ("a state", lambda one: one["expected_final_state"].update(A="done"), "expected_final_state.A"),
    ("a range", lambda one: one["steps"][0].update(do="call_many", ops=["A1..B5"]), "steps.0.ops: 'A1..B5' is no range of names"),
    ("a kind", lambda one: one.update(kind="other"), "kind"),
    ("a word of the case", lambda one: one.update(mood="bad"), "the whole"),
]


@pytest.mark.parametrize(("change", "field"), [row[1:] for row in UNKNOWN_WORDS], ids=[row[0] for row in UNKNOWN_WORDS])
def test_an_unknown_word_is_rejected_by_file_case_and_field(change: Any, field: str) -> None:
    document = copy.deepcopy(case())
    change(document)
    with pytest.raises(CasesError) as caught:
        cases_of({"format": 2, "cases": [document]}, "some.yaml")
    assert "some.yaml: C900: " in str(caught.value)
    assert field in str(caught.value)


def test_the_command_says_which_file_is_wrong_and_plays_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("format: 1\ncases: []\n")
    out = io.StringIO()
    assert main([str(path)], out) == 2
    assert out.getvalue() == ""
    assert f"{path}: " in capsys.readouterr().err


# ---- exit codes ----------------------------------------------------------------------------------------------------------


def written(folder: Path, *documents: dict[str, Any]) -> str:
    path = folder / "cases.yaml"
    numbered = [{**document, "id": f"C{900 + number}"} for number, document in enumerate(documents)]
    path.write_text(json.dumps({"format": 2, "cases": numbered}))
    return str(path)


def test_a_difference_fails_the_file_and_is_told(tmp_path: Path) -> None:
    out = io.StringIO()
    wrong = case(expected_final_state={"A": "failed"}, expected_provider_effects={"x.write": 2})
    assert main([written(tmp_path, case(), wrong)], out) == 1
    lines = out.getvalue().splitlines()
    assert lines[1] == "C901  fail           state of A: succeeded instead of failed; effects of x.write: 1 instead of 2"
    assert lines[-2] == "1 passed, 1 failed, 0 not supported"


def test_as_many_exact_cases_may_be_unsupported_as_the_option_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PLAYED, ("projector", "park"))
    path = written(tmp_path, case(), case(steps=[*case()["steps"], {"at": 1, "actor": "projector", "do": "park", "op": "A"}]))
    out = io.StringIO()
    assert main([path], out) == 1
    assert "C901  not supported  projector park: nobody plays it" in out.getvalue()
    assert main([path, "--max-unsupported", "1"], io.StringIO()) == 0


def test_what_the_product_raises_fails_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr("landed.adapters.memory._projector.decide", broken)
    assert played(case()) == ("fail", ("raised RuntimeError: a defect",))
