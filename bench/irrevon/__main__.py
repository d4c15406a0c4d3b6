"""`make bench-irrevon`: the benchmark's 72 trials by its own baselines, and twice by the product.

The product runs once with one reconciler, and once with two, of which one is killed in the middle of a look in mid-run. Exit
code 1 where a bound is missed, 3 where the product's side did not come up.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from irrevon.bench.analysis import load_runs
from irrevon.bench.fixtures import write_dev_split
from irrevon.bench.formats import load_fixture_set

from bench.irrevon.arm import Options, harness_version
from bench.irrevon.bridge import Bridge
from bench.irrevon.product import ROOT, Stage, StageFailed
from bench.irrevon.runs import BASELINES, Runs, Told
from bench.irrevon.table import TRIALS, Unit, arms_table, cells_table, missed, unit_of

ONE, TWO = "landed", "landed-one-killed"
RECONCILERS: Final = {ONE: 1, TWO: 2}


def main(words: Sequence[str] | None = None) -> int:
    given = _given(words)
    os.environ.setdefault("IRREVON_LOG_FILE", os.devnull)  # R would tell each step of each trial on standard error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken away again
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-irrevon-")))
        out = given.out or work / "runs"
        write_dev_split(work / "fixtures", given.seed)
        fixtures = load_fixture_set(work / "fixtures")
        workloads = [
            name for name in sorted(fixtures.workloads) if any(fnmatch(name, f"*{one}*") for one in given.cells.split(","))
        ]
        bridge = Bridge()
        stack.callback(bridge.close)
        try:
            stage = Stage(ROOT / ".venv" / "bin" / "python", ROOT / ".landed" / "bench-irrevon", bridge)
            stack.callback(stage.end)
            runs = Runs(fixtures, workloads, out, stage, bridge, Options(given.observe, evidence=given.out is not None))
            for arm in () if given.no_baselines else BASELINES:
                _say(f"{arm}: {runs.trials} trials")
                runs.baseline(arm)
            told = {}
            for arm, reconcilers in RECONCILERS.items():
                _say(f"{arm}: {runs.trials} trials")
                told[arm] = runs.product(arm, reconcilers=reconcilers)
        except StageFailed as error:
            print(f"\n{error}", file=sys.stderr)
            return 3
        records = load_runs(out)
    order = [*BASELINES, *RECONCILERS]
    units = sorted((unit_of(one.arm_id, one.cell_id, one.result) for one in records), key=lambda one: order.index(one.arm))
    return judged(units, told, runs.trials)


def judged(units: Sequence[Unit], told: dict[str, Told], trials: int) -> int:
    """Prints what was found; the exit code."""
    print(f"IrrevonBench {harness_version()}, {trials} trials for each arm, counted in the destination's own records\n")
    print(arms_table(units))
    for arm in RECONCILERS:
        print(f"\n{arm}: how its trials ended\n\n{cells_table(units, arm)}")
    print()
    print("\n".join(one.text for one in told.values()))
    wrong = [text for arm in RECONCILERS for text in missed(units, arm, trials=trials)]
    if trials == TRIALS and not told[TWO].one_was_killed:  # a few trials may need no look at all
        wrong.append(f"{TWO}: none was killed")
    print()
    print("\n".join(f"MISSED: {text}" for text in wrong) or "bench-irrevon: every bound is reached in both runs")
    return 1 if wrong else 0


def _given(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-irrevon", description=__doc__)
    parser.add_argument(
        "--cells", default="", help="only workloads whose names have one of these patterns in them: c1.,c2.retry*r0"
    )
    parser.add_argument("--seed", help="64 hexadecimal digits: the same trials with other orders; else the public ones")
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument(
        "--out", type=Path, help="a new folder that keeps the benchmark's documents, with the ledger's own events"
    )
    parser.add_argument("--observe", action="store_true", help="the ledger refuses nothing: shows that the oracle would see it")
    given = parser.parse_args(words)
    if given.out is not None and given.out.exists():
        parser.error(f"--out: {given.out} exists already")
    return given


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
