"""docs/people.md and docs/policies.md are tried: their commands parse, their example runs, their tables name what there is."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import msgspec
import pytest

from landed.core.offers import MEANINGS
from landed.core.policy import Ceiling, ToolPolicy, check_key, parsed
from landed.core.state import _CHOICES
from landed.core.vocabulary import Choice
from landed_services.cli._app import build
from landed_services.cli._commands import COMMANDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PEOPLE, POLICIES = (DOCS / "people.md").read_text(), (DOCS / "policies.md").read_text()
LINES = re.findall(r"^\$ landed (.*)$", PEOPLE + POLICIES, re.M)
VERBS = {
    "reviews": {"list", "show", "decide"},
    "approvals": {"list", "show", "approve", "deny"},
    "policies": {"list", "show", "set", "history"},
    "observe": {"report"},
}


def first_words(text: str, title: str) -> set[str]:
    """Names in the first column of the tables under *title*."""
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)`", section, re.M))


@pytest.mark.parametrize("line", LINES)
def test_each_command_of_the_pages_is_one_that_there_is(line: str) -> None:
    words = shlex.split(line)
    build().parse_args(words, exit_on_error=False, print_error=False)
    if words[:2] == ["policies", "set"] and words[3].startswith(("{", "[")):
        parsed(words[2], words[3])


def test_every_verb_is_on_a_page() -> None:
    shown = {tuple(line.split()[:2]) for line in LINES}
    assert shown >= {(name, verb) for name, verbs in VERBS.items() for verb in verbs}
    assert {name for name, _, _ in COMMANDS} >= VERBS.keys()


def test_every_field_of_a_policy_is_in_its_table_and_no_other() -> None:
    assert first_words(POLICIES, "Tools") == {field.name for field in msgspec.structs.fields(ToolPolicy)}
    assert first_words(POLICIES, "Ceilings") == {field.name for field in msgspec.structs.fields(Ceiling)}
    for key in ("tool:pay", "tool:*", "ceiling:refund.create", "ceiling:*", "automatic"):
        check_key(key)
    keys = {name for name in first_words(POLICIES, "Setting one") if not name.startswith("--")}
    assert keys == {"tool:<tool>", "tool:*", "ceiling:<effect type>", "ceiling:*", "automatic", "compensation"}


def test_every_choice_is_explained_and_offered_as_the_page_says() -> None:
    assert set(MEANINGS) == set(Choice)
    assert first_words(PEOPLE, "Reviews") >= {str(choice) for choice in Choice}
    rows = re.findall(r"^\| ([^|]*`\w+`[^|]*) \| ([^|]*`\w+`[^|]*) \|$", PEOPLE, re.M)
    said = {
        reason: set(re.findall(r"`(\w+)`", choices)) for reasons, choices in rows for reason in re.findall(r"`(\w+)`", reasons)
    }
    for reason, choices in _CHOICES.items():
        assert said[reason] == {str(choice) for choice in choices}


def test_the_example_runs_and_its_disagreement_is_on_the_log() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PEOPLE, re.S | re.M)
    names: dict[str, object] = {"__name__": "example"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "docs/people.md", "exec"), names)
    operation = names["ledger"].parts.log.state("refund-17")  # type: ignore[attr-defined]
    assert (operation.claimed_states, operation.disagreements) == (("failed",), 1)
