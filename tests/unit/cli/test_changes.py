"""What changes something asks first or says what an interrupted command leaves, and what people read fits their terminal."""

import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from landed_services.cli._app import run
from landed_services.cli._changes import CHANGES, READS, left_behind
from landed_services.cli._confirm import confirm
from landed_services.cli._exit import CommandFailed, Exit
from landed_services.cli._reference import verbs

NOWHERE = {
    "LANDED_KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "LANDED_DATABASE_URL": "postgresql://u:p@127.0.0.1:1/x",
    "LANDED_TENANT": "acme",
}
MAIN = "from landed_services.cli import main; main()"


def test_every_verb_is_said_to_change_something_or_to_read_and_those_that_ask_take_yes() -> None:
    known = list(verbs())
    assert {one.name for one in known} == CHANGES.keys() | READS
    assert not CHANGES.keys() & READS
    asking = {one.name for one in known if any("--yes" in option.names for option in one.options)}
    assert asking == {name for name, change in CHANGES.items() if change.asks}


@pytest.mark.parametrize("words", [["rebuild"], ["down", "--wipe"]])
def test_what_drops_data_is_refused_where_nobody_can_be_asked(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**NOWHERE, "LANDED_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert run(words) == Exit.USAGE
    assert "--yes" in capsys.readouterr().err


ANSWERS = [(b"y\n", 0), (b"n\n", Exit.FOUND), (b"\n", Exit.FOUND), (b"\x04", Exit.FOUND), (b"\x03", Exit.INTERRUPTED)]
ASK = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # a terminal of its own: Ctrl-C there is Ctrl-C for this process alone
from landed_services.cli._confirm import confirm
from landed_services.cli._exit import CommandFailed
try:
    confirm("Drop it?", yes=False)
except CommandFailed as no:
    sys.exit(no.code)
"""


@pytest.mark.parametrize(("key", "code"), ANSWERS)
def test_only_a_yes_at_the_terminal_agrees_and_the_question_is_not_in_the_output(key: bytes, code: int) -> None:
    answer, terminal = pty.openpty()
    words = [sys.executable, "-c", ASK]
    with subprocess.Popen(words, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asked:
        assert asked.stderr is not None
        assert asked.stdout is not None
        said = b""
        while not said.endswith(b"[y/N] "):
            part = asked.stderr.read1(1)
            assert part, "it ended without asking"
            said += part
        os.write(answer, key)
        assert asked.wait(60) == code
        assert asked.stdout.read() == b""
    os.close(answer)
    os.close(terminal)


def test_an_interrupted_command_ends_with_130_and_says_what_is_left(tmp_path: Path) -> None:
    assert left_behind(["rebuild", "--yes"]) == CHANGES["rebuild"].interrupted
    assert left_behind(["reviews", "decide", "r-1"]) == CHANGES["reviews decide"].interrupted
    assert left_behind(["reviews", "list"]) == left_behind(["show", "operation", "x"]) == "nothing was changed"
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "topics", "create"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, **NOWHERE},
        text=True,
    ) as command:
        assert command.stderr is not None
        assert command.stderr.readline().startswith("Using Kafka 127.0.0.1:1")
        command.send_signal(signal.SIGINT)
        _output, errors = command.communicate(timeout=60)
    assert command.returncode == Exit.INTERRUPTED
    assert errors.splitlines()[-1] == f"landed: interrupted: {CHANGES['topics'].interrupted}"
    assert "Traceback" not in errors


def test_messages_are_broken_to_the_terminal_and_one_line_in_a_file(tmp_path: Path) -> None:
    words = [sys.executable, "-c", MAIN, "show", "operation", "x"]
    environment = {**os.environ, "LANDED_HOME": str(tmp_path / "none"), "LANDED_TENANT": "acme"}
    for name in ("LANDED_KAFKA_BOOTSTRAP", "LANDED_DATABASE_URL"):
        environment.pop(name, None)
    piped = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert piped.returncode == Exit.SETUP
    assert piped.stderr.count("\n") == 1
    assert len(piped.stderr) > 80

    ours, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    shown = subprocess.run(words, env=environment, stderr=terminal, stdout=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(terminal)
    lines = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert shown.returncode == Exit.SETUP
    assert len(lines) > 1
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines)
    assert " ".join(line.strip() for line in lines) == piped.stderr.strip()


def test_whoever_agrees_beforehand_is_not_asked() -> None:
    confirm("Drop it?", yes=True)
    with pytest.raises(CommandFailed, match="say --yes"):
        confirm("Drop it?", yes=False)
