"""Failures as they are commonly told, in forms that the shipped cases do not use; and files that are broken."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from landed.testing.cases import cases_of, run
from landed.testing.cases.command import main
from landed.testing.cases.loading import CasesError

from .renaming import Renamed

DOCUMENT: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "more_reports.yaml").read_text())


def test_every_report_ends_as_the_norm_says_whatever_its_names_are() -> None:
    for document in DOCUMENT["cases"]:
        for played in (document, Renamed(document, 1).document):
            (one,) = cases_of({"format": 2, "cases": [played]}, "more_reports.yaml")
            assert (document["title"], run(one).because) == (document["title"], ())


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"at": float("inf")}, "C301: steps.0.at: must be a finite number"),
        ({"args": {1: 2}}, "C301: steps.0.args.1: a name must be text"),
        ({"args_text": "{nope"}, "C301: steps.0.args_text: is not JSON"),
        ({"args_text": "[1]"}, "C301: steps.0.args_text: is not a JSON object"),
        ({"ops": ["D1..D999999999"]}, "C301: steps.0.ops: 'D1..D999999999' names more than 100000 operations"),
        ({"ops": ["D9..D1"]}, "C301: steps.0.ops: 'D9..D1' is no range of names"),
    ],
)
def test_a_broken_step_is_told_with_file_case_field_and_rule(step: dict[str, Any], told: str) -> None:
    case = DOCUMENT["cases"][0]
    broken = {**case, "steps": [{**case["steps"][0], **step}, *case["steps"][1:]]}
    with pytest.raises(CasesError) as caught:
        cases_of({"format": 2, "cases": [broken]}, "mine.yaml")
    assert f"mine.yaml: {told}" in str(caught.value)


def test_an_empty_file_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.touch()
    assert main([str(empty)]) == 2
    assert "the file is empty; it needs `format: 2` and `cases:`" in capsys.readouterr().err
