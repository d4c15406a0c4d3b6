"""Every verb, option, setting, event, metric and error has its line in docs/. A failure names exactly what is missing.

docs/cli.md is written by `python -m landed_services.cli._reference > docs/cli.md`; all other pages are written by hand.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

import landed
import landed_services
from landed.core.errors import LandedError
from landed.core.events import CATALOGUE
from landed.core.vocabulary import Refusal
from landed_services.cli._app import build
from landed_services.cli._exit import EXIT_CODES, FAILURES
from landed_services.cli._reference import Verb, verbs
from landed_services.metrics.catalogue import Metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "cli.md").read_text("utf-8")
WRITTEN = "\n".join(path.read_text("utf-8") for path in sorted(DOCS.glob("*.md")))
VERBS = tuple(verbs())
NOT_FOR_USERS = {
    "LANDED_CASES_DOOR": "between the runner of cases and the processes that it starts",
    "LANDED_CASES_PLAYED": "between the runner of cases and the processes that it starts",
}
SAYS_NOTHING = {
    "projector": "a service: its log is JSON, a line each",
    "reconciler": "a service: its log is JSON, a line each",
    "compensator": "a service: its log is JSON, a line each",
    "notifier": "a service: its log is JSON, a line each",
    "contracts schema": "prints a JSON document",
    "completion": "prints a script for a shell",
}


def sections() -> dict[str, str]:
    """Text of each section of docs/cli.md about a verb, by the verb."""
    parts = re.split(r"^## `landed (.+)`$", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def errors() -> Iterator[type[BaseException]]:
    for package in (landed, landed_services):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for name, value in vars(module).items():
                own = inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
                if own and issubclass(value, LandedError):
                    yield value


def settings() -> Iterator[str]:
    for root in ("shared", "services"):
        for path in (ROOT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from re.findall(r"^LANDED_[A-Z_]+$", node.value)


def test_every_verb_and_option_stands_in_the_reference_and_nothing_else_does() -> None:
    found = sections()
    missing = [f"landed {verb.name}" for verb in VERBS if verb.name not in found]
    for verb in VERBS:
        for option in verb.options:
            lost = [name for name in option.names if f"`{name}`" not in found.get(verb.name, "")]
            missing += [f"landed {verb.name} {name}" for name in lost]
    assert not missing, f"not in docs/cli.md (python -m landed_services.cli._reference > docs/cli.md): {missing}"
    known = {verb.name: {name for option in verb.options for name in option.names} for verb in VERBS}
    gone = [f"landed {name}" for name in found if name not in known]
    for name, text in found.items():
        rows = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
        gone += [
            f"landed {name} {one}" for row in rows for one in re.findall(r"`([^`]+)`", row) if one not in known.get(name, ())
        ]
    assert not gone, f"in docs/cli.md and not in the command line: {gone}"


def test_every_verb_and_option_says_what_it_is_for() -> None:
    assert not [f"landed {verb.name}" for verb in VERBS if not verb.help]
    assert not [f"landed {verb.name} {option.names[0]}" for verb in VERBS for option in verb.options if not option.help]


def test_every_verb_prints_json_and_json_lines() -> None:
    lacking = []
    for verb in VERBS:
        choices = next((set(option.choices) for option in verb.options if "--output" in option.names), set())
        if not {"text", "json", "jsonl"} <= choices and verb.name not in SAYS_NOTHING:
            lacking.append(f"landed {verb.name}")
    assert not lacking


@pytest.fixture(scope="module")
def app() -> App:
    return build()


@pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])
def test_every_verb_has_examples_that_the_command_line_takes(verb: Verb, app: App) -> None:
    mine = [one for one in verb.examples if f"landed {verb.name}" in one]
    assert mine, f"landed {verb.name} --help shows no example of it"
    for example in mine:
        inner = re.search(r"[$<]\((landed .+)\)", example)
        words = shlex.split((inner[1] if inner else example).partition(" > ")[0])
        assert words[0] == "landed", example
        app.parse_args(words[1:], exit_on_error=False, print_error=False)


def test_every_exit_code_is_documented() -> None:
    lines = [f"| {code.value} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    assert not [line for line in lines if line not in PAGE]


def test_every_setting_is_documented() -> None:
    found = set(settings())
    assert found > set(NOT_FOR_USERS)
    missing = sorted(one for one in found - set(NOT_FOR_USERS) if f"`{one}`" not in WRITTEN)
    assert not missing, f"settings without a line in docs/: {missing}"


def test_every_type_of_event_and_every_refusal_is_documented() -> None:
    assert not [f"event {one}" for one in CATALOGUE if f"`{one}`" not in (DOCS / "events.md").read_text("utf-8")]
    assert not [f"refusal {one.value}" for one in Refusal if f"`{one.value}`" not in WRITTEN]


def test_every_metric_is_documented() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    names = [family.name + ("_total" if family.type == "counter" else "") for family in Metrics().registry.collect()]
    assert len(names) > 10
    assert not [f"metric {name}" for name in names if f"`{name}`" not in page]


def test_every_error_is_documented_with_the_exit_code_that_it_ends_a_command_with() -> None:
    page = (DOCS / "errors.md").read_text("utf-8")
    rows = {row[0]: row[-1] for row in (re.findall(r"[^|]+", line) for line in page.splitlines() if line.startswith("| `"))}
    documented = {name.strip().strip("`"): code.strip() for name, code in rows.items()}
    found = {error.__name__: error for error in errors()}
    missing = sorted(name for name in found if name not in documented)
    assert not missing, f"errors without a row in docs/errors.md: {missing}"
    assert not sorted(set(documented) - set(found)), "rows of docs/errors.md about errors that there are not"
    wrong = []
    for path, code in FAILURES.items():
        name = path.partition(":")[2]
        if documented[name] != str(code.value):
            wrong.append(f"{name} ends with {code.value}, docs/errors.md says {documented[name]}")
    assert not wrong
