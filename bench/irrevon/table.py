"""What the oracle found, as tables, and whether the product reached what it has to. Pure: made of result documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TRIALS: Final = 72
COLUMNS: Final = {
    "duplicate_effect_rate": "duplicates",
    "lost_legitimate_effect_rate": "lost",
    "false_reconciliation_rate": "false reconc.",
    "human_review_rate": "human review",
    "orphaned_effect_rate": "orphaned",
    "unresolved_ambiguous_rate": "unresolved",
    "false_suppression_rate": "suppressed",
}
"""Metrics of the benchmark, in the order in which they are shown."""
NONE_OF: Final = tuple(name for name in COLUMNS if name != "human_review_rate")
FORBIDDEN: Final = {
    "H4-effect-after-cancellation": "after cancel",
    "H5-unauthorized-effect": "unauthorized",
}
"""Invariants of the benchmark's history that are no metric of its own."""
EFFECTS_OF: Final = {"committed": 1, "suppressed": 0, "failed": 0}
"""How many effects an outcome means; the others mean that the arm cannot tell."""
WITHOUT_KEY_AND_LOOKUP: Final = "C3"


@dataclass(frozen=True)
class Unit:
    """Four trials of one cell by one arm, as the oracle judged them."""

    arm: str
    cell: str
    """tier/destination/fault/class."""
    valid: bool
    trials: int
    outcomes: Mapping[str, int]
    metrics: Mapping[str, tuple[int, int] | None]
    """Numerator and denominator; None: not applicable."""
    violations: Mapping[str, int]
    disbelieved: int
    """Trials of which the arm says how they ended, and the destination's records say something else."""

    @property
    def tier(self) -> str:
        return self.cell.split("/")[0]


def unit_of(arm: str, cell: str, result: Mapping[str, Any]) -> Unit:
    """*result*: a document `irrevonbench/result/v1`."""
    metrics = {name: _counted(result["metrics"][name]) for name in COLUMNS}
    return Unit(
        arm=arm,
        cell=cell,
        valid=result["validity"]["status"] == "VALID",
        trials=len(result["trials"]),
        outcomes=Counter(one["arm_outcome"] for one in result["trials"]),
        metrics=metrics,
        violations=result.get("history", {}).get("violations_by_invariant", {}),
        disbelieved=sum(
            _disbelieved(one, result["oracle_readback"]["per_intent_effect_counts"] or {}) for one in result["trials"]
        ),
    )


def _counted(metric: Mapping[str, Any]) -> tuple[int, int] | None:
    return None if metric["numerator"] is None else (metric["numerator"], metric["denominator"])


def _disbelieved(trial: Mapping[str, Any], effects: Mapping[str, int]) -> bool:
    meant = EFFECTS_OF.get(trial["arm_outcome"])
    return meant is not None and effects.get(str(trial["trial_index"]), 0) != meant


def pooled(units: Iterable[Unit], metric: str) -> tuple[int, int] | None:
    """Over all cells; None where it applies in none."""
    found = [one.metrics[metric] for one in units]
    counted = [one for one in found if one is not None]
    return (sum(n for n, _ in counted), sum(d for _, d in counted)) if counted else None


def arms_table(units: Sequence[Unit]) -> str:
    """One row for each arm, over all trials."""
    rows = [("arm", "trials", *COLUMNS.values(), *FORBIDDEN.values(), "wrong answer")]
    for arm in dict.fromkeys(one.arm for one in units):
        own = [one for one in units if one.arm == arm]
        cells = [_of(pooled(own, metric)) for metric in COLUMNS]
        forbidden = [str(sum(one.violations.get(name, 0) for one in own)) for name in FORBIDDEN]
        rows.append((arm, str(sum(one.trials for one in own)), *cells, *forbidden, str(sum(one.disbelieved for one in own))))
    return _lines(rows)


def cells_table(units: Sequence[Unit], arm: str) -> str:
    """One row for each cell of *arm*: how many trials it ended in which way."""
    own = [one for one in units if one.arm == arm]
    outcomes = sorted({name for one in own for name in one.outcomes})
    rows = [("cell", *outcomes, "duplicates", "lost")]
    for cell in dict.fromkeys(one.cell for one in own):
        of_cell = [one for one in own if one.cell == cell]
        counts = [str(sum(one.outcomes.get(name, 0) for one in of_cell)) for name in outcomes]
        effects = [_of(pooled(of_cell, metric)) for metric in ("duplicate_effect_rate", "lost_legitimate_effect_rate")]
        rows.append(("/".join(cell.split("/")[0:3:2]), *counts, *effects))
    return _lines(rows)


def missed(units: Sequence[Unit], arm: str, *, trials: int = TRIALS) -> list[str]:
    """What *arm* had to reach and did not, in words; empty where it reached all of it."""
    own = [one for one in units if one.arm == arm]
    found = []
    if (played := sum(one.trials for one in own if one.valid)) != trials:
        found.append(f"{arm}: {played} valid trials, not {trials}")
    for metric in NONE_OF:
        if (count := pooled(own, metric)) is not None and count[0]:
            found.append(f"{arm}: {COLUMNS[metric]} {count[0]}, not 0")
    for name, title in FORBIDDEN.items():
        if count_of := sum(one.violations.get(name, 0) for one in own):
            found.append(f"{arm}: {title} {count_of}, not 0")
    if wrong := sum(one.disbelieved for one in own):
        found.append(f"{arm}: {wrong} trials ended otherwise than it says")
    for one in own:
        reviewed = one.metrics["human_review_rate"]
        if reviewed is not None and reviewed[0] and one.tier != WITHOUT_KEY_AND_LOOKUP:
            found.append(f"{arm}: {reviewed[0]} in human review in {one.cell}, where the provider can be asked")
    return found


def _of(count: tuple[int, int] | None) -> str:
    return "–" if count is None else f"{count[0]}/{count[1]}"


def _lines(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )
