"""Callers killed with -9 at every named point of the SDK: one effect or none, and a caller that comes back gets the truth.

All of them run at the same time on one ledger, with a projector and a reconciler. Right after its end the operation is presented
again (the restarted caller that is early), and once more when the reconciler has settled it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from landed import Confirmed, Refused, Result, Unknown
from landed.adapters.embedded import Servers
from landed.adapters.kafka import ensure_topics
from landed.core import events as ev
from landed.core.events import Entry
from landed.core.state import Operation
from landed.core.vocabulary import Refusal

from .conftest import Chaos, chaos_on
from .paying import SAFE_WINDOW_S

pytestmark = pytest.mark.timeout(300)
GRANTED, EXPIRED, CONFIRMED, ABSENT = "dispatch_granted", "lease_expired", "outcome_confirmed", "absence_established"
NOTHING: list[str] = []
CLAIMED = [GRANTED, EXPIRED, ABSENT]
"""A claim was granted, nobody called, and the provider says so."""
DONE_UNRECORDED = [GRANTED, EXPIRED, CONFIRMED]
"""The effect is there, its caller could not say so, the reconciler found it."""
DONE = [GRANTED, CONFIRMED]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    point: str
    effects: int
    """At the provider when the caller is dead."""
    stories: list[list[str]]
    """What the log may tell before the operation is settled and presented for the last time."""
    tool: str = "pay"
    given: dict[str, Any] = {}
    name: str = ""

    @property
    def operation_id(self) -> str:
        return f"op-{self.name or self.point}"


SCENARIOS = [
    Scenario(point="sdk.before_claim", effects=0, stories=[NOTHING]),
    Scenario(point="sdk.claim_sent", effects=0, stories=[NOTHING, CLAIMED]),
    Scenario(point="sdk.claim_acknowledged", effects=0, stories=[CLAIMED]),
    # Nobody ever answers on another topic for verdicts.
    Scenario(point="sdk.before_withdrawal", effects=0, stories=[CLAIMED], given={"wait": 1.0, "deaf": True}),
    Scenario(point="sdk.verdict_received", effects=0, stories=[CLAIMED]),
    Scenario(point="sdk.before_release", effects=0, stories=[CLAIMED], tool="pay.brief"),
    Scenario(point="sdk.before_call", effects=0, stories=[CLAIMED]),
    Scenario(point="sdk.before_call", effects=0, stories=[CLAIMED], tool="pay.async", name="before_call.async"),
    Scenario(
        point="sdk.lease_renewed", effects=0, stories=[[GRANTED, "lease_renewed", EXPIRED, ABSENT]], given={"seconds": 30.0}
    ),
    Scenario(point="sdk.after_call", effects=1, stories=[DONE_UNRECORDED]),
    Scenario(point="sdk.after_call", effects=1, stories=[DONE_UNRECORDED], tool="pay.async", name="after_call.async"),
    Scenario(
        point="sdk.reference_sent",
        effects=1,
        stories=[[GRANTED, "outcome_unknown", CONFIRMED], DONE_UNRECORDED],
        tool="pay.verified",
    ),
    Scenario(point="sdk.before_outcome", effects=1, stories=[DONE_UNRECORDED]),
    Scenario(point="sdk.outbox_sent", effects=1, stories=[DONE, DONE_UNRECORDED]),
    Scenario(point="sdk.outcome_acknowledged", effects=1, stories=[DONE]),
]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one caller and its operation."""

    code: int
    said: Any
    effects: int
    early: Result
    settled: Operation
    story: list[str]
    late: Result
    effects_late: int
    entries: list[Entry]


def end_of(chaos: Chaos, scenario: Scenario) -> Ended:
    given = dict(scenario.given)
    if given.pop("deaf", False):
        given["replies_topic"] = f"{chaos.log.topic}.deaf"
    operation_id = scenario.operation_id
    code, said = chaos.caller(operation_id, tool=scenario.tool, point=scenario.point, **given)
    effects = chaos.provider.effects()[operation_id]
    restarted = chaos.ledger(worker=f"restarted-{operation_id}", wait=20.0)
    tool = chaos.tools.named("pay" if scenario.tool.startswith("pay.async") or scenario.tool == "pay.brief" else scenario.tool)
    early = restarted.perform(tool, operation_id=operation_id)
    settled = chaos.until_settled(operation_id)
    story = chaos.story(operation_id)
    late = restarted.perform(tool, operation_id=operation_id, retry=True)
    return Ended(
        code=code,
        said=said,
        effects=effects,
        early=early,
        settled=settled,
        story=story,
        late=late,
        effects_late=chaos.provider.effects()[operation_id],
        entries=chaos.entries(operation_id),
    )


@pytest.fixture(scope="module")
def ends(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ended]]:
    with chaos_on(servers, tmp_path_factory.mktemp("callers")) as chaos:
        ensure_topics(msgspec.structs.replace(chaos.log, replies_topic=f"{chaos.log.topic}.deaf"), partitions=3)
        chaos.projector()
        chaos.reconciler(chaos.tools.registry)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: end_of(chaos, one), SCENARIOS))
        chaos.assert_whole()
        yield dict(zip([one.operation_id for one in SCENARIOS], found, strict=True))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.operation_id)
def test_a_caller_killed_at_any_point_leaves_one_effect_or_none_and_its_successor_gets_the_truth(
    ends: dict[str, Ended], scenario: Scenario
) -> None:
    end = ends[scenario.operation_id]
    assert (end.code, end.said) == (-9, None), "the caller was not killed at the point"
    assert end.effects == scenario.effects
    if isinstance(end.early, Confirmed) and not end.early.repeated:
        # Nothing was in flight any more, or ever: the killed caller's successor performed.
        assert end.story[-2:] == DONE
        assert end.story[:-2] in [one for one in scenario.stories if one in (NOTHING, CLAIMED)]
    else:
        assert end.story in scenario.stories
        assert is_honest(end.early, end.story), end.early
    assert isinstance(end.late, Confirmed), end.late
    assert end.late.repeated is (CONFIRMED in end.story)
    assert end.effects_late == 1, "a second effect, or none"
    evidence = [one.event for one in end.entries if isinstance(one.event, ev.OutcomeConfirmed)]
    assert {one.reference for one in evidence} == {end.late.reference}
    assert (end.settled.marks, end.settled.review) == ((), None)


def is_honest(early: Result, story: list[str]) -> bool:
    """In doubt while nobody knows; the receipt, or that nothing happened, as soon as it is on record; never another call."""
    if isinstance(early, Confirmed):
        return early.repeated and CONFIRMED in story
    if isinstance(early, Refused):
        # A machine so slow that lease and window were over before the successor asked.
        return early.reason is Refusal.RETRY_OFFERED and story[-1] == ABSENT
    return isinstance(early, Unknown) and early.reason in ("in_flight", "unresolved")


def test_a_lease_that_nobody_holds_any_more_expires_by_the_clock_of_the_log(ends: dict[str, Ended]) -> None:
    for scenario in SCENARIOS:
        for one in ends[scenario.operation_id].entries:
            if isinstance(one.event, ev.LeaseExpired):
                assert one.at_ms > one.event.lease_end_ms


def test_absence_is_established_only_after_the_safe_window(ends: dict[str, Ended]) -> None:
    proven = 0
    for scenario in SCENARIOS:
        entries = ends[scenario.operation_id].entries
        expired = [one.event.lease_end_ms for one in entries if isinstance(one.event, ev.LeaseExpired)]
        absent = [one.at_ms for one in entries if isinstance(one.event, ev.AbsenceEstablished)]
        assert all(at_ms - expired[0] >= SAFE_WINDOW_S * 1000 for at_ms in absent)
        proven += len(absent)
    assert proven >= 6


def test_an_effect_of_a_killed_caller_is_proven_by_a_look_at_the_provider(ends: dict[str, Ended]) -> None:
    for point in ("sdk.after_call", "sdk.before_outcome"):
        entries = ends[f"op-{point}"].entries
        (evidence,) = [one.event for one in entries if isinstance(one.event, ev.OutcomeConfirmed)]
        assert (evidence.source, evidence.matched_on) == ("probe", ["operation_id"])
