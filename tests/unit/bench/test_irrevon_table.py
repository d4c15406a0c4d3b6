"""What counts as reached in IrrevonBench, from its result documents alone."""

from typing import Any

import pytest
from bench.irrevon.table import COLUMNS, arms_table, cells_table, missed, unit_of

C2, C3 = "C2/refdest/response-lost/IRREVERSIBLE", "C3/refdest/response-lost/IRREVERSIBLE"


def result(*outcomes: str, effects: tuple[int, ...] = (1, 1), valid: bool = True, **numerators: int) -> dict[str, Any]:
    """A document of two trials; metrics that are not named are 0 of 2."""
    return {
        "validity": {"status": "VALID" if valid else "INVALID"},
        "trials": [{"trial_index": number, "arm_outcome": one} for number, one in enumerate(outcomes)],
        "metrics": {name: {"numerator": numerators.get(name, 0), "denominator": 2} for name in COLUMNS},
        "oracle_readback": {"per_intent_effect_counts": {str(number): count for number, count in enumerate(effects)}},
        "history": {"violations_by_invariant": {name: n for name, n in numerators.items() if name.startswith("H")}},
    }


def judged(found: dict[str, Any], cell: str = C2) -> list[str]:
    return missed([unit_of("landed", cell, found)], "landed", trials=2)


def test_two_effects_for_two_intents_and_no_doubt_left_is_all_that_is_asked() -> None:
    assert judged(result("committed", "committed")) == []


@pytest.mark.parametrize("metric", [name for name in COLUMNS if name != "human_review_rate"])
def test_a_single_count_of_any_metric_is_missed(metric: str) -> None:
    assert judged(result("committed", "committed", **{metric: 1})) == [f"landed: {COLUMNS[metric]} 1, not 0"]


@pytest.mark.parametrize("invariant", ["H4-effect-after-cancellation", "H5-unauthorized-effect"])
def test_an_effect_that_nobody_may_cause_is_missed_though_it_is_no_metric(invariant: str) -> None:
    (said,) = judged(result("committed", "committed", **{invariant: 1}))
    assert said.endswith("1, not 0")


def test_a_person_may_be_asked_only_where_the_provider_cannot_be() -> None:
    asked = result("committed", "escalated", human_review_rate=1)
    assert judged(asked, C3) == []
    assert judged(asked, C2) == [f"landed: 1 in human review in {C2}, where the provider can be asked"]


@pytest.mark.parametrize(("said", "effects"), [("suppressed", 1), ("failed", 1), ("committed", 0), ("committed", 2)])
def test_an_arm_that_says_what_the_records_do_not_has_missed(said: str, effects: int) -> None:
    assert judged(result("committed", said, effects=(1, effects))) == ["landed: 1 trials ended otherwise than it says"]


def test_trials_that_were_not_played_or_do_not_count_are_missed() -> None:
    assert judged(result("committed")) == ["landed: 1 valid trials, not 2"]
    assert judged(result("committed", "committed", valid=False)) == ["landed: 0 valid trials, not 2"]
    assert missed([], "landed") == ["landed: 0 valid trials, not 72"]


def test_another_arms_counts_are_no_part_of_the_judgement() -> None:
    theirs = unit_of("B0", C2, result("committed", "committed", duplicate_effect_rate=2))
    ours = unit_of("landed", C2, result("committed", "committed"))
    assert missed([theirs, ours], "landed", trials=2) == []


def test_the_tables_show_sums_over_cells_and_what_does_not_apply_as_a_dash() -> None:
    units = [
        unit_of("B0", C2, result("committed", "committed", duplicate_effect_rate=1)),
        unit_of("B0", C3, result("committed", "committed", duplicate_effect_rate=2, effects=(2, 1))),
    ]
    for one in units:
        object.__setattr__(one, "metrics", {**one.metrics, "false_reconciliation_rate": None})
    head, row = arms_table(units).splitlines()
    assert head.split()[:3] == ["arm", "trials", "duplicates"]
    assert row.split()[:5] == ["B0", "4", "3/4", "0/4", "–"]
    assert row.split()[-1] == "1"
    assert cells_table(units, "B0").splitlines()[2].split() == ["C3/response-lost", "2", "2/2", "0/2"]
