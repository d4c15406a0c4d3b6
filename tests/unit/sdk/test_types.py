"""The public types are tested like behaviour: what a call gives, and which misuse a type checker refuses."""

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).resolve().parents[3]
CALLS = Path(__file__).with_name("typing") / "calls.py"


def test_a_type_checker_accepts_and_refuses_just_what_the_page_of_calls_says() -> None:
    expected = {
        (number, code.strip())
        for number, line in enumerate(CALLS.read_text().splitlines(), 1)
        if (refused := re.search(r"# refused: (.*)", line))
        for code in refused[1].split(",")
    }
    out, err, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", str(CALLS)])
    assert not err
    found = {(int(number), code) for number, code in re.findall(r"calls\.py:(\d+): error: .*\[([a-z-]+)\]", out)}
    assert found == expected, out
    assert len(expected) >= 9
