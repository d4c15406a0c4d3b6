"""The incident of the walkthrough is made anew: the real product under injected faults goes the way that the page tells."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from landed_services.cli._app import run

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "docs" / "incident" / "trip-4711.landed"


def test_the_incident_goes_as_it_is_told_and_its_bundle_tells_the_same_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "made.landed"
    done = subprocess.run(
        [sys.executable, "-m", "demo.incident", str(file), "--unrelated", "40"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("LANDED_")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made, shipped = (_story(path, capsys) for path in (file, SHIPPED))
    assert made == shipped


def _story(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Types of the events of each operation of the trip, oldest first. Repeated claims are left out: how often a service asks
    for what is done already depends on how far its view is."""
    capsys.readouterr()
    assert run(["replay", str(file), "--group", "trip-4711", "-o", "jsonl"]) == 0
    story: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        told = json.loads(line)
        if told["is"] == "event":
            story.setdefault(told["operation_id"] or "", []).append(told["event"])
    for events in story.values():
        while events[-1] == "dispatch_refused":
            del events[-2:]
    return story
