"""docs/contracts.md is tried: its tables are the code's, its files and commands run as they stand and print what it says."""

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landed.core import contract as parts
from landed.core.contract import Contract
from landed.core.contract_schema import _PARTS_OF
from landed.core.contract_words import MEANING, PARTS
from landed_services.cli._app import run
from landed_services.cli._exit import Exit

PAGE_PATH = Path(__file__).resolve().parents[2] / "docs" / "contracts.md"
PAGE = PAGE_PATH.read_text() if PAGE_PATH.exists() else ""
FILES = dict(re.findall(r"^`(\S+?)`:\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M))
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.S | re.M)


def default_of(path: str) -> str:
    """How a file says the default of the field at *path*; a required field has none."""
    top, _, name = path.rpartition(".")
    kind = next((getattr(parts, part) for part, prefix in _PARTS_OF.items() if prefix == top), Contract)
    field = next(one for one in msgspec.structs.fields(kind) if one.name == name)
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if value is None or value in ((), {}):
        return "–"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def fields_of_part(part: str) -> str:
    names = dict(PARTS)[part]
    rows = [
        f"| `{path}` | {default_of(path)} | {meaning} |" for path, meaning in MEANING.items() if path.partition(".")[0] in names
    ]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])


@pytest.mark.parametrize("part", [part for part, _ in PARTS])
def test_the_table_of_each_part_is_the_one_of_the_code(part: str) -> None:
    """Stale? Put what this prints in its place."""
    assert fields_of_part(part) in PAGE, fields_of_part(part)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_page_shows_a_contract_file_and_the_tools_that_it_is_bound_to() -> None:
    assert set(FILES) == {"contracts.yaml", "acme_tools.py"}
    assert {words.split()[1] for words, _ in COMMANDS} == {"contracts", "drill"}


def test_the_contract_in_code_is_valid_as_it_stands() -> None:
    example = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)[0]
    assert example not in FILES.values()
    exec(compile(example, "docs/contracts.md", "exec"), {"__name__": "example"})


def measured(text: str) -> str:
    """What differs from run to run: times, ports, and the folder."""
    text = re.sub(r"\d+\.\d\d s", "N s", text)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)


def test_each_command_prints_what_the_page_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in COMMANDS:
        code = run(words.split()[1:])
        printed = capsys.readouterr().out
        assert code in (Exit.DONE, Exit.FOUND), words
        wanted = measured(said)
        if "…\n" in wanted:
            first, last = wanted.split("…\n", 1)
            assert measured(printed).startswith(first), words
            assert measured(printed).endswith(last), words
        else:
            assert measured(printed) == wanted, words


def test_the_options_of_a_sweep_that_the_page_names_exist(capsys: pytest.CaptureFixture[str]) -> None:
    run(["sweep", "--help"])
    shown = capsys.readouterr().out
    section = PAGE.split("\n## Sweeping\n")[1].split("\n## ")[0]
    options = set(re.findall(r"--[a-z][a-z-]+", section))
    assert options
    for option in options:
        assert option in shown, option
