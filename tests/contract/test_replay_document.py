"""docs/replay.md is tried: its commands parse, its table names the options that there are, its example is what is printed."""

import re
import shlex
from pathlib import Path

import pytest
from tests.unit.replay.support import lost_answer, told

from landed_services.cli._app import build
from landed_services.cli.replay import export, tell
from landed_services.replay.showing import told_text

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "replay.md").read_text()
LINES = re.findall(r"^\$ landed (.*)$", PAGE, re.M)


@pytest.mark.parametrize("line", LINES)
def test_each_command_of_the_page_is_one_that_there_is(line: str) -> None:
    function, _, _ = build().parse_args(shlex.split(line.split(" > ")[0]), exit_on_error=False, print_error=False)
    assert function is (export if " export " in line else tell)


def test_every_option_is_in_the_table_and_no_other() -> None:
    names = {f"--{name.rstrip('_').replace('_', '-')}" for name in (*tell.__annotations__, *export.__annotations__)}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", PAGE, re.M)) == names - {"--return", "--file"}


def test_the_example_is_what_is_printed() -> None:
    story, _ = told(lost_answer())
    refused = next(one for one in story.decisions() if one.decision == "dispatch_refused")
    assert "```\n" + "\n".join(told_text(refused)) + "\n```" in PAGE
