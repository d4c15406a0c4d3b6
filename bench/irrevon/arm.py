"""The product as a benchmark arm: IrrevonBench's `ArmDriver`, and how its runner is given one that it does not know."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from irrevon.adapters.base import Adapter
from irrevon.adapters.refdest import RefdestAdapter
from irrevon.bench import runner
from irrevon.bench.arms import ArmDriver, ArmSpec, Episode, TrialReport

from bench.irrevon.bridge import Bridge
from bench.irrevon.play import Play
from bench.irrevon.product import Agent, Stage, Tenant

_DESCRIPTION: Final = "landed: event-sourced ledger on Kafka; SDK, projector, reconciler as processes, real broker and database."


@dataclass(frozen=True)
class Options:
    observe: bool = False
    """The ledger refuses nothing."""
    evidence: bool = False
    """The ledger's own events of each trial are among what it reports; reading them takes longer than the trial."""


def spec_of(arm_id: str, product_version: str, *, reconcilers: int, killed: bool) -> ArmSpec:
    return ArmSpec(
        arm_id=arm_id,
        description=_DESCRIPTION,
        version=product_version,
        retry_behavior="the agent presents one request until it is settled; the ledger grants one call, the reconciler looks",
        operationalized=True,
        requires_postgres=True,
        ambiguity_concept=True,
        classifies=True,
        known_deviations=(
            "the trial's authority is an approval that lapses; it is given at once by the driver and is no review",
            "the agent that crashes is a process that is killed with SIGKILL once the destination has committed",
        ),
        config={"reconcilers": reconcilers, "one_is_killed": killed},
    )


class LandedArm(ArmDriver):
    """One unit: a tenant of its own on the ledger that runs already."""

    def __init__(
        self,
        spec: ArmSpec,
        adapter: Adapter,
        stage: Stage,
        bridge: Bridge,
        agent: Agent,
        *,
        begun: Callable[[], None],
        options: Options,
    ) -> None:
        """
        Args:
            begun: told of each trial that begins.
        """
        self.spec = spec
        self._adapter, self._stage, self._bridge, self._agent = adapter, stage, bridge, agent
        self._begun, self._options = begun, options
        self._tool = f"orders.create.{adapter.declare()['tier'].lower()}"
        self._tenant: Tenant | None = None

    @property
    def tenant(self) -> Tenant:
        assert self._tenant is not None, "no unit has begun"
        return self._tenant

    def begin_unit(self, unit_seed: int) -> None:
        name = f"{self.spec.arm_id}-{unit_seed}"
        self._bridge.serve(name, self._adapter)
        self._tenant = Tenant(self._stage, self._bridge, self._agent, name, observe=self._options.observe)

    def run_episode(self, episode: Episode) -> TrialReport:
        self._begun()
        played = Play(episode, self._tool, self.tenant).run()
        detail = {"log": played.log, "authority_concept": True, "branch_concept": True}
        if self._options.evidence:
            detail["events"] = self.tenant.told(played.operation_id)
        if played.claim is not None:
            detail["oracle_claim"] = played.claim
        sent = self.tenant.sent(played.operation_id)
        return TrialReport(episode.trial_index, played.outcome, dispatch_attempted=sent, detail=detail)

    def end_unit(self) -> None:
        self._tenant = None


@contextmanager
def installed(spec: ArmSpec, make: Callable[[Adapter], ArmDriver]) -> Iterator[None]:
    """Has the benchmark's runner know one arm more.

    It has no registry for arms of others: the two functions in which it looks arms up are wrapped, and nothing else of it.
    """
    known_spec, known_driver = runner._arm_spec, runner._make_driver

    def arm_spec(arm_id: str) -> object:
        return spec if arm_id == spec.arm_id else known_spec(arm_id)

    def make_driver(arm_id: str, adapter: RefdestAdapter, workdir: Path, admin_dsn: str | None) -> ArmDriver:
        return make(adapter) if arm_id == spec.arm_id else known_driver(arm_id, adapter, workdir, admin_dsn)

    runner._arm_spec, runner._make_driver = arm_spec, make_driver
    try:
        yield
    finally:
        runner._arm_spec, runner._make_driver = known_spec, known_driver


def harness_version() -> str:
    return version("irrevon")
