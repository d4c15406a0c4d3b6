"""docs/replay.md is tried: its commands parse, its table names the options that there are, its example is what is printed."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.history import T0, History
from tests.unit.replay.support import items, lost_answer, told

from landed_services.cli._app import build
from landed_services.cli.replay import export, tell
from landed_services.cli.what_if import what_if
from landed_services.replay.claims import NO_POLICY_ON_RECORD
from landed_services.replay.judging import NO_CLAIM
from landed_services.replay.rooms import CUT_ROOM, UNKNOWN_ROOM, UNREAD_ROOM
from landed_services.replay.scope import Scope
from landed_services.replay.showing import difference_text, tally_text, told_text
from landed_services.replay.terms import Terms, policies_from
from landed_services.replay.what_if import UNKNOWN_LOOK, WhatIf

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "replay.md").read_text()
LINES = re.findall(r"^\$ landed (.*)$", PAGE, re.M)


@pytest.mark.parametrize("line", LINES)
def test_each_command_of_the_page_is_one_that_there_is(line: str) -> None:
    function, _, _ = build().parse_args(shlex.split(line.split(" > ")[0]), exit_on_error=False, print_error=False)
    assert function is (export if " export " in line else what_if if " what-if" in line else tell)


def test_every_option_is_in_the_table_and_no_other() -> None:
    names = {
        f"--{name.rstrip('_').replace('_', '-')}"
        for name in (*tell.__annotations__, *export.__annotations__, *what_if.__annotations__)
    }
    assert set(re.findall(r"^\| `(--[a-z-]+)`", PAGE, re.M)) == names - {"--return", "--file"}


def test_the_example_is_what_is_printed() -> None:
    story, _ = told(lost_answer())
    refused = next(one for one in story.decisions() if one.decision == "dispatch_refused")
    assert "```\n" + "\n".join(told_text(refused)) + "\n```" in PAGE


def test_the_policies_and_the_example_of_what_if_are_what_is_printed() -> None:
    policies = policies_from(yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0]))
    assert policies["tool:legacy_refund"] is None
    history = History().prepare("X").must("dispatch_requested")
    history.grant(actor="projector", seen_version=2, decided_at_ms=T0).must("outcome_confirmed")
    run = WhatIf(Scope(), Terms(policies=policies))
    lines = [text for one in run.differences(items(history.log)) for text in difference_text(one)]
    assert "```\n" + "\n".join([*lines, *tally_text(run.tally)]) + "\n```" in PAGE


def test_every_reason_for_which_nothing_is_said_is_in_the_table() -> None:
    assert set(re.findall(r"^\| ([a-z][^|]+[a-z]) \| ", PAGE.split("| reason | when |")[1], re.M)) >= {
        NO_CLAIM.why,
        NO_POLICY_ON_RECORD,
        UNREAD_ROOM,
        CUT_ROOM,
        UNKNOWN_ROOM,
        UNKNOWN_LOOK,
    }
