"""docs/sdk.md is tried: its examples run as they stand, and its tables name every field, setting, result and error."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from landed.sdk import errors, results, settings
from landed.sdk.tools import OPTIONS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "sdk.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_words(text: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)`", text, re.M))


@pytest.mark.parametrize("code", EXAMPLES, ids=[f"example {number}" for number, _ in enumerate(EXAMPLES, 1)])
def test_each_example_runs_as_it_stands(code: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "docs/sdk.md", "exec"), {"__name__": "example"})


def test_the_first_example_prints_what_the_page_says_and_has_ten_lines() -> None:
    code = EXAMPLES[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/sdk.md", "exec"), {"__name__": "example"})
    said = re.findall(r"^```text\n(.*?)^```", PAGE, re.S | re.M)[0]
    assert printed.getvalue() == said
    assert len([line for line in code.splitlines() if line.strip()]) <= 11


def test_every_result_and_each_of_its_fields_is_in_the_table() -> None:
    table = section("Results")
    for kind in (results.Confirmed, results.Rejected, results.Unknown, results.Escalated, results.Refused):
        row = next(line for line in table.splitlines() if line.startswith(f"| `{kind.__name__}`"))
        for field in kind.__struct_fields__:
            assert field == "operation_id" or f"`{field}`" in row, f"{kind.__name__}.{field}"


def test_every_option_of_perform_is_in_its_table() -> None:
    assert first_words(section("Performing")) == OPTIONS - {"tool", "self"}


def test_every_error_is_in_the_tree() -> None:
    for name in errors.__all__:
        assert name in section("Errors"), name


def test_every_variable_of_the_environment_is_in_the_table() -> None:
    read = set(re.findall(r"LANDED_[A-Z_]+", Path(settings.__file__).read_text()))
    assert read == set(re.findall(r"LANDED_[A-Z_]+", section("Settings")))
    for field in ("tenant", "worker", "wait", "record_wait", "keep_trying"):
        assert f"`{field}`" in section("Settings")
