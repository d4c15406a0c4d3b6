"""Every reported failure of the shipped file holds against the product's own code, whatever its names are."""

import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from landed.testing.cases import Outcome, cases_of, run
from landed.testing.cases.command import main

from .renaming import Renamed

FILE = Path(__file__).parent / "cases.yaml"
DOCUMENT: dict[str, Any] = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader)
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run(case) for case in cases_of(DOCUMENT, "cases.yaml")]


def test_every_case_passes(outcomes: list[Outcome]) -> None:
    assert [(one.case.id, one.result, one.because) for one in outcomes if one.result != "pass"] == []
    assert len(outcomes) == 80
    assert len({one.case.kind for one in outcomes}) == 16


@pytest.mark.parametrize("seed", SEEDS)
def test_names_decide_nothing(outcomes: list[Outcome], seed: int) -> None:
    """Ids, titles, tools, operations and groups are renamed at random; slow cases once only."""
    slow = {"C87", "C102"} if seed != SEEDS[0] else set()
    told = [(case, one) for case, one in zip(DOCUMENT["cases"], outcomes, strict=True) if case["id"] not in slow]
    renamed = [Renamed(case, seed).document for case, _ in told]
    again = [run(case) for case in cases_of({"format": 2, "cases": renamed}, "renamed")]
    assert [(one.result, one.because, one.checked) for one in again] == [
        (one.result, one.because, one.checked) for _, one in told
    ]


def test_a_case_gives_the_same_outcome_every_time() -> None:
    case = next(one for one in cases_of(DOCUMENT, "cases.yaml") if one.kind == "crash_zombie")
    assert run(case) == run(case)


def test_the_schema_in_the_package_is_the_one_beside_the_cases() -> None:
    packaged = files("landed.testing.cases").joinpath("cases.schema.json").read_text()
    assert packaged == (FILE.parent / "cases.schema.json").read_text()
    assert json.loads(packaged)["properties"]["format"] == {"const": 2}


def test_the_command_prints_a_line_for_each_case_and_what_was_checked() -> None:
    out = io.StringIO()
    assert main([str(FILE), "--only", "C01,C65"], out) == 0
    lines = out.getvalue().splitlines()
    assert lines[0].split() == ["C01", "pass"]
    assert lines[1].split() == ["C65", "pass"]
    assert any(line.startswith("      compare: effects of") for line in lines)
    assert lines[-2] == "2 passed, 0 failed, 0 not supported"
    assert lines[-1].startswith("of the passed: ")
