"""`landed perform`, `landed tail`, completion and tables, as far as no server is needed."""

import subprocess
from pathlib import Path

import pytest

from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.cli._output import print_table

MODULE = "def refund(order: str, amount: int) -> dict:\n    raise AssertionError('called')\n"
CONTRACTS = "- {tool: refund, effect: refund.create}\n- {tool: mail, effect: mail.send}\n"
CALL = ["--args", '{"order": "A7", "amount": 5}', "--operation", "r-1"]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "by_hand_tools.py").write_text(MODULE)
    (tmp_path / "contracts.yaml").write_text(CONTRACTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("LANDED_TENANT", "acme")
    return "by_hand_tools:refund"


@pytest.mark.parametrize(
    ("words", "code", "rule"),
    [
        (CALL, Exit.USAGE, "--contract: by_hand_tools:refund is a plain function"),
        (["--contract", "contracts.yaml", *CALL], Exit.USAGE, "--tool: must name one of the contracts"),
        (["--contract", "contracts.yaml", "--tool", "refund", "--args", "[1]"], Exit.USAGE, "--args: must be a JSON object"),
        (["--contract", "contracts.yaml", "--tool", "refund", "--operation", "r-1"], Exit.USAGE, "arguments.order: is required"),
        (["--contract", "contracts.yaml", "--tool", "refund", *CALL, "--group", "g"], Exit.USAGE, "goes with --workflow-type"),
        (["--contract", "contracts.yaml", "--tool", "refund", *CALL], Exit.USAGE, "say --yes as well"),
    ],
)
def test_a_call_by_hand_that_is_wrong_or_not_agreed_to_calls_nothing(
    tool: str, words: list[str], code: Exit, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["perform", tool, *words]) == code
    assert rule in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--event", "no_such"], "is no type of event"),
        (["-o", "json"], "json is one array"),
        (["--no-follow"], "needs a beginning"),
        (["--from", "yesterday"], "must be a time"),
    ],
)
def test_options_of_tail_that_do_not_fit_are_refused(words: list[str], rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tail", "--tenant", "acme", *words]) == Exit.USAGE
    assert rule in capsys.readouterr().err


def test_a_table_that_is_too_wide_goes_on_below_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    values = ("a" * 60, "words " * 20, "end")
    print_table(("one", "two", "three"), [values])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert (said.count("a"), said.count("words"), said.count("end")) == (60, 20, 1)


def test_bash_completes_commands_and_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == Exit.DONE
    script = tmp_path / "landed.bash"
    script.write_text(capsys.readouterr().out)
    asked = f'source {script}; COMP_WORDS=(landed re); COMP_CWORD=1; _landed; echo "${{COMPREPLY[@]}}"'
    asked += '; COMP_WORDS=(landed unwind --re); COMP_CWORD=2; _landed; echo "${COMPREPLY[@]}"'
    said = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert {"replay", "reviews", "reconciler"} <= set(said[0].split())
    assert said[1] == "--reason"
    for shell, first in (("zsh", "#compdef landed"), ("fish", "#")):
        run(["completion", shell])
        script = capsys.readouterr().out
        assert script.startswith(first)
        assert "unwind" in script
