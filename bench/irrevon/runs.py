"""The benchmark's runs: its baselines, and the product with one reconciler or with two of which one is killed."""

import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irrevon.adapters.base import Adapter
from irrevon.bench.arms import ArmDriver
from irrevon.bench.formats import FixtureSet
from irrevon.bench.runner import run_unit

from bench.irrevon.arm import LandedArm, Options, installed, spec_of
from bench.irrevon.bridge import Bridge
from bench.irrevon.product import ROOT, Agent, Reconcilers, Stage

BASELINES: Final = ("B0", "B1", "B2", "B3", "B4", "B5", "B6", "B5+B3+B6", "R")
"""The benchmark's own arms, R its own engine. B7 needs a model, and the benchmark refuses to run it."""


@dataclass(frozen=True)
class Told:
    """What a run of the product says besides the oracle."""

    text: str
    one_was_killed: bool


class Runs:
    """Trials of the same workloads by one arm after the other."""

    def __init__(
        self, fixtures: FixtureSet, workloads: Sequence[str], out: Path, stage: Stage, bridge: Bridge, options: Options
    ) -> None:
        """
        Args:
            out: where the benchmark writes its documents.
        """
        self._fixtures, self._workloads, self._out = fixtures, workloads, out
        self._stage, self._bridge, self._options = stage, bridge, options
        self.trials = sum(len(fixtures.workloads[name]["trials"]) for name in workloads)

    def baseline(self, arm: str) -> None:
        for name in self._workloads:
            run_unit(self._fixtures, name, arm, self._out, admin_dsn=self._stage.database_url)

    def product(self, arm: str, *, reconcilers: int) -> Told:
        """The product as *arm*. Of several reconcilers the one is killed that looks first once half of the trials have begun."""
        began = time.monotonic()
        agent = Agent(self._stage)
        running = Reconcilers(self._stage, self._bridge, reconcilers)
        spec = spec_of(arm, _version(), reconcilers=reconcilers, killed=reconcilers > 1)
        half, trials = self.trials // 2, 0

        def begun() -> None:
            nonlocal trials
            trials += 1
            if reconcilers > 1 and trials == half:
                running.kill_next()

        def make(adapter: Adapter) -> ArmDriver:
            return LandedArm(spec, adapter, self._stage, self._bridge, agent, begun=begun, options=self._options)

        with installed(spec, make):
            for name in self._workloads:
                run_unit(self._fixtures, name, arm, self._out)
        looks = running.looks()
        running.end()
        agent.end()
        text = f"{arm}: {time.monotonic() - began:.0f} s; looks of its reconcilers: {', '.join(map(str, looks.values()))}"
        if running.killed is not None:
            before = running.looks_until_killed
            after = sum(looks[pid] - before[pid] for pid in looks if pid != running.killed)
            text += (
                f"; one was killed in its look number {before[running.killed]}, in the second half of the trials; "
                f"the other made {after} from then on"
            )
        return Told(text, running.killed is not None)


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
