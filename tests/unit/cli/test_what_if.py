"""``landed replay what-if`` on a bundle: what it prints, how it ends, and that it can cause nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.unit.replay.playing import contracts_of, log_of
from tests.unit.replay.support import RING, items
from tests.unit.replay.test_what_if import altered

from landed.core import events as ev
from landed.core.contract_form import document_of
from landed.core.vocabulary import Refusal
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.replay.bundle import Head, write_bundle


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", "writer-1")
    monkeypatch.setenv("LANDED_WRITER_KEY", "a secret of thirty-two bytes or so")
    monkeypatch.delenv("LANDED_TENANT", raising=False)
    # What looked for a server would fail.
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("LANDED_DATABASE_URL", "postgresql://127.0.0.1:1/x")


def bundle(path: Path, log: object, **scope: str) -> str:
    head = Head(landed_bundle=1, release="0.1.0", topic="landed.operations", partitions=1, scope=scope, made_at_ms=1)
    write_bundle(path, head, items(log), RING)  # type: ignore[arg-type]
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return bundle(tmp_path / "b.landed", log_of("C67"))


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policies.yaml"
    path.write_text('"tool:db.drop_prod": null\n"tool:db.drop_test": {approval: true}\n')
    return str(path)


def test_without_other_terms_nothing_differs_and_it_ends_well(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "what-if", file]) == Exit.DONE
    assert capsys.readouterr().out == (
        "20 events, 7 decisions: 7 the same; operations that differ: 0; decisions unknown\nafter: 0\n"
    )


def test_a_release_that_decides_otherwise_ends_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = bundle(tmp_path / "b.landed", altered(log_of("C67"), ev.DispatchRefused, reason=Refusal.CANCELLED))
    assert run(["replay", "what-if", file]) == Exit.FOUND
    said = capsys.readouterr()
    told = " ".join(said.out.split())
    assert "would be: refused (approval_required), by this release under the recorded terms" in told
    assert "this release decides otherwise than it is recorded" in said.err


def test_other_policies_are_an_answer_that_fits_a_terminal(file: str, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "what-if", file, "--policy", policy]) == Exit.DONE
    said = capsys.readouterr()
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert "\x1b" not in said.out
    assert "C67:B  granted instead of refused\n" in said.out
    assert "db.drop_prod:\n          1  granted instead of refused\n" in said.out


def test_for_programs_each_line_says_what_it_is(file: str, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "what-if", file, "--policy", policy, "-o", "jsonl"]) == Exit.DONE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["is"] for line in lines] == ["difference", "summary"]
    assert lines[0]["unknown"] == "what the provider would have answered to a call that was never made"
    assert run(["replay", "what-if", file, "--policy", policy, "-o", "json"]) == Exit.DONE
    whole = json.loads(capsys.readouterr().out)
    assert [{"is": "difference", **one} for one in whole["differences"]] == lines[:1]
    assert {"is": "summary", **whole["summary"]} == lines[1]


def test_other_contracts_come_from_a_contract_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of("C10")
    contract = contracts_of(log)["subs.create"]
    document = document_of(contract) | {"on_absent": "escalate", "action_class": "compensatable"}
    (tmp_path / "contracts.yaml").write_text(yaml.safe_dump([document]))
    file = bundle(tmp_path / "b.landed", log)
    assert run(["replay", "what-if", file, "--contracts", str(tmp_path / "contracts.yaml")]) == Exit.DONE
    assert "subs.create:\n          1  escalated instead of retried\n" in capsys.readouterr().out


def test_of_one_group_what_its_tenant_shares_is_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = bundle(tmp_path / "b.landed", log_of("C67"), group="C67")
    (tmp_path / "p.json").write_text('{"ceiling:*": {"limit": 1, "per_s": 60}}')
    assert run(["replay", "what-if", file, "--policy", str(tmp_path / "p.json")]) == Exit.DONE
    assert "1 not judged: what other groups use of a ceiling" in capsys.readouterr().out


WRONG = [
    ("policy", '{"tool:x": {"aproval": true}}', "tool:x: Object contains unknown field `aproval`"),
    ("policy", '{"compensation": {"engine": "rules", "rules": [{"id": ""}]}}', "rules[0].id: must not be empty"),
    ("policy", "[", "--policy: "),
    ("contracts", '{"tool": "x"}', "x.effect: is required"),
]


@pytest.mark.parametrize(("option", "text", "rule"), WRONG, ids=[row[2] for row in WRONG])
def test_bad_terms_name_field_and_rule(
    file: str, tmp_path: Path, option: str, text: str, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(text)
    assert run(["replay", "what-if", file, f"--{option}", str(tmp_path / "bad.json")]) == Exit.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert rule in said.err
    assert run(["replay", "what-if", file, f"--{option}", str(tmp_path / "none.json")]) == Exit.USAGE


def test_it_loads_no_client_of_a_log_no_database_and_no_tool(file: str, policy: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump([document_of(one) for one in contracts_of(log_of("C67")).values()]))
    words = ["replay", "what-if", file, "--policy", policy, "--contracts", str(tmp_path / "c.yaml")]
    program = (
        f"import sys; from landed_services.cli._app import run; assert run({words!r}) == 0\n"
        "allowed = {'landed.sdk', 'landed.sdk.contract_files', 'landed.sdk.errors', 'landed.sdk.settings'}\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in ('confluent_kafka', 'psycopg')"
        " or (name.startswith('landed.sdk') and name not in allowed)]\n"
        "print(sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
