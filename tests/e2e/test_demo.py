"""README's first command: the main job on embedded parts, with the provider's own list as the judge."""

import os
import re
import subprocess
import sys
from pathlib import Path

from demo.screen import Screen

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_is_right_in_every_count_and_cleans_up() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("LANDED_")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo: every count is right" in done.stdout
    assert "WRONG" not in done.stdout
    assert len(re.findall(r"^      ok ", done.stdout, re.MULTILINE)) >= 15
    assert not still_running(), f"left running: {still_running()}"


def test_a_wrong_count_makes_the_demo_fail() -> None:
    screen = Screen()
    screen.check("refunds at the provider", 1, 1)
    assert screen.failed == []
    screen.check("refunds at the provider", 2, 1)
    assert screen.failed == ["refunds at the provider"]


def still_running() -> list[str]:
    """Processes that work on the demo's data folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(ROOT / ".landed" / "demo") in command or "localstripe_server" in command:
            found.append(command)
    return found
