"""README's first command: the main job on embedded parts, with the provider's own list as the judge."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from demo.screen import Screen

ROOT = Path(__file__).resolve().parents[2]
MARK = f"{os.getpid()}-{uuid.uuid4().hex}"


def test_the_demo_is_right_in_every_count_and_cleans_up() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment(),
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
    lines = (ROOT / ".landed" / "demo" / "reconciler.log").read_text().splitlines()
    told = [json.loads(line).get("action") for line in lines if line.startswith("{")]
    assert "outcome_confirmed" in told, "a reconciler says what it does"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_demo_that_is_ended_leaves_nothing_running(how: signal.Signals) -> None:
    words = [sys.executable, "-m", "demo"]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        while "refunds at the provider" not in demo.stdout.readline():
            assert demo.poll() is None
        assert still_running()
        demo.send_signal(how)
        demo.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while still_running():
        assert time.monotonic() < deadline, f"left running: {still_running()}"
        time.sleep(0.2)


def test_a_wrong_count_makes_the_demo_fail() -> None:
    screen = Screen()
    screen.check("refunds at the provider", 1, 1)
    assert screen.failed == []
    screen.check("refunds at the provider", 2, 1)
    assert screen.failed == ["refunds at the provider"]


def environment() -> dict[str, str]:
    """Without settings of this shell, and with a mark by which the processes of this test are known."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LANDED_")} | {"STARTED_BY": MARK}


def still_running() -> list[str]:
    """Processes that a demo of this test started, and the servers on its folder, which have an environment of their own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"STARTED_BY={MARK}".encode() in (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if command and (marked or str(ROOT / ".landed" / "demo") in command):  # one that waits for its parent has neither
            found.append(command)
    return found
