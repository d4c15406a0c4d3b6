"""The plan of an unwinding group (docs/semantics.md §8): order, STOP, what is skipped and why, and the inputs of an inverse."""

import time
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.history import claim, event

from landed.core import events as ev
from landed.core import recovery
from landed.core.contract import Compensation, Contract, Effect, contract_json
from landed.core.coupling import couple
from landed.core.decide import Facts, Refused, decide
from landed.core.inverse import Inputs, Missing, Obstacle, chosen, inputs_for, obstacle
from landed.core.plan import Plan, plan
from landed.core.projection import consequences
from landed.core.state import Attempt, Authorization, Operation, Reference, Route
from landed.core.vocabulary import Decision, EscalationReason, ForwardOutcome, GroupState, Refusal, State

NOW = 1_000_000


def step(name: str, at: int, *, state: State = State.CONFIRMED, compensation: Any = None, **fields: Any) -> Operation:
    """A forward step *name* confirmed at *at*; its inverse is `cancel_<name>` unless *compensation* says otherwise."""
    registered = (Compensation(tool=f"cancel_{name}"),) if compensation is None else compensation
    contract = Contract(
        tool=name, effect=Effect(kind=f"{name}.book"), compensation=registered, no_inverse=fields.pop("no_inverse", False)
    )
    values: dict[str, Any] = {
        "tool": name,
        "contract_text": contract_json(contract),
        "effect_type": f"{name}.book",
        "compensation": tuple(one.tool for one in registered),
        "confirmed_at_ms": at if state is State.CONFIRMED else None,
        "receipt": '{"id": "r-1"}',
        "references": (Reference(value=f"ref-{name}"),),
        "depends_on": (),
    }
    return Operation(operation_id=name, state=state, **values | fields)


def group(*operations: Operation, state: GroupState = GroupState.UNWINDING) -> Route:
    return Route(tenant_id="acme", route="trip", group_state=state, operations={op.operation_id: op for op in operations})


def planned(route: Route, **options: Any) -> Plan:
    return plan(route, now_ms=NOW, **options)


def order_of(found: Plan) -> list[str]:
    return [one.operation_id for one in found.steps]


def test_independent_steps_are_undone_in_reverse_order_of_confirmation() -> None:
    found = planned(group(step("flight", 1), step("hotel", 2), step("seat", 3), step("car", 4)))

    assert order_of(found) == ["car", "seat", "hotel", "flight"]
    assert [one.order for one in found.steps] == [1, 2, 3, 4]
    assert found.next_step == "Perform the 4 compensation(s) in the order given."


def test_what_depends_on_a_step_is_undone_before_it_also_through_a_third() -> None:
    found = planned(
        group(
            step("a", 9),
            step("b", 2, depends_on=("a",), kept=True),
            step("c", 3, depends_on=("b",)),
        )
    )

    assert order_of(found) == ["c", "a"]
    assert found.steps[1].after == ("c",)
    assert found.steps[1].explanation.endswith("Undone after c, which depends on it.")
    assert [(one.operation_id, one.reason) for one in found.skipped] == [("b", "kept")]


@pytest.mark.parametrize("declared", [True, False])
def test_a_group_of_a_thousand_steps_is_planned_decided_and_folded_at_once(declared: bool) -> None:
    """With work that grows with the third power of the steps each claim would take minutes, and hold up its partition."""
    names = [f"s{number:04}" for number in range(1000)]
    steps = [
        step(name, at, depends_on=tuple(names[max(at - 1, 0) : at]) if declared else None, confirmed_before=tuple(names[:at]))
        for at, name in enumerate(names)
    ]
    route = group(*steps)
    began_s = time.process_time()

    assert order_of(planned(route)) == names[::-1]
    assert recovery.comes_first(route, names[-1]) is None
    assert recovery.comes_first(route, names[0]) == steps[-1]
    skipped = replace(steps[-1], state=State.ESCALATED, escalated_for=EscalationReason.SKIPPED)
    assert recovery.derived_group_state(group(*steps[:-1], skipped)) is GroupState.UNWOUND
    assert time.process_time() - began_s < 15


def test_the_json_has_the_field_names_of_the_norm() -> None:
    made = planned(group(step("flight", 1)), effect_types={"cancel_flight": "flight.cancel"})
    found = msgspec.json.decode(msgspec.json.encode(made))

    assert found["steps"] == [
        {
            "order": 1,
            "operation_id": "flight",
            "original_effect_type": "flight.book",
            "compensation": {"effect_type": "flight.cancel", "tool": "cancel_flight"},
            "suggested_idempotency_key": "compensate:flight",
            "decision": "compensate",
            "reason": "later_step_failed",
            "after": [],
            "explanation": "It happened and a later step failed. Nothing that still stands depends on it.",
        }
    ]
    assert {"state", "steps", "irreversible", "unresolved", "next_step"} <= set(found)


@pytest.mark.parametrize("state", [State.DISPATCHED, State.UNKNOWN, State.RECONCILING])
def test_anything_in_doubt_stops_the_plan_and_is_named(state: State) -> None:
    found = planned(group(step("flight", 1), step("pay", 2, state=state)))

    assert found.steps == ()
    assert found.next_step.startswith("STOP. 1 effect(s) in this group have an unknown outcome. ")
    assert "pay" in found.next_step
    assert [(one.operation_id, one.effect_type, one.state) for one in found.unresolved] == [("pay", "pay.book", state)]


def test_an_operation_escalated_for_doubt_stops_the_plan_one_escalated_otherwise_does_not() -> None:
    doubt = step("pay", 2, state=State.ESCALATED, escalated_for=EscalationReason.CONFLICT)
    failed = step("pay", 2, state=State.ESCALATED, escalated_for=EscalationReason.INVERSE_FAILED)

    assert planned(group(step("flight", 1), doubt)).steps == ()
    found = planned(group(step("flight", 1), failed))
    assert {one.operation_id: (one.decision, one.reason) for one in found.steps} == {
        "flight": ("compensate", "later_step_failed"),
        "pay": ("escalate", "inverse_failed"),
    }


def test_an_unknown_effect_whose_inverse_is_safe_for_it_is_planned_once_the_call_is_over() -> None:
    inverse = (Compensation(tool="release", safe_when=(ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN)),)
    attempt = Attempt(number=1, claim_id="k", granted_at_ms=1, lease_end_ms=NOW + 5, state_before=State.PREPARED)
    held = step("stock", 2, state=State.UNKNOWN, compensation=inverse, attempts=(attempt,))

    assert planned(group(held)).steps == ()
    found = plan(group(held), now_ms=NOW + 5)
    assert [(one.decision, one.reason) for one in found.steps] == [("compensate", "forward_outcome_unknown")]


def test_irreversible_effects_are_listed_before_anything_starts_also_before_the_group_unwinds() -> None:
    mail = step("mail", 2, compensation=(), no_inverse=True)
    found = planned(group(step("flight", 1), mail, state=GroupState.OPEN))

    assert [(one.operation_id, one.effect_type) for one in found.irreversible] == [("mail", "mail.book")]
    assert found.next_step.startswith("The group does not unwind yet")
    decided = {one.operation_id: (one.decision, one.reason) for one in found.steps}
    assert decided["mail"] == ("escalate", "irreversible")


def test_a_step_without_registered_inverse_is_for_a_person_and_says_so() -> None:
    found = planned(group(step("flight", 1, compensation=())))

    assert [(one.decision, one.reason, one.compensation) for one in found.steps] == [
        ("escalate", "no_registered_compensation", None)
    ]
    assert found.next_step == "A person decides about flight."


def test_steps_share_an_order_only_if_all_of_them_are_parallel_safe_and_independent() -> None:
    safe = {name: (Compensation(tool=f"undo_{name}", parallel_safe=True),) for name in "abc"}
    free = group(*(step(name, at, compensation=safe[name]) for at, name in enumerate("abc", 1)))
    mixed = group(step("a", 1, compensation=safe["a"]), step("b", 2, compensation=safe["b"]), step("c", 3))
    bound = group(step("a", 1, compensation=safe["a"]), step("b", 2, compensation=safe["b"], depends_on=("a",)))

    assert [one.order for one in planned(free).steps] == [1, 1, 1]
    assert [(one.operation_id, one.order) for one in planned(mixed).steps] == [("c", 1), ("b", 2), ("a", 2)]
    assert [(one.operation_id, one.order) for one in planned(bound).steps] == [("b", 1), ("a", 2)]


def test_a_denied_inverse_is_a_step_for_a_person() -> None:
    ruled = Authorization(decision=Decision.DENY, reason="amount is above 100")
    inverse = Operation(operation_id="compensate:flight", state=State.PREPARED, tool="cancel_flight", authorization=ruled)
    found = planned(group(step("flight", 1), inverse))

    assert [(one.decision, one.reason) for one in found.steps] == [("escalate", "unauthorized")]


def test_an_inverse_that_is_under_way_is_looked_up_not_sent_again() -> None:
    under_way = Operation(operation_id="compensate:flight", state=State.UNKNOWN, tool="cancel_flight")
    flight = step("flight", 1, state=State.COMPENSATING, confirmed_at_ms=1)

    assert [(one.decision, one.reason) for one in planned(group(flight, under_way)).steps] == [("reconcile", "inverse_under_way")]


def test_a_settled_group_has_nothing_left_to_undo() -> None:
    found = planned(group(step("flight", 1, state=State.COMPENSATED), step("car", 2, state=State.REJECTED)))

    assert found.steps == ()
    assert found.next_step == "Nothing is left to undo."
    assert {one.operation_id: one.reason for one in found.skipped} == {"flight": "compensated", "car": "rejected"}


def test_the_window_of_an_inverse_closes_so_long_after_the_confirmation() -> None:
    flight = step("flight", NOW - 60_000, compensation=(Compensation(tool="cancel", expires_after=60.0),))
    route = group(flight)

    assert obstacle(route, flight, now_ms=NOW - 1) is None
    assert obstacle(route, flight, now_ms=NOW) is Obstacle.EXPIRED


def test_inputs_come_from_the_first_declared_source_that_has_every_required_field() -> None:
    flight = step("flight", 1, stored_args='{"pnr": "P1", "seat": "4A"}', receipt='{"id": "r-1"}')
    both = Compensation(tool="cancel", input_from=("forward_output", "forward_input"), required_fields=("pnr",))
    by_reference = Compensation(tool="cancel", required_fields=("reference", "id"))

    assert inputs_for(flight, both) == Inputs({"pnr": "P1"}, {"pnr": "forward_input"})
    assert inputs_for(flight, both, wanted=("seat", "other")) == Inputs(
        {"pnr": "P1", "seat": "4A"}, {"pnr": "forward_input", "seat": "forward_input"}
    )
    assert inputs_for(flight, by_reference) == Inputs(
        {"reference": "ref-flight", "id": "r-1"}, {"reference": "forward_output", "id": "forward_output"}
    )


def test_missing_required_fields_are_named_and_skip_the_step() -> None:
    needs = Compensation(tool="cancel", required_fields=("id", "token"))
    flight = step("flight", 1, compensation=(needs,))

    assert inputs_for(flight, needs) == Missing(("token",))
    assert obstacle(group(flight), flight, now_ms=NOW) is Obstacle.REQUIRED_FIELDS_MISSING
    given = inputs_for(flight, needs, given={"token": "t"})
    assert given == Inputs({"id": "r-1", "token": "t"}, {"id": "forward_output", "token": "unwind"})


def test_an_unconfirmed_reference_is_no_input() -> None:
    needs = Compensation(tool="cancel", required_fields=("reference",))
    flight = step("flight", 1, references=(Reference(value="seen", confirmed=False),))

    assert inputs_for(flight, needs) == Missing(("reference",))


def test_the_next_inverse_of_a_list_follows_only_after_an_error_that_leads_to_it() -> None:
    listed = (Compensation(tool="void", next_on=("too_late",)), Compensation(tool="refund"))
    pay = step("pay", 1, state=State.COMPENSATING, compensation=listed)

    def after(code: str) -> str | None:
        first = Operation(operation_id="compensate:pay", state=State.REJECTED, error_code=code, tool="void")
        found = chosen(group(pay, first), pay)
        return found.inverse_id if found else None

    assert after("too_late") == "compensate:pay:2"
    assert after("broken") == "compensate:pay"


def test_a_later_inverse_of_a_list_is_not_due_before_the_one_that_leads_to_it() -> None:
    listed = (Compensation(tool="void", next_on=("too_late",)), Compensation(tool="refund"))
    pay = step("pay", 1, compensation=listed)
    second = Operation(
        operation_id="compensate:pay:2",
        state=State.PREPARED,
        tool="refund",
        request_hash="h1",
        contract_text=contract_json(Contract(tool="refund", effect=Effect(kind="refund"))),
    )
    claimed = claim(asked_at_ms=NOW, answer_by_ms=NOW + 1_000)

    answer = decide(group(pay, second), second.operation_id, claimed, Facts(now_ms=NOW, claimed_at_ms=NOW))

    assert answer == Refused(reason=Refusal.NOT_DUE, detail={"comes_first": "compensate:pay"})


def test_an_inverse_that_leads_to_the_next_leaves_its_step_compensating_another_failure_hands_it_over() -> None:
    listed = (Compensation(tool="void", next_on=("too_late",)), Compensation(tool="refund"))

    def after(code: str) -> State:
        route = group(
            step("pay", 1, state=State.COMPENSATING, compensation=listed, confirmed_at_ms=1),
            Operation(operation_id="compensate:pay", state=State.DISPATCHED, tool="void"),
        )
        before = route.operations["compensate:pay"]
        rejected = replace(before, state=State.REJECTED, error_code=code)
        moved = replace(route, operations={**route.operations, "compensate:pay": rejected})
        body = event("outcome_rejected", "compensate:pay", event_id="e1", error_code=code)
        told = ev.Entry(event=body, position=ev.Position(partition=0, offset=1), at_ms=NOW, digest="d")
        return couple(moved, before, rejected, told)[0].operations["pay"].state

    assert after("too_late") is State.COMPENSATING
    assert after("broken") is State.ESCALATED


def test_what_unwind_said_about_an_inverse_fills_its_required_fields() -> None:
    flight = step("flight", 1, compensation=(Compensation(tool="refund", required_fields=("amount",)),))
    route = group(flight)

    assert [one.reason for one in planned(route).steps] == ["required_fields_missing"]
    told = replace(route, unwind_inputs='{"flight": {"amount": 5}}')
    assert [one.reason for one in planned(told).steps] == ["later_step_failed"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compensation": (), "no_inverse": True}, "irreversible"),
        ({"compensation": ()}, "skipped"),
        ({"compensation": (Compensation(tool="c", required_fields=("token",)),)}, "skipped"),
        ({"compensation": (Compensation(tool="c", expires_after=1.0),)}, "skipped"),
    ],
)
def test_a_step_that_automation_cannot_undo_is_escalated_once_nothing_is_unresolved(changes: dict[str, Any], reason: str) -> None:
    mail, pay = step("mail", 1, **changes), step("pay", 2, state=State.UNKNOWN)

    (escalation,) = consequences(group(mail), now_ms=NOW)
    assert isinstance(escalation, ev.OperationEscalated)
    assert (escalation.operation_id, escalation.reason) == ("mail", reason)
    assert consequences(group(mail, pay), now_ms=NOW) == ()
    assert consequences(group(step("mail", 1)), now_ms=NOW) == ()
