"""`landed contracts check`: questions and answers, warnings, errors with file, tool, field and rule, exit codes."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landed.core.contract_weak import Weakness
from landed.sdk.contract_files import load_contracts
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.trust.results import DrillResult, beside, digest_of, keep_result

GOOD = """
- tool: payments.refund
  effect: {kind: refund.create, resource: charge, reversible: true}
  stored_args: [charge, amount]
  operation_key: {header: Idempotency-Key}
  reference_field: id
  receipt_fields: [id]
  outcome_probe: {tool: payments.find_refund, lag: 8}
  safe_window: 5
  on_absent: retry
  max_attempts: 2
  compensation: {tool: payments.cancel_refund, required_fields: [id]}
- {tool: payments.cancel_refund, effect: refund.cancel, reference_field: id, outcome_probe: payments.find_refund}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "contracts.yaml"
    path.write_text(GOOD)
    return path


def checked(target: Path | str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = run(["contracts", "check", str(target), *words, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_valid_file_is_listed_as_questions_with_answers_and_warnings(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contracts", "check", str(file)]) == Exit.DONE
    written = capsys.readouterr().out
    said = " ".join(written.split())
    for part in ("effect", "request", "answer", "reconciliation", "compensation"):
        assert f"\n  {part}\n" in written
    assert "payments.find_refund by operation_id, a read of kind authoritative" in said
    assert "warning safe_window: 5 s is shorter than the provider's documented lag of 8 s" in said
    assert said.endswith(f"{file}: 2 contracts, 0 errors, 1 warning")
    assert max(map(len, written.replace(str(file), "").splitlines())) <= 80


def test_the_same_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = checked(file, capsys)
    assert code == Exit.DONE
    tool = report["tools"][0]
    assert (tool["tool"], tool["file"], report["errors"]) == ("payments.refund", str(file), [])
    assert [one["field"] for one in tool["weak"]] == ["safe_window"]
    assert tool["at_most_one_effect"] == "the provider honours the operation id as key for all attempts"
    assert {"part", "question", "answer"} == set(tool["questions"][0])


def test_an_error_names_file_tool_field_and_rule_and_the_exit_code_says_so(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(GOOD + "- {tool: mail.send, effect: mail.send, lease: -1, colour: red}\n")
    assert run(["contracts", "check", str(file), "-q"]) == Exit.FOUND
    said = " ".join(capsys.readouterr().out.split())
    assert f"error {file}: mail.send.colour: is not a field of a contract" in said
    assert "What does it change?" not in said
    code, report = checked(file, capsys)
    assert (code, [one["tool"] for one in report["tools"]]) == (Exit.FOUND, ["payments.refund", "payments.cancel_refund"])
    file.write_text("tool: mail.send\neffect: mail.send\nlease: -1\n")
    code, report = checked(file, capsys)
    assert report["errors"] == [{"field": "mail.send.lease", "rule": "must be greater than 0 (seconds)"}]
    code, report = checked(file.with_name("none.yaml"), capsys)
    assert (code, report["errors"][0]["field"]) == (Exit.FOUND, "file")


MODULE = """
from landed import Compensation, Effect, Probe, ToolRegistry, effect
registry = ToolRegistry()

@registry.effect(effect="refund.create", outcome_probe="find", on_absent="retry", max_attempts=2, stored_args=["order"],
                 compensation=[Compensation(tool="cancel", automatic=True)])
def refund(order: str, amount: int) -> None: ...

@refund.inverse
@effect(effect="refund.cancel", action_class="irreversible")
def cancel(order: str) -> None: ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"tools_{abs(hash(request.node.name))}"

    def written(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return f"{name}:registry"

    yield written
    sys.modules.pop(name, None)


def test_a_registry_is_checked_with_the_functions_that_its_contracts_are_bound_to(
    module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = checked(module(MODULE), capsys)
    assert code == Exit.FOUND
    assert {one["field"]: one["rule"] for one in report["errors"]} == {
        "refund.outcome_probe": "is declared and no @probe function is registered",
        "refund.compensation[0].automatic": "'cancel' is irreversible: never without a person",
    }
    assert [one["tool"] for one in report["tools"]] == ["refund", "cancel"], "also what is only the inverse of another"
    weak = {one["field"]: one["what"] for one in report["tools"][0]["weak"]}
    assert weak["stored_args"] == "'amount' are not stored: the same request cannot be sent again by itself"
    assert "rests on no key" in weak["operation_key"]


def test_a_module_whose_contract_breaks_a_rule_is_told_not_raised(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = checked(module(MODULE.replace("max_attempts=2", "max_attempts=0")), capsys)
    assert code == Exit.FOUND
    assert report["errors"] == [{"field": "contract of 'refund', max_attempts", "rule": "must be at least 1"}]


def test_an_inverse_that_is_a_read_undoes_nothing(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = MODULE.replace('effect="refund.cancel", action_class="irreversible"', 'effect="refund.show", read_only=True')
    _, report = checked(module(text), capsys)
    assert {"field": "refund.compensation[0].tool", "rule": "'cancel' is a read: it undoes nothing"} in report["errors"]


def test_a_registry_that_is_not_there_is_an_error_of_the_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contracts", "check", "nosuch:registry"]) == Exit.SETUP
    assert "'nosuch' cannot be imported" in capsys.readouterr().err


def drill(file: Path, **changes: Any) -> DrillResult:
    contract = load_contracts(file)[0]
    fields: dict[str, Any] = {
        "tool": contract.tool,
        "contract_digest": digest_of(contract),
        "provider": "http://127.0.0.1:1",
        "at_ms": 1,
        "samples": 1,
        "key": "not_honoured",
        "lag_s": 0.1,
        "absence": "reliable",
        "receipt": "stable",
        "lost_answer": "found",
        "differences": (Weakness("operation_key.honoured", "two effects"),),
    }
    return DrillResult(**fields | changes)


def test_what_a_drill_saw_against_the_contract_is_an_error_until_the_contract_changes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_result(beside(file), drill(file))
    code, report = checked(file, capsys)
    assert (code, report["errors"]) == (
        Exit.FOUND,
        [{"field": "payments.refund.operation_key.honoured", "rule": "the drill saw otherwise: two effects"}],
    )
    file.write_text(GOOD.replace("safe_window: 5", "safe_window: 9"))
    code, report = checked(file, capsys)
    assert (code, report["tools"][0]["drill"]) == (Exit.DONE, None)
    assert "changed since its drill" in report["tools"][0]["weak"][0]["what"]


def test_results_of_drills_of_several_tools_stand_in_one_file(file: Path) -> None:
    path = beside(file)
    keep_result(path, drill(file))
    keep_result(path, drill(file, tool="mail.send"))
    keep_result(path, drill(file, key="honoured"))
    assert path.name == "contracts.drill.json"
    kept = msgspec.json.decode(path.read_bytes())
    assert {name: one["key"] for name, one in kept.items()} == {"mail.send": "not_honoured", "payments.refund": "honoured"}
    assert sorted(one.name for one in file.parent.iterdir()) == ["contracts.drill.json", "contracts.yaml"]


def test_a_damaged_file_of_results_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside(file).write_text("{")
    assert run(["contracts", "check", str(file)]) == Exit.SETUP
    assert "contracts.drill.json: cannot be read as results of drills" in capsys.readouterr().err
