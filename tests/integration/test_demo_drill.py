"""`landed drill` on the demo's provider, which others wrote: what its contract says of it is so."""

import json
from pathlib import Path

import pytest

from landed_services.cli._app import run
from landed_services.cli._exit import Exit


def test_the_demos_contract_holds_at_its_provider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_PROVIDER_URL", "")
    kept = tmp_path / "kept.json"
    words = [
        "drill",
        "payments.refund",
        "--tools",
        "demo.tools:registry",
        "--samples",
        "2",
        "--by",
        "anna",
        "--out",
        str(kept),
        "-o",
        "json",
    ]
    assert run(words) == Exit.DONE, capsys.readouterr()
    result = json.loads(capsys.readouterr().out)
    assert (result["by"], result["differences"]) == ("anna", [])
    assert (result["key"], result["absence"], result["receipt"]) == ("not_honoured", "reliable", "stable")
    assert result["lost_answer"] == "found"
    assert json.loads(kept.read_text()) == {"payments.refund": result}
