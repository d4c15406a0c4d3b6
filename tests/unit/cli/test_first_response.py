"""The first word of every command comes at once: measured from a fresh interpreter; 0.4 s is wanted, ten times that fails."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from landed_services.cli._commands import COMMANDS

WANTED_S = 0.4
FACTOR = 10
TOOLS = "--tools demo.tools:registry"
CALLS = {
    "up": "--help",  # it starts servers: its first word is tested with them
    "down": "",
    "topics": "check",
    "schemas": "check",
    "asyncapi": "",
    "migrate": "",
    "projector": "",
    "verify": "",
    "replay": "",
    "rebuild": "--yes",
    "reconciler": TOOLS,
    "compensator": TOOLS,
    "contracts": "schema",
    "reviews": "list",
    "approvals": "list",
    "policies": "list",
    "breakers": "list",
    "perform": f"payments.refund {TOOLS}",
    "show": "operation x",
    "timeline": "x",
    "tail": "",
    "plan": "x",
    "unwind": "x --reason r --yes",
    "observe": "",
    "drill": f"payments.refund {TOOLS}",
    "sweep": f"payments.refund --from 1d {TOOLS}",
    "notifier": "",
    "notifications": "list",
    "news": "list",
    "completion": "bash",
    "doctor": "",
}
"""What each verb is called with; servers are named and do not answer."""
SERVERS = {
    "LANDED_KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "LANDED_DATABASE_URL": "postgresql://u:p@127.0.0.1:1/x",
    "LANDED_TENANT": "acme",
}


def test_every_command_answers_at_once(tmp_path: Path) -> None:
    assert CALLS.keys() == {name for name, _function, _summary in COMMANDS}
    slow = []
    for words in ("--help", *(f"{name} {call}" for name, call in CALLS.items())):
        began = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", "from landed_services.cli import main; main()", *words.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env={**os.environ, **SERVERS, "PYTHONPATH": os.getcwd(), "LANDED_HOME": str(tmp_path)},
        ) as process:
            assert process.stdout is not None
            select.select([process.stdout], [], [], 60)
            took = time.monotonic() - began
            assert process.stdout.read1(1), words
            process.kill()
        print(f"landed {words}: {took:.2f} s, {WANTED_S} s wanted")
        if took > WANTED_S * FACTOR:
            slow.append((words, took))
    assert not slow
