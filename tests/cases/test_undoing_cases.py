"""Ceilings, approvals, items of one request and undoing: one situation each, played against the product's own code."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from landed.testing.cases import cases_of, run

from .renaming import Renamed

DOCUMENT: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "undoing.yaml").read_text())


@pytest.mark.parametrize("document", DOCUMENT["cases"], ids=[one["title"] for one in DOCUMENT["cases"]])
def test_a_situation_ends_as_the_norm_says_whatever_its_names_are(document: dict[str, Any]) -> None:
    for played in (document, Renamed(document, 1).document):
        (one,) = cases_of({"format": 2, "cases": [played]}, "undoing.yaml")
        outcome = run(one)
        assert (outcome.result, outcome.because) == ("pass", ())
