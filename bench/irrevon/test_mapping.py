"""That the benchmark's faults befall the real product as they are meant: by what agents were told, and by the events on the log.

Needs the package `irrevon` from an index, so it is no part of `make test`: `make bench-irrevon-check`.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAULTED = (1, 3)
"""The trials of a unit that the benchmark has a fault befall."""
UNITS = (
    "c1.responselost",
    "c2.responselost",
    "c2.crashafter",
    "c2.retrystorm",
    "c2.semantic",
    "c2.stale",
    "c2.branch",
    "c3.resp",
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "tools/bench_irrevon.sh", "--no-baselines", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Any]]:
    """Reports of the faulted trials by unit, of the run with one reconciler and of that with one killed."""
    out = tmp_path_factory.mktemp("irrevon") / "out"
    done = run("--out", str(out), "--cells", ",".join(f"{name}*r0" for name in UNITS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bench-irrevon: every bound is reached in both runs" in done.stdout
    assert "one was killed in its look" in done.stdout
    found: dict[str, list[Any]] = {name: [] for name in UNITS}
    for journal in sorted(out.glob("*/journal.jsonl")):
        (name,) = [one for one in UNITS if one in journal.parent.name]
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        found[name] += [one for one in lines if one["trial_index"] in FAULTED]
    assert all(found.values())
    return found


def said(report: Any, action: str = "dispatch") -> list[str]:
    """Reasons that the agent was given, in their order."""
    return [one["reason"] or one["outcome"] for one in report["detail"]["log"] if one["action"] == action]


pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("unit", ["c1.responselost", "c2.responselost"])
def test_a_lost_answer_is_unknown_and_settled_by_a_look(reports: Mapping[str, Sequence[Any]], unit: str) -> None:
    for one in reports[unit]:
        events = one["detail"]["events"]
        assert said(one)[:2] == ["approval_required", "RemoteDisconnected"]
        assert events.count("dispatch_granted") == 1
        assert events.index("outcome_unknown") < events.index("probe_recorded") < events.index("outcome_confirmed")
        assert (one["arm_outcome"], one["detail"]["oracle_claim"]) == ("committed", "unique")


def test_a_killed_agent_leaves_a_lease_that_runs_out(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c2.crashafter"]:
        events = one["detail"]["events"]
        assert "crash" in [step["action"] for step in one["detail"]["log"]]
        assert "outcome_unknown" not in events, "nobody was left to say it"
        assert events.index("lease_expired") < events.index("outcome_confirmed")
        assert said(one)[-1] == "Confirmed"


def test_no_call_of_a_storm_is_let_through(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c2.retrystorm"]:
        assert len(said(one, "storm-retry")) == 3
        assert set(said(one, "storm-retry")) <= {"unresolved", "Confirmed"}
        assert one["detail"]["events"].count("dispatch_granted") == 1


def test_the_same_order_in_other_words_is_told_apart_from_what_was_approved(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c2.semantic"]:
        assert said(one, "resynthesized") == ["request_mismatch"]
        assert one["detail"]["events"].count("dispatch_granted") == 1


def test_an_authority_that_lapsed_lets_nothing_through(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c2.stale"]:
        assert said(one)[-1] == "approval_expired"
        assert "approval_decided" in one["detail"]["events"]
        assert "dispatch_granted" not in one["detail"]["events"]


def test_a_cancelled_branch_lets_nothing_through(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c2.branch"]:
        assert said(one)[-1] in ("cancelled", "group_unwinding")
        assert "operation_cancelled" in one["detail"]["events"]
        assert "dispatch_granted" not in one["detail"]["events"]


def test_what_nobody_can_look_up_goes_to_a_person(reports: Mapping[str, Sequence[Any]]) -> None:
    for one in reports["c3.resp"]:
        assert said(one)[-1] == "no_probe"
        assert "probe_recorded" not in one["detail"]["events"]
        assert one["detail"]["events"].count("operation_escalated") == 1


def test_a_ledger_that_refuses_nothing_is_seen_by_the_oracle() -> None:
    done = run("--observe", "--cells", "c2.retrystorm.irre.r0,c2.branch")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MISSED: landed: duplicates" in done.stdout
    assert "MISSED: landed: after cancel" in done.stdout
