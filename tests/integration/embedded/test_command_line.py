"""``landed up``, ``landed down``, ``landed doctor``, and what holds for every command."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from landed_services.cli._app import run
from landed_services.cli._commands import COMMANDS, overview
from landed_services.cli._exit import Exit

from .support import SLACK, kill, pids_on, wait_until

LANDED = Path(sys.executable).with_name("landed")


def landed(*arguments: object, code: int = 0, **environment: str) -> tuple[str, str]:
    """Run a command to its end; both outputs, which hold neither colours nor a traceback."""
    words = [str(LANDED), *map(str, arguments)]
    result = subprocess.run(
        words, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )
    assert result.returncode == code, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout, result.stderr


def test_the_overview_is_there_at_once_and_documents_every_exit_code() -> None:
    began = time.monotonic()
    output, _errors = landed("--help")
    seconds = time.monotonic() - began
    print(f"landed --help in {seconds:.2f} s (aim: 0.4 s)")
    assert seconds < 0.4 * SLACK
    assert output == overview() == landed()[0]
    for code in Exit:
        assert re.search(rf"^  {code.value} +\w", output, re.MULTILINE)
    for name, _function, summary in COMMANDS:
        assert re.search(rf"^  {name} +{re.escape(summary)}$", output, re.MULTILINE)


def test_the_overview_loads_neither_a_command_nor_the_parser() -> None:
    code = "import sys; from landed_services.cli import main; sys.argv[1:] = []; main(); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert not {"cyclopts", "rich", "msgspec", "landed"} & set(loaded)


@pytest.mark.parametrize("command", [name for name, _function, _summary in COMMANDS])
def test_the_help_of_every_command_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == Exit.DONE
    assert re.search(rf"^ {{2,}}.*landed {command}\b", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("wrong", [["bogus"], ["up", "--bogus"], ["up", "-o", "xml"], ["down", "extra"]])
def test_a_wrong_command_line_is_exit_code_2_and_names_the_word(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(wrong) == Exit.USAGE
    assert wrong[-1] in capsys.readouterr().err


def test_without_the_extra_the_command_line_names_the_install() -> None:
    code = "import sys; sys.modules['cyclopts'] = None; sys.argv[1:] = ['up']; from landed_services.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (3, "landed: the command line needs: pip install 'landed[cli]'\n")


def test_up_prints_settings_to_export_and_down_stops(folder: Path) -> None:
    output, errors = landed("up", LANDED_HOME=str(folder))
    exported = dict(shlex.split(line)[1].split("=", 1) for line in output.splitlines())
    assert list(exported) == ["LANDED_KAFKA_BOOTSTRAP", "LANDED_DATABASE_URL"]
    assert "started kafka and postgres" in errors
    assert pids_on(folder)

    output, errors = landed("up", "--data-dir", folder, "-o", "json")
    again = json.loads(output)
    assert again == {"folder": str(folder), "started": [], **exported}

    findings = json.loads(landed("doctor", "--data-dir", folder, "-o", "json", code=Exit.FOUND)[0])
    problems = {finding["check"]: finding["what"] for finding in findings if finding["level"] == "problem"}
    assert set(problems) == {"topic", "tables"}, "the servers are well; the ledger on them is not made yet"
    assert "landed topics create" in problems["topic"]
    assert "landed migrate" in problems["tables"]
    ledger = {"LANDED_HOME": str(folder), "LANDED_TENANT": "acme"}
    assert landed("topics", "create", **ledger)[0].count("created") == 2
    output, errors = landed("topics", "create", "--partitions", "3", **ledger)
    assert output.count("was there already") == 2
    assert "--partitions 3 changes nothing" in errors
    assert "applied" in landed("migrate", **ledger)[0]
    assert landed("migrate", **ledger)[0] == "The tables are those of this release\n"
    output, errors = landed("reviews", "list", **ledger)
    assert (output, errors.count("Using Kafka")) == ("No review task is open.\n", 1)

    _output, errors = landed("down", "--wipe", "--data-dir", folder, code=Exit.USAGE)
    assert "--yes" in errors
    assert pids_on(folder), "nobody agreed"
    assert landed("down", "--data-dir", folder)[0] == f"Stopped kafka and postgres in {folder}\n"
    assert not pids_on(folder)
    assert landed("down", "--data-dir", folder)[0] == f"Nothing was running in {folder}\n"
    output, _errors = landed("down", "--wipe", "-y", "--data-dir", folder, "--output", "json")
    assert json.loads(output) == {"folder": str(folder), "stopped": [], "wiped": True}
    assert not folder.exists()


@pytest.mark.parametrize("end", ["asked", "broker killed"])
def test_in_the_foreground_the_servers_end_with_the_command(folder: Path, end: str) -> None:
    words = [str(LANDED), "up", "--foreground", "--data-dir", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.readline().startswith("export LANDED_KAFKA_BOOTSTRAP=127.0.0.1:")
        wait_until(lambda: len(pids_on(folder)) > 2, seconds=10)
        while "Ctrl-C" not in command.stderr.readline():
            pass
        if end == "asked":
            command.send_signal(signal.SIGINT)
        else:
            kill(json.loads((folder / "state.json").read_text())["servers"]["kafka"]["process"]["pid"])
        _output, errors = command.communicate(timeout=50)
    assert command.returncode == (Exit.DONE if end == "asked" else Exit.FAILED)
    assert end == "asked" or (folder / "kafka.log").read_text().splitlines()[-1] in errors
    assert not pids_on(folder)


def test_a_folder_that_cannot_be_used_is_one_readable_line_and_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _output, errors = landed("up", "--data-dir", tmp_path / "file", code=Exit.SETUP)
    assert errors.count("\n") == 1
    assert errors.startswith(f"landed: cannot write in the folder {tmp_path / 'file'}")


def test_a_defect_is_exit_code_70_and_says_how_to_see_more(tmp_path: Path) -> None:
    code = (
        "import sys; from landed.adapters import embedded; embedded.doctor = lambda *_: 1 / 0;"
        "sys.argv[1:] = ['doctor']; from landed_services.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == Exit.INTERNAL
    assert "Traceback" not in result.stderr
    *_before, said = result.stderr.splitlines()
    assert said == "landed: defect: ZeroDivisionError: division by zero (LANDED_DEBUG=1 shows where)"
