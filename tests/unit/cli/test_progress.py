"""Long work says on a terminal how far it is, and nothing where nobody watches."""

import sys

import pytest

from landed_services.cli._progress import progress
from landed_services.progress import Progress


def test_on_a_terminal_one_line_says_how_far_it_is_and_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("effects") as say:
        assert say is not None
        say(Progress(done=0, total=2_000, seconds=0.0))
        say(Progress(done=1_500, total=2_000, seconds=3.0))
        say(Progress(done=3, total=6, seconds=2.0))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.split("\r") == [
        "",
        "0 of 2,000 effects, 0.0/s\033[K",
        "1,500 of 2,000 effects, 500/s, 1 s left\033[K",
        "3 of 6 effects, 1.5/s, 2 s left\033[K",
        "\033[K",
    ]


def test_nothing_is_said_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as say:
        assert say is None
    assert capsys.readouterr().err == ""
