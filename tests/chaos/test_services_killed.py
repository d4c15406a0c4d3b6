"""Projector and reconciler killed with -9 at every named point, under load: one decision a claim, one effect an operation."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pytest

from landed import Confirmed, Execute, Result, Unknown, intent_of
from landed.adapters.embedded import Servers
from landed.core import events as ev

from .conftest import Chaos, chaos_on, one_effect_each

pytestmark = pytest.mark.timeout(300)
PROJECTOR_POINTS = [
    "projector.read",
    "projector.before_verdicts",
    "projector.verdicts_sent",
    "projector.before_transaction:kill:3",
    "projector.in_transaction:kill:3",
    "projector.mid_batch:kill:3",
    "projector.before_commit:kill:3",
    "projector.decision_sent",
    "projector.appended",
    # The next two find decisions in the outbox that were never appended.
    "projector.committed",
    "projector.took_over",
    "projector.outbox_appended",
    "projector.before_release",
    "projector.released",
]
GIVING_UP = ("projector.before_release", "projector.released")
"""Reached by a projector that is asked to end."""
RECONCILER_POINTS = [
    "reconciler.before_look",
    "reconciler.looked",
    "reconciler.before_append",
    "reconciler.event_sent",
    "reconciler.acknowledged",
    "reconciler.before_replay",
    "reconciler.replayed",
]
REPLAYING = ("reconciler.before_replay", "reconciler.replayed")
"""Reached where a request is sent again by itself, since nothing happened the first time."""
WAVE = 12
Wave = tuple[int | None, list[tuple[str, Result]]]


@pytest.fixture(scope="module")
def waves(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Wave]]:
    """Operations performed at the same time while one projector after the other is killed; how each ended, and their results."""
    with (
        chaos_on(servers, tmp_path_factory.mktemp("projectors")) as chaos,
        ThreadPoolExecutor(WAVE * (len(PROJECTOR_POINTS) + 1)) as pool,
    ):
        ledger, tool = chaos.ledger(wait=100.0), chaos.tools.named("pay.patient")
        codes: dict[str, int | None] = {}
        asked: dict[str, dict[str, Future[Result]]] = {}
        for point in [*PROJECTOR_POINTS, None]:
            named = point or "none"
            asked[named] = {}
            with chaos.process("projector", point=point) as process:
                for number in range(WAVE):
                    operation_id = f"op-{named}-{number}"
                    asked[named][operation_id] = pool.submit(ledger.perform, tool, operation_id=operation_id)
                if point in GIVING_UP:
                    wait([*asked[named].values()], timeout=60, return_when=FIRST_COMPLETED)
                    process.terminate()
                if point is not None:
                    codes[named] = process.wait(60)
                    continue
                results = {one: [(name, call.result(100)) for name, call in calls.items()] for one, calls in asked.items()}
                codes[named] = None
                chaos.assert_whole()
        one_effect_each(chaos.provider, [name for calls in asked.values() for name in calls])
        granted = [one.event.operation_id for one in chaos.entries() if isinstance(one.event, ev.DispatchGranted)]
        assert len(set(granted)) == len(PROJECTOR_POINTS) * WAVE + WAVE
        yield {named: (codes[named], results[named]) for named in asked}


@pytest.mark.parametrize("point", PROJECTOR_POINTS)
def test_a_projector_killed_at_any_point_costs_its_callers_time_and_nothing_else(waves: dict[str, Wave], point: str) -> None:
    code, results = waves[point]
    assert code == -9, "it was not killed at the point"
    assert [name for name, one in results if not isinstance(one, Confirmed) or one.repeated] == []


class Settled:
    """What became of two operations while a reconciler was killed: one whose answer was lost, one whose caller never called."""

    def __init__(
        self, code: int, lost: list[str], abandoned: list[str], evidence: list[ev.OutcomeConfirmed], effects: tuple[int, int]
    ) -> None:
        self.code = code
        self.lost = lost
        self.abandoned = abandoned
        self.evidence = evidence
        self.effects = effects


@pytest.fixture(scope="module")
def settled(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settled]]:
    with chaos_on(servers, tmp_path_factory.mktemp("reconcilers")) as chaos:
        chaos.projector()
        ledger, found = chaos.ledger(), {}
        for point in RECONCILER_POINTS:
            lost, abandoned = f"lost-{point}", f"abandoned-{point}"
            unanswered, pay = chaos.tools.named("pay.unanswered"), chaos.tools.named("pay.brief")
            if point in REPLAYING:
                pay = chaos.tools.named("pay.again")
            assert isinstance(ledger.begin(intent_of(pay.contract, {"seconds": 0.0}, operation_id=abandoned)), Execute)
            assert isinstance(ledger.perform(unanswered, operation_id=lost), Unknown)
            with chaos.process("reconciler", point=point) as first:
                code = first.wait(60)
            with chaos.process("reconciler"):
                chaos.until_settled(lost)
                chaos.until_settled(abandoned)
                if point in REPLAYING:
                    chaos.until(abandoned, "confirmed")
            effects = chaos.provider.effects()
            found[point] = Settled(
                code,
                chaos.events(lost),
                chaos.story(abandoned),
                [one.event for one in chaos.entries(lost) if isinstance(one.event, ev.OutcomeConfirmed)],
                (effects[lost], effects[abandoned]),
            )
            operation = chaos.operation(lost)
            assert (operation.state, operation.marks, operation.review, len(operation.references)) == ("confirmed", (), None, 1)
        chaos.assert_whole()
        yield found


@pytest.mark.parametrize("point", RECONCILER_POINTS)
def test_a_reconciler_killed_at_any_point_leaves_the_work_to_the_next_and_adds_no_effect(
    settled: dict[str, Settled], point: str
) -> None:
    one = settled[point]
    assert one.code == -9, "it was not killed at the point"
    assert one.effects == (1, int(point in REPLAYING))
    assert one.lost[:3] == ["operation_prepared", "dispatch_granted", "outcome_unknown"]
    assert one.lost.index("probe_recorded") < one.lost.index("outcome_confirmed"), "settled without a look"
    assert {(each.source, tuple(each.matched_on or ())) for each in one.evidence} == {("probe", ("operation_id",))}
    sent_again = ["dispatch_requested", "dispatch_granted", "outcome_confirmed"] if point in REPLAYING else []
    assert one.abandoned == ["dispatch_granted", "lease_expired", "absence_established", *sent_again]


def test_two_thousand_performs_across_a_restart_of_the_projector_get_their_verdicts_and_effects(chaos: Chaos) -> None:
    import asyncio

    from landed import AsyncLedger

    tool, total = chaos.tools.named("pay.patient.async"), 2000

    async def all_of_them() -> list[Result]:
        async with AsyncLedger.connect(chaos.settings(wait=90.0)) as ledger:
            return await asyncio.gather(*(ledger.perform(tool, operation_id=f"op-{number}") for number in range(total)))

    def killed_midway(process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while not total / 10 < sum(chaos.provider.effects().values()) < total:
            assert time.monotonic() < deadline, "never midway"
            time.sleep(0.01)
        process.kill()

    with ThreadPoolExecutor(1) as pool:
        with chaos.process("projector") as first:
            results = pool.submit(asyncio.run, all_of_them())
            killed_midway(first)
        assert not results.done(), "all was over before the restart"
        with chaos.process("projector"):
            done = results.result(100)
            chaos.assert_whole()
    assert [one for one in done if not isinstance(one, Confirmed)] == []
    one_effect_each(chaos.provider, (f"op-{number}" for number in range(total)))
    assert len(chaos.provider.effects()) == total
    states = {one.state for one in chaos.folded().values()}
    assert states == {"confirmed"}, "an operation is left waiting"
