"""Nine ways in which work of several steps fails, each by name.

Each asserts the evidence on record, that the compensation was on the log before the forward call, under which policy an inverse
was authorized, and that what the user is told claims no more than is certain.
"""

from typing import Any

from msgspec import json

from landed import Confirmed, Refused, Rejected, Unknown, effect
from landed.core import events as ev
from landed.core.authorization import Rule, Rules
from landed.core.contract import Effect
from landed.core.wording import label, sentence
from landed.testing.fault_proxy import Answer, CommitThenDrop, Reset
from landed_services.metrics import Metrics, ViewGauges

from .people import until
from .staged import Stage, Trip
from .trip import UNREACHABLE


def body_of(operation_id: str) -> dict[str, Any]:
    return {"method": "POST", "containing": f'"{operation_id}"'.encode()}


def registered_first(trip: Trip, kind: str) -> None:
    """The compensation stands on the log before the forward call was granted."""
    entries = [one for one in trip.world.entries(trip.id(kind)) if one.event.operation_id == trip.id(kind)]
    prepared = next(one for one in entries if isinstance(one.event, ev.OperationPrepared))
    granted = next(one for one in entries if isinstance(one.event, ev.DispatchGranted))
    assert isinstance(prepared.event, ev.OperationPrepared)
    assert prepared.event.compensation == [f"cancel_{kind}"]
    assert prepared.position.offset < granted.position.offset


def rulings(trip: Trip, kind: str) -> list[tuple[str, str | None]]:
    ruled = trip.events(f"compensate:{trip.id(kind)}", ev.CompensationAuthorized)
    return [(one.decision, one.policy_version) for one in ruled]


def gauge_of(stage: Stage, name: str, labels: dict[str, str]) -> float | None:
    gauges = ViewGauges(stage.world.view, Metrics().operation_labels)
    try:
        samples = [one for family in gauges.collect() for one in family.samples]
    finally:
        gauges.close()
    return next((one.value for one in samples if (one.name, one.labels) == (name, labels)), None)


def told(trip: Trip, kind: str) -> tuple[str, str]:
    operation, state = trip.op(kind), trip.route().group_state
    return label(operation, state), sentence(operation, state)


def test_1_validation_refuses_before_the_provider_is_touched_and_only_the_corrected_input_goes_on(stage: Stage) -> None:
    trip = Trip(stage, "s1")
    tool = stage.registry.tool("book_flight")
    assert tool is not None
    name = trip.id("flight")
    assert isinstance(trip.group.perform(tool, operation_id=name, trip=""), Rejected)
    (rejected,) = trip.events(name, ev.OutcomeRejected)
    assert rejected.error_code == "not_sent"
    assert not [one for one in stage.provider.effects if one["operation_id"] == name]
    again = trip.group.perform(tool, operation_id=name, trip="")
    assert isinstance(again, Rejected | Refused)
    changed = trip.group.perform(tool, operation_id=name, trip=trip.name)
    assert isinstance(changed, Refused)
    assert changed.reason == "request_mismatch"
    assert isinstance(trip.group.perform(tool, operation_id=f"{name}-2", replaces=name, trip=trip.name), Confirmed)
    registered_first(trip, "flight")
    assert told(trip, "flight") == ("Failed before effect", "It was refused and had no effect.")


def test_2_the_provider_commits_and_the_answer_is_lost_so_it_is_unknown_and_looked_up(stage: Stage) -> None:
    trip = Trip(stage, "s2")
    UNREACHABLE.add(trip.id("hotel"))
    stage.arm(CommitThenDrop(), **body_of(trip.id("hotel")))
    assert isinstance(trip.perform("hotel"), Unknown)
    registered_first(trip, "hotel")
    trip.until_op("hotel", "reconciling")
    look = trip.events(trip.id("hotel"), ev.ProbeRecorded)[0]
    assert look.result == "error"
    said = told(trip, "hotel")
    assert said[0] == "Processing safely"
    assert said[1].startswith("It is not certain whether it happened.")
    UNREACHABLE.discard(trip.id("hotel"))
    trip.until_op("hotel", "confirmed")


def test_3_a_probe_confirms_the_effect_and_it_is_undone_since_a_later_step_failed(stage: Stage) -> None:
    trip = Trip(stage, "s3")
    stage.arm(CommitThenDrop(), **body_of(trip.id("hotel")))
    assert isinstance(trip.perform("hotel"), Unknown)
    found = trip.until_op("hotel", "confirmed")
    confirmed = trip.events(trip.id("hotel"), ev.OutcomeConfirmed)[-1]
    assert (confirmed.source, confirmed.matched_on) == ("probe", ["operation_id"])
    assert found.references[0].value == confirmed.reference
    trip.group.unwind("later_step_failed")
    trip.until("unwound")
    assert trip.cancelled() == ["hotel"]
    registered_first(trip, "hotel")
    assert rulings(trip, "hotel") == [("allow", "compensation@1")]
    assert told(trip, "hotel") == ("Recovered", "It happened and was undone, with evidence.")


def test_4_a_probe_confirms_that_there_is_no_effect_and_nothing_is_undone_blindly(stage: Stage) -> None:
    trip = Trip(stage, "s4")
    trip.booked("flight")
    stage.arm(Reset(), **body_of(trip.id("hotel")))
    assert isinstance(trip.perform("hotel"), Unknown)
    trip.group.unwind("later_step_failed")
    route = trip.until("unwound")
    (absence,) = trip.events(trip.id("hotel"), ev.AbsenceEstablished)
    assert absence.read_kind == "authoritative"
    assert f"compensate:{trip.id('hotel')}" not in route.operations
    assert trip.cancelled() == ["flight"]
    registered_first(trip, "hotel")
    assert told(trip, "hotel")[1] == "It was proven that nothing happened. Nothing is sent by itself."


def test_5_an_inverse_after_the_effect_was_removed_already_is_a_verified_no_op(stage: Stage) -> None:
    trip = Trip(stage, "s5")
    trip.booked("car")
    stage.provider.make({"operation_id": f"compensate:{trip.id('car')}", "kind": "by hand"})
    stage.arm(Answer(404), **body_of(f"compensate:{trip.id('car')}"))
    trip.group.unwind("later_step_failed")
    trip.until("unwound")
    inverse = f"compensate:{trip.id('car')}"
    assert trip.events(inverse, ev.OutcomeUnknown)[0].error_class == "gone_already"
    assert trip.events(inverse, ev.OutcomeConfirmed)[0].source == "probe"
    assert trip.cancelled() == []
    registered_first(trip, "car")
    assert rulings(trip, "car") == [("allow", "compensation@1")]
    assert told(trip, "car")[0] == "Recovered"


def test_6_an_inverse_that_needs_a_stronger_permission_goes_to_a_person_with_the_evidence(stage: Stage) -> None:
    trip = Trip(stage, "s6", policy=Rules(rules=(Rule(id="signed", approval=True),)))
    trip.booked("hotel")
    trip.group.unwind("later_step_failed")
    trip.until("needs_human")
    waiting = {"tenant": "s6", "tool": "", "provider": "", "workflow_type": "trip", "policy_version": ""}
    until(lambda: gauge_of(stage, "landed_groups_needs_human", waiting) == 1)
    assert trip.cancelled() == []
    registered_first(trip, "hotel")
    assert rulings(trip, "hotel") == [("deny", "compensation@1")]
    (handed,) = trip.events(trip.id("hotel"), ev.OperationEscalated)
    assert json.decode(handed.evidence) == {
        "why": "unauthorized",
        "inverse": f"compensate:{trip.id('hotel')}",
        "denied": "signed: needs an approval",
        "policy_version": "compensation@1",
    }
    said = told(trip, "hotel")
    assert said == ("Needs review", "Automation stopped and a person decides, with the evidence. Nothing is sent until then.")


def test_7_while_the_tool_of_the_inverse_is_unavailable_it_is_retried_under_its_own_policy(stage: Stage) -> None:
    trip = Trip(stage, "s7")
    trip.booked("hotel")
    inverse = f"compensate:{trip.id('hotel')}"
    for nth in (1, 2):
        stage.arm(Answer(503), nth=nth, **body_of(inverse))
    trip.group.unwind("later_step_failed")
    trip.until_op("hotel", "compensating")
    assert told(trip, "hotel")[0] == "Processing safely"
    route = trip.until("unwound")
    assert [one.error_code for one in trip.events(inverse, ev.OutcomeRejected)] == ["503", "503"]
    assert len(route.operation(inverse).attempts) == 3
    assert trip.cancelled() == ["hotel"]
    registered_first(trip, "hotel")
    assert rulings(trip, "hotel") == [("allow", "compensation@1")] * 3, "each attempt is authorized when it runs"


def test_8_of_two_branches_each_is_undone_by_its_dependencies_and_not_by_time(stage: Stage) -> None:
    trip = Trip(stage, "s8")
    trip.booked("hotel", depends_on=[])
    trip.booked("flight", depends_on=[])
    assert isinstance(trip.perform("mail", "send_mail", depends_on=[trip.id("flight")]), Confirmed)
    trip.booked("seat", depends_on=[trip.id("hotel")])
    trip.group.unwind("later_step_failed")
    route = trip.until("needs_human")
    assert trip.cancelled() == ["seat", "hotel"], "the branch of the mail waits, though it is younger than the hotel"
    assert route.operation(trip.id("flight")).state == "confirmed"
    assert told(trip, "flight")[1].startswith("It happened, once")
    for kind in ("hotel", "flight", "seat"):
        registered_first(trip, kind)
    assert rulings(trip, "seat") == rulings(trip, "hotel") == [("allow", "compensation@1")]


def test_9_an_inverse_that_a_model_made_up_is_denied_and_a_person_has_the_effect(stage: Stage) -> None:
    trip = Trip(stage, "s9", automatic=())
    trip.booked("hotel")
    trip.group.unwind("later_step_failed")
    trip.until("unwinding")
    called: list[str] = []

    @effect(tool="wipe_account", effect=Effect(kind="account.delete"))
    def wipe_account(id: str) -> dict[str, Any]:
        called.append(id)
        return {}

    refused = trip.group.perform(wipe_account, operation_id=f"compensate:{trip.id('hotel')}", id="ef_1")
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail["rule"]) == ("compensation_denied", "no contract registered this inverse")
    trip.until("needs_human")
    assert (called, trip.cancelled()) == ([], [])
    (handed,) = trip.events(trip.id("hotel"), ev.OperationEscalated)
    assert json.decode(handed.evidence)["tool"] == "wipe_account"
    registered_first(trip, "hotel")
    assert told(trip, "hotel")[0] == "Needs review"
