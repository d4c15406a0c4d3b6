"""The list of failure points is whole: the product reaches each one, and each one has a scenario that kills a process at it."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.test_compensating import STEPS as COMPENSATOR_POINTS

from landed.testing.failure_points import POINTS, SETTING, armed

from .test_callers_killed import SCENARIOS
from .test_notifier_killed import NOTIFIER_POINTS
from .test_services_killed import PROJECTOR_POINTS, RECONCILER_POINTS

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_named_point_has_a_scenario_in_which_a_process_is_killed_at_it() -> None:
    killed = {one.point for one in SCENARIOS} | {
        one.partition(":")[0] for one in [*PROJECTOR_POINTS, *RECONCILER_POINTS, *NOTIFIER_POINTS, *COMPENSATOR_POINTS]
    }
    assert set(POINTS) - killed == set(), "points at which nothing is ever killed"
    assert killed - set(POINTS) == set(), "scenarios of points that do not exist"


def test_the_product_reaches_exactly_the_points_of_the_list() -> None:
    reached: Counter[str] = Counter()
    for package in ("shared/landed", "services/landed_services"):
        for path in (ROOT / package).rglob("*.py"):
            if path.parent.name != "testing":
                reached.update(re.findall(r'\breach\("([^"]+)"\)', path.read_text()))
    assert set(reached) == set(POINTS)


def test_without_the_setting_no_point_does_anything() -> None:
    for setting in (None, ""):
        for name in POINTS:
            armed(setting)(name)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sdk.no_such_point", "no such failure point 'sdk.no_such_point'; known: sdk.before_claim"),
        ("sdk.before_call:explode", r"must be POINT\[:kill\|stop\[:TIMES\]\]"),
        ("sdk.before_call:kill:0", r"must be POINT\[:kill\|stop\[:TIMES\]\]"),
        ("sdk.before_call:kill:x", r"must be POINT\[:kill\|stop\[:TIMES\]\]"),
        ("sdk.before_call:kill:1:2", r"must be POINT\[:kill\|stop\[:TIMES\]\]"),
    ],
)
def test_a_setting_that_names_no_point_or_action_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"{SETTING}: {message}"):
        armed(setting)


def test_a_process_is_killed_the_named_time_that_a_point_is_reached() -> None:
    program = "from landed.testing.failure_points import reach\nfor n in range(5): print(n, flush=True); reach('sdk.after_call')"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={SETTING: "sdk.after_call:kill:3", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()) == (-9, ["0", "1", "2"])
