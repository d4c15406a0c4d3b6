"""Every command of docs/walkthrough.md prints what the page shows; a line `...` stands for lines that it leaves out."""

import re
import shlex
from pathlib import Path

import pytest

from landed_services.cli._app import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "walkthrough.md").read_text()
BLOCKS = re.findall(r"^```console\n\$ landed ([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_has_its_commands() -> None:
    assert len(BLOCKS) >= 7
    assert PAGE.count("```console") == len(BLOCKS)


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[str(number) for number, _ in enumerate(BLOCKS, start=1)])
def test_a_command_prints_what_the_page_shows(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("LANDED_TENANT", "LANDED_WRITER_KEY", "LANDED_WRITER_KEY_ID", "LANDED_TRUSTED_KEYS"):
        monkeypatch.delenv(name, raising=False)
    words = shlex.split(command)
    to_file = ">" in words
    assert run(words[: words.index(">")] if to_file else words) == 0
    printed = capsys.readouterr().out
    if to_file:
        assert printed.lower().startswith("<!doctype html>")
        return
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch(r"(?:.*\n)*?".join(parts), printed), printed


def test_the_page_names_the_one_who_decided_and_what_his_decision_rested_on() -> None:
    """The right conclusion stands in the bundle itself, not only on the page."""
    (answer,) = re.findall(r"^## 6\. .*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert "**ben** decided `not_found`" in answer
    assert "made once" in answer
