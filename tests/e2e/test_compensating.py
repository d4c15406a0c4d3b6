"""Groups are undone by real compensators, on the real broker and database, at a provider that keeps records of every effect."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import json
from tests.conftest import new_database

from landed import Confirmed, Refused, Unknown
from landed.adapters.embedded import Servers
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.authorization import CedarPolicies
from landed.core.plan import plan
from landed.testing.failure_points import POINTS
from landed.testing.fault_proxy import Answer, CommitThenDrop, Reset
from landed.testing.faulty_provider import FaultyProvider

from .conftest import World
from .staged import Stage, Trip
from .trip import UNREACHABLE

ROOT = Path(__file__).resolve().parents[2]


def test_a_plan_is_performed_in_reverse_order_each_inverse_once_by_two_compensators(stage: Stage) -> None:
    trip = Trip(stage, "ordered")
    trip.booked("flight", "hotel", "seat", "car")
    trip.group.unwind("card_declined")
    route = trip.until("unwound")
    assert trip.cancelled() == ["car", "seat", "hotel", "flight"]
    for kind in ("flight", "hotel", "seat", "car"):
        assert route.operation(trip.id(kind)).state == "compensated"
        (ruled,) = trip.events(f"compensate:{trip.id(kind)}", ev.CompensationAuthorized)
        assert (ruled.decision, ruled.policy_version) == ("allow", "compensation@1")
        prepared = trip.events(f"compensate:{trip.id(kind)}", ev.OperationPrepared)[0]
        assert json.decode(prepared.stored_args).keys() == {"id"}, "whoever goes on sends the same arguments"


def test_nothing_is_undone_while_an_effect_is_in_doubt_and_the_plan_follows_by_itself(stage: Stage) -> None:
    trip = Trip(stage, "stopped")
    trip.booked("flight")
    UNREACHABLE.add(trip.id("hotel"))
    stage.arm(CommitThenDrop(), method="POST", containing=f'"{trip.id("hotel")}"'.encode())
    assert isinstance(trip.perform("hotel"), Unknown)
    trip.group.unwind("later_step_failed")
    trip.until("unwinding")
    said = plan(trip.route(), now_ms=time.time_ns() // 1_000_000)
    assert said.steps == ()
    assert said.next_step.startswith("STOP. 1 effect(s) in this group have an unknown outcome.")
    time.sleep(1.0)
    assert trip.cancelled() == []
    UNREACHABLE.discard(trip.id("hotel"))
    trip.until("unwound")
    assert trip.cancelled() == ["hotel", "flight"]


def test_a_failing_inverse_is_retried_under_its_own_policy_and_one_whose_answer_is_lost_is_looked_up(stage: Stage) -> None:
    trip = Trip(stage, "retried")
    trip.booked("hotel", "seat", "car")
    stage.arm(Answer(503), method="POST", containing=f'"compensate:{trip.id("hotel")}"'.encode())
    stage.arm(CommitThenDrop(), method="POST", containing=f'"compensate:{trip.id("seat")}"'.encode())
    stage.arm(CommitThenDrop(), method="POST", containing=f'"compensate:{trip.id("car")}"'.encode())
    trip.group.unwind("later_step_failed")
    route = trip.until("unwound")
    assert trip.cancelled() == ["car", "seat", "hotel"]
    attempts = {kind: len(route.operation(f"compensate:{trip.id(kind)}").attempts) for kind in ("hotel", "seat", "car")}
    assert attempts == {"hotel": 2, "seat": 1, "car": 1}
    (seen,) = trip.events(f"compensate:{trip.id('car')}", ev.OutcomeConfirmed)
    assert (seen.source, seen.matched_on) == ("probe", ["operation_id"]), "by the probe of the booking, read backwards"


def test_an_inverse_waits_for_what_it_requires_and_then_a_person_has_it(stage: Stage) -> None:
    never, opened = Trip(stage, "never"), Trip(stage, "opened")
    never.booked("pass")
    opened.booked("pass")
    stage.provider.make({"operation_id": f"open:{opened.id('pass')}"})
    for one in (never, opened):
        one.group.unwind("later_step_failed")
    opened.until("unwound")
    assert opened.cancelled() == ["pass"]
    never.until("needs_human")
    assert never.cancelled() == []
    (handed,) = never.events(never.id("pass"), ev.OperationEscalated)
    assert (handed.reason, handed.actor, handed.evidence) == (
        "skipped",
        "compensator",
        '{"why":"its precondition does not hold"}',
    )


def test_without_the_tenants_word_the_plan_is_left_to_the_caller(stage: Stage) -> None:
    trip = Trip(stage, "by-hand", automatic=())
    trip.booked("flight")
    trip.group.unwind("later_step_failed")
    trip.until("unwinding")
    time.sleep(1.5)
    assert trip.cancelled() == []
    (step,) = plan(trip.route(), now_ms=time.time_ns() // 1_000_000).steps
    cancel = stage.registry.tool(step.compensation.tool if step.compensation else "")
    assert cancel is not None
    reference = trip.op("flight").references[0].value
    assert isinstance(trip.group.perform(cancel, operation_id=step.suggested_idempotency_key, id=reference), Confirmed)
    trip.until("unwound")
    assert trip.cancelled() == ["flight"]


def test_the_policy_of_the_moment_decides_also_in_cedar_and_a_person_gets_the_evidence(stage: Stage) -> None:
    young = "context has age_s && context.age_s < 3600"
    permit = f'@id("service") permit(principal == Worker::"compensator", action, resource) when {{ {young} }};'
    forbid = '@id("freeze") forbid(principal, action == Action::"hotel.delete", resource);'
    trip = Trip(stage, "cedar", policy=CedarPolicies(policies=permit))
    trip.booked("hotel", "flight")
    trip.world.policy("compensation", CedarPolicies(policies=permit + forbid), tenant=trip.name)
    trip.group.unwind("later_step_failed")
    trip.until("needs_human")
    assert trip.cancelled() == ["flight"]
    (ruled,) = trip.events(f"compensate:{trip.id('hotel')}", ev.CompensationAuthorized)
    assert (ruled.decision, ruled.reason, ruled.policy_version) == ("deny", "denied by freeze", "compensation@2")
    (handed,) = trip.events(trip.id("hotel"), ev.OperationEscalated)
    assert json.decode(handed.evidence)["denied"] == "denied by freeze"


def test_an_effect_that_lands_after_not_found_is_undone_and_one_after_its_inverse_goes_to_a_person(stage: Stage) -> None:
    trip = Trip(stage, "late")
    stage.arm(Reset(), method="POST", containing=f'"{trip.id("flight")}"'.encode())
    assert isinstance(trip.perform("flight"), Unknown)
    trip.group.unwind("later_step_failed")
    route = trip.until("unwound")
    assert route.operation(trip.id("flight")).state == "not_found"
    made = stage.provider.make({"operation_id": trip.id("flight"), "kind": "flight", "trip": trip.name})
    trip.heard_of("flight", made["id"])
    deadline = time.monotonic() + 60
    while trip.op("flight").state != "compensated":
        assert time.monotonic() < deadline, trip.op("flight").state
        time.sleep(0.05)
    assert trip.cancelled() == ["flight"]
    assert trip.route().group_state == "unwound"
    trip.heard_of("flight", "ef_another")
    route = trip.until("needs_human")
    assert route.operation(trip.id("flight")).marks == ("late_effect",)


def test_a_reference_of_another_tenant_is_never_acted_on(stage: Stage) -> None:
    theirs, ours = Trip(stage, "theirs"), Trip(stage, "ours", automatic=())
    theirs.booked("hotel")
    ours.booked("hotel")
    ours.group.unwind("later_step_failed")
    ours.until("unwinding")
    cancel = stage.registry.tool("cancel_hotel")
    assert cancel is not None
    stored = theirs.op("hotel").references[0].value
    refused = ours.group.perform(cancel, operation_id=f"compensate:{ours.id('hotel')}", id=stored)
    assert isinstance(refused, Refused)
    assert refused.reason == "compensation_denied"
    assert theirs.cancelled() == ours.cancelled() == []
    ours.until("needs_human")


# ---- kill -9 ---------------------------------------------------------------------------------------------------------------

STEPS = (
    "compensator.before_read",
    "compensator.before_inverse",
    "sdk.claim_sent",
    "sdk.verdict_received",
    "sdk.before_call",
    "sdk.after_call",
    "sdk.outcome_acknowledged",
    "compensator.performed",
    "compensator.before_hand_over",
    "compensator.handed_over",
)


def process(world: World, url: str, point: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "LANDED_KAFKA_BOOTSTRAP": world.log.bootstrap,
        "LANDED_DATABASE_URL": world.view.url,
        "LANDED_TOPIC": world.log.topic,
        "LANDED_REPLIES_TOPIC": world.log.replies_topic,
        "LANDED_WRITER_KEY_ID": "writer-1",
        "LANDED_WRITER_KEY": "a secret of thirty-two bytes or so",
        "LANDED_FAILURE_POINT": point,
        "TRIP_URL": url,
        "PYTHONPATH": str(ROOT),
    }
    code = "from landed_services.cli import main; main()"
    command = [sys.executable, "-c", code, "compensator", "--tools", "tests.e2e.trip:registry"]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.timeout(240)
def test_a_compensator_that_is_killed_at_any_step_leaves_no_inverse_out_and_none_done_twice(servers: Servers) -> None:
    """Each process is killed at its step of some inverse; whatever it left is done by the one that comes last."""
    assert {one for one in POINTS if one.startswith("compensator.")} <= set(STEPS)
    with new_database(servers) as database, FaultyProvider(honours_key=False) as provider:
        world = World(servers, database)
        killed: list[subprocess.Popen[bytes]] = []
        try:
            stage = Stage(world, provider, None)
            trips: dict[str, Trip] = {}
            for number, point in enumerate(STEPS):
                made = trips[point] = Trip(stage, f"killed-{number}")
                last = "pass" if "over" in point or "read" in point else "seat"
                made.booked("flight", last)
                if "read" in point:
                    provider.make({"operation_id": f"open:{made.id('pass')}"})
                made.group.unwind("later_step_failed")
                one = process(world, provider.url, point)
                killed.append(one)
                assert one.wait(30) == -9, f"{point} was not reached"
                with connect(world.view) as connection:
                    connection.execute("DELETE FROM reconcilers WHERE kind = 'compensator'")
            world.compensator(stage.registry)
            for point, made in trips.items():
                if "over" in point:
                    # Nobody undoes the pass; what was booked before it waits for the person who decides about it.
                    made.until("needs_human", timeout_s=60)
                    assert made.cancelled() == []
                else:
                    made.until("unwound", timeout_s=60)
                    assert made.cancelled() == ["pass" if "read" in point else "seat", "flight"], point
        finally:
            for one in killed:
                one.kill()
                one.wait()
            world.end()
