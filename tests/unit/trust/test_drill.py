"""`landed drill`: what the built-in faulty provider does is what the drill sees, and what the contract says otherwise is told."""

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trust.effects import Team

from landed import OperationKey, Probe, SettingsError
from landed.core.vocabulary import ReadKind
from landed.testing.faulty_provider import FaultyProvider
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.progress import Progress, Say
from landed_services.trust.drilling import drill, is_local, place_of
from landed_services.trust.results import DrillResult, DrillStopped


def drilled(
    provider: FaultyProvider, *, samples: int = 2, wait_s: float = 3.0, say: Say | None = None, **team: Any
) -> DrillResult:
    made = Team(provider, **team)
    assert made.tool.stage_function is not None
    with made.tool.stage_function() as stage:
        return drill(made.tool, stage, samples=samples, wait_s=wait_s, say=say)


def differences(result: DrillResult) -> dict[str, str]:
    return {one.field: one.what for one in result.differences}


def test_a_provider_that_keeps_its_word_shows_no_difference() -> None:
    with FaultyProvider() as provider:
        told: list[Progress] = []
        result = drilled(provider, say=told.append)
        effects, place = provider.effects, provider.url
    assert (result.key, result.absence, result.receipt, result.lost_answer) == ("honoured", "reliable", "stable", "found")
    assert result.lag_s is not None
    assert result.lag_s < 2.5
    assert [(one.done, one.total) for one in told] == [(step, 5) for step in range(5)], "it says how far it is"
    assert result.differences == ()
    assert len(effects) == 4, "two samples, one called twice under its key, one whose answer was lost"
    assert result.provider == place


@pytest.mark.parametrize("lists", [True, False])
def test_a_key_that_is_not_honoured_is_seen_by_its_second_effect(lists: bool) -> None:
    with FaultyProvider(honours_key=False) as provider:
        result = drilled(provider, lists=lists, wait_s=0.3)
    assert result.key == "not_honoured"
    assert "two calls under one operation id" in differences(result)["operation_key.honoured"]


def test_a_contract_that_says_that_the_key_is_not_honoured_is_right_about_it() -> None:
    with FaultyProvider(honours_key=False) as provider:
        result = drilled(provider, operation_key=OperationKey(reference="operation_id", honoured=False), wait_s=0.3)
    assert result.key == "not_honoured"
    assert "operation_key.honoured" not in differences(result)


def test_a_late_look_up_is_measured_and_compared_with_lag_and_window() -> None:
    with FaultyProvider(lag_s=0.5) as provider:
        early = drilled(provider, samples=1, safe_window=0.1, outcome_probe=Probe(tool="effects.find", lag=0.1))
        declared = drilled(provider, samples=1, safe_window=2.0, outcome_probe=Probe(tool="effects.find", lag=0.6))
    assert early.lag_s is not None
    assert 0.4 <= early.lag_s < 2.0
    assert set(differences(early)) == {"outcome_probe.lag", "safe_window"}
    assert early.absence == "unreliable"
    assert declared.differences == ()
    assert declared.absence == "reliable"


def test_an_effect_that_is_never_seen_is_told() -> None:
    with FaultyProvider(lag_s=60.0) as provider:
        result = drilled(provider, wait_s=0.2, lists=False)
    assert (result.lag_s, result.absence, result.lost_answer) == (None, "unreliable", "not_found")
    assert "not seen within 0.2 s: the last look said Absent" in differences(result)["outcome_probe"]


def test_an_absence_after_a_sight_makes_absence_unreliable() -> None:
    with FaultyProvider(forgets=2) as provider:
        result = drilled(provider)
    assert result.absence == "unreliable"
    assert differences(result)["outcome_probe.read_kind"] == "an effect that a look had seen was absent for a later one"


def test_a_reference_that_changes_makes_the_receipt_unstable() -> None:
    with FaultyProvider(renames=True) as provider:
        result = drilled(provider)
    assert result.receipt == "unstable"
    assert differences(result) == {"reference_field": "the look-up shows another reference than the answer"}


def test_evidence_below_the_minimum_is_told_before_it_goes_to_people() -> None:
    with FaultyProvider() as provider:
        result = drilled(provider, minimum_evidence=("operation_id", "amount"))
    assert differences(result) == {
        "minimum_evidence": "the look-up matched on operation_id: what it finds goes to a person as a conflict"
    }


def test_a_library_that_tries_again_by_itself_is_caught() -> None:
    """The fault proxy loses the first answer; a second request of the same call would be a second effect without a key."""
    with FaultyProvider() as provider:
        team = Team(provider)
        team.tries = 2
        assert team.tool.stage_function is not None
        with team.tool.stage_function() as stage:
            result = drill(team.tool, stage, samples=1, wait_s=1.0)
    assert "one call sent 2 requests" in differences(result)["tool"]


def test_a_weak_read_is_not_blamed_for_its_lag_beyond_the_window() -> None:
    """It never proves absence, so nothing is believed too early."""
    weak = Probe(tool="effects.find", lag=0.6, read_kind=ReadKind.REPLICA)
    with FaultyProvider(lag_s=0.5) as provider:
        result = drilled(provider, samples=1, safe_window=0.1, outcome_probe=weak)
    assert result.differences == ()


def test_a_tool_that_goes_elsewhere_is_never_called() -> None:
    """Wherever it goes, it is not the stage: the first thing that a drill does is a read, and the proxy must see it."""
    with FaultyProvider() as provider:
        team = Team(provider)
        team.follows = False
        assert team.tool.stage_function is not None
        with team.tool.stage_function() as stage, pytest.raises(DrillStopped, match=r"did not go where `Stage\.use` led it"):
            drill(team.tool, stage)
        assert (team.calls, provider.effects) == (0, [])


def test_a_tool_that_has_no_effect_at_the_stage_stops_the_drill() -> None:
    with FaultyProvider() as provider:
        made = Team(provider, reference_field="no_such_field")
        assert made.tool.stage_function is not None
        with made.tool.stage_function() as stage, pytest.raises(DrillStopped, match=r"ended as Unknown \(reference_missing\)"):
            drill(made.tool, stage)


@pytest.mark.parametrize(
    ("url", "local", "place"),
    [
        ("http://127.0.0.1:8420/x?token=s", True, "http://127.0.0.1:8420"),
        ("http://user:secret@localhost:1", True, "http://localhost:1"),
        ("http://[::1]:9", True, "http://[::1]:9"),
        ("https://staging.example", False, "https://staging.example"),
        ("http://127.0.0.1.example.com", False, "http://127.0.0.1.example.com"),
        ("http://10.0.0.1", False, "http://10.0.0.1"),
    ],
)
def test_only_this_machine_is_local_and_a_secret_in_the_address_is_not_kept(url: str, local: bool, place: str) -> None:
    assert (is_local(url), place_of(url)) == (local, place)


@pytest.mark.parametrize("url", ["ftp://x", "nothing", "http://", "http://h:99999"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(SettingsError, match=r"stage\.url"):
        place_of(url)


# ---- the command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """The team's registry at `acme_tools:registry`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    module: Any = types.ModuleType("acme_tools")
    module.__file__ = str(tmp_path / "acme_tools.py")
    with FaultyProvider() as provider:
        team = Team(provider)
        module.registry = team.registry
        monkeypatch.setitem(sys.modules, "acme_tools", module)
        yield team


WORDS = ["drill", "effects.make", "--tools", "acme_tools:registry", "--samples", "1", "--wait", "1"]


def test_the_result_is_kept_beside_the_contract_and_the_check_compares(
    acme: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "-o", "json"]) == Exit.DONE
    result = json.loads(capsys.readouterr().out)
    kept = json.loads((tmp_path / "acme_tools.drill.json").read_text())
    assert kept == {"effects.make": result}
    assert run(["contracts", "check", "acme_tools:registry"]) == Exit.DONE
    assert "key honoured, seen within 0.0" in capsys.readouterr().out
    acme.provider.honours_key = False
    assert run(WORDS) == Exit.FOUND
    assert "differs  effects.make.operation_key.honoured: two calls under one operation id" in capsys.readouterr().out
    assert run(["contracts", "check", "acme_tools:registry", "-q"]) == Exit.FOUND
    assert "effects.make.operation_key.honoured: the drill saw otherwise" in " ".join(capsys.readouterr().out.split())


def test_a_provider_elsewhere_is_touched_only_with_a_persons_word(
    acme: Team, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """192.0.2.1 answers nobody (RFC 5737); what is asserted is that the tool and its look-up were not called."""
    acme.stage_url = "https://192.0.2.1"
    assert run(WORDS) == Exit.USAGE
    assert "say --yes" in capsys.readouterr().err
    assert (acme.calls, acme.looks) == (0, 0)
    used: list[str] = []
    monkeypatch.setattr(acme, "asked", lambda *words, **more: used.append(acme.url) or {"data": []})
    assert run([*WORDS, "--yes"]) == Exit.SETUP
    assert set(used) == {"https://192.0.2.1"}, "no proxy stands before TLS: the tool goes there itself"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["drill", "nosuch", "--tools", "acme_tools:registry"], Exit.SETUP, "TOOL: 'nosuch' is not in acme_tools:registry"),
        ([*WORDS[:4], "--samples", "0"], Exit.USAGE, "--samples: must be 1 to 1000"),
        ([*WORDS[:4], "--wait", "nan"], Exit.USAGE, "--wait: must be greater than 0"),
    ],
)
def test_what_is_wrong_with_the_command_is_named(
    acme: Team, words: list[str], code: Exit, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == code
    assert told in capsys.readouterr().err


def test_a_tool_without_a_stage_says_what_to_register(acme: Team, capsys: pytest.CaptureFixture[str]) -> None:
    acme.tool.stage_function = None
    assert run(WORDS) == Exit.SETUP
    assert "register one with @tool.stage" in capsys.readouterr().err
