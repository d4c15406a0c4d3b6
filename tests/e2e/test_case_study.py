"""`make case-study`: failed trips are undone and a loop is contained, with the provider's own records as the judge."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from demo.case_study.__main__ import finish
from demo.screen import Screen

ROOT = Path(__file__).resolve().parents[2]


def test_the_case_study_is_right_in_every_count_and_its_json_has_the_records_of_the_provider() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.case_study", "--json"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("LANDED_")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["checks"] == sum(len(part["checks"]) for part in told["parts"]) >= 50
    kinds = [[one["kind"] for one in part["records"]] for part in told["parts"]]
    booked = ["flight", "hotel", "seat", "car"]
    cancelled = [f"cancel {kind}" for kind in reversed(booked)]
    assert kinds == [
        [*booked, *cancelled],
        [*booked, "charge", "refund", *cancelled],
        ["flight", "hotel", "email", "seat", "car", *cancelled],
        ["charge"] * 20,
    ]
    left = [name for name in Path("/proc").glob("[0-9]*/cmdline") if b".landed/case-study" in _read(name)]
    assert left == [], "nothing is left running"


def test_a_wrong_count_makes_the_case_study_fail(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(sys.stderr)
    screen.check("charges at the provider", 20, 20)
    assert finish(screen, [], as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    screen.check("charges at the provider", 21, 20)
    assert finish(screen, [], as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["wrong"] == ["charges at the provider"]
    assert finish(screen, [], as_json=False) == 1


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
