"""``landed replay`` on a bundle: what it prints, how it fails, and that it cannot cause an effect."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.replay.support import RING, items, lost_answer

from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.replay.bundle import Head, write_bundle

HEAD = Head(landed_bundle=1, release="0.1.0", topic="landed.operations", partitions=1, scope={}, made_at_ms=1)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", "writer-1")
    monkeypatch.setenv("LANDED_WRITER_KEY", "a secret of thirty-two bytes or so")
    monkeypatch.delenv("LANDED_TENANT", raising=False)
    # A replay that looked for a server would fail.
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("LANDED_DATABASE_URL", "postgresql://127.0.0.1:1/x")
    path = tmp_path / "b.landed"
    write_bundle(path, HEAD, items(lost_answer().log), RING)
    return str(path)


def test_the_timeline_fits_a_terminal_and_ends_with_known_then_and_true_now(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", file]) == Exit.DONE
    said = capsys.readouterr()
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert "known then: unknown (had seen up to dispatch_requested at 0:4)\n    true now:   confirmed (Done)" in said.out
    assert "7 records of topic landed.operations, signed under key writer-1: proven" in said.err


def test_without_a_key_it_says_that_the_origin_is_not_proven(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LANDED_WRITER_KEY_ID")
    monkeypatch.delenv("LANDED_WRITER_KEY")
    assert run(["replay", file]) == Exit.DONE
    assert "its origin is not proven" in capsys.readouterr().err


def test_json_lines_hold_events_then_decisions(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", file, "-o", "jsonl"]) == Exit.DONE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["is"] for line in lines] == ["event"] * 7 + ["decision"] * 2
    assert run(["replay", file, "-o", "json"]) == Exit.DONE
    whole = json.loads(capsys.readouterr().out)
    assert [{"is": "event", **one} for one in whole["events"]] == lines[:7]


def test_one_point_gives_states_and_two_give_what_changed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", file, "--at", "0:3", "-o", "jsonl"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["state"] == "unknown"
    assert run(["replay", file, "--at", "1970-01-01T00:16:41", "--at", "1970-01-01T01:16:46+01:00"]) == Exit.DONE
    assert "X  state: unknown -> confirmed\n" in capsys.readouterr().out


def test_a_touched_bundle_ends_with_exit_code_1_and_shows_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = gzip.decompress(Path(file).read_bytes()).replace(b'"at_ms":1001000', b'"at_ms":1001001', 1)
    Path(file).write_bytes(gzip.compress(text))
    assert run(["replay", file]) == Exit.FOUND
    said = capsys.readouterr()
    assert said.out == ""
    assert "record 0:3 is not what was exported" in said.err


def test_html_is_one_page_of_the_timeline(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", file, "-o", "html"]) == Exit.DONE
    said = capsys.readouterr().out
    assert said.startswith("<!doctype html>")
    assert "refused because unresolved, see outcome_unknown at 0:3" in said


WRONG = [
    (["--at", "0:1", "-o", "html"], "--output: html shows the timeline"),
    (["--at", "09:17:05"], "--at: must be a time with its date"),
    (["--at", "0:1", "--at", "0:2", "--at", "0:3"], "--at: may be given once or twice"),
    (["--from", "yesterday"], "--from: must be a time"),
    (["--to", "1969-12-31"], "--to: must not lie before 1970"),
    (["--tenant", "policy:x"], "tenant: must not start with 'policy:'"),
]


@pytest.mark.parametrize(("words", "rule"), WRONG, ids=[row[1] for row in WRONG])
def test_bad_input_names_option_and_rule(file: str, words: list[str], rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", file, *words]) == Exit.USAGE
    assert rule in capsys.readouterr().err


def test_the_topic_of_all_tenants_is_read_only_when_that_is_said(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay"]) == Exit.USAGE
    assert "--tenant: say whose operations" in capsys.readouterr().err


def test_files_that_are_missing_or_no_bundle_are_named(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("no bundle")
    for name, rule in (("y", "cannot be read"), ("x", "is not a bundle")):
        assert run(["replay", str(tmp_path / name)]) == Exit.USAGE
        assert rule in capsys.readouterr().err
    assert run(["replay", "export", file, "--tenant", "acme"]) == Exit.USAGE
    assert "nothing is overwritten" in capsys.readouterr().err


def test_replaying_a_bundle_loads_no_client_of_a_log_no_database_and_no_tool(file: str) -> None:
    program = (
        "import sys; from pathlib import Path; from landed.wire.mac import UNSIGNED\n"
        "from landed_services.replay.bundle import Bundle; from landed_services.replay.telling import Story\n"
        "from landed_services.replay.scope import Scope\n"
        "import landed_services.replay.differences, landed_services.replay.showing\n"
        f"story = Story(Scope()); assert len(list(story.lines(Bundle(Path({file!r}), UNSIGNED).items()))) == 7\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('confluent_kafka', 'psycopg')"
        " or name.startswith('landed.sdk')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
