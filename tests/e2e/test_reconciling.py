"""From an honest `unknown` to evidence, on the real broker and database. Asserted: provider effects, event order, evidence."""

import threading
import time
from collections.abc import Callable
from typing import Any

from landed import Absent, Ambiguous, Confirmed, Escalated, Found, ProbeRequest, Refused, ToolRegistry, Unknown
from landed.core.contract import Effect, Probe
from landed.core.events import LeaseExpired, OperationEscalated, OutcomeConfirmed, ProbeRecorded
from landed.core.state import Operation
from landed.core.vocabulary import OnAbsent

from .conftest import World


class Provider:
    """A provider inside the test: its effects, and how it answers."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.looks = 0

    def commit(self, key: str) -> str:
        self.effects.append(key)
        return f"re_{len(self.effects)}"


def registry_of(
    provider: Provider, look: Callable[[ProbeRequest], Any], *, commits: bool = True, **contract: Any
) -> tuple[ToolRegistry, Any]:
    """A tool whose answer is always lost, with *look* as its probe."""
    registry = ToolRegistry()
    bounds = {
        "lease": 4.0,
        "first_check_after": 0.2,
        "backoff": 1.0,
        "max_interval": 0.2,
        "safe_window": 1.0,
        "max_checks": 20,
        **contract,
    }

    @registry.effect(
        tool="pay.refund",
        effect=Effect(kind="refund.create"),
        outcome_probe=Probe(tool="pay.find"),
        stored_args=("order",),
        reference_pattern=r"re_\d+",
        **bounds,
    )
    def refund(order: str, operation: str) -> dict[str, Any]:
        if commits:
            provider.commit(operation)
        raise TimeoutError("the answer was lost")

    @refund.probe
    def find(request: ProbeRequest) -> Any:
        provider.looks += 1
        return look(request)

    return registry, refund


def found(provider: Provider) -> Callable[[ProbeRequest], Any]:
    def look(request: ProbeRequest) -> Any:
        if request.operation_id not in provider.effects:
            return Absent()
        number = provider.effects.index(request.operation_id) + 1
        return Found(reference=f"re_{number}", matched_on=("operation_id",))

    return look


def test_a_lost_answer_is_settled_by_evidence_and_a_second_call_gets_the_receipt(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider))
    world.projector()
    world.reconciler(registry)
    ledger = world.ledger()
    first = ledger.perform(refund, operation_id="op-1", order="7", operation="op-1")
    assert isinstance(first, Unknown)
    assert first.retry_allowed is False
    world.until("op-1", "confirmed")
    second = ledger.perform(refund, operation_id="op-1", order="7", operation="op-1")
    assert isinstance(second, Confirmed)
    assert (second.repeated, second.reference) == (True, "re_1")
    assert provider.effects == ["op-1"]
    events = world.events("op-1")
    assert events == [
        "operation_prepared",
        "dispatch_granted",
        "outcome_unknown",
        "probe_recorded",
        "outcome_confirmed",
        "operation_prepared",
        "dispatch_refused",
    ]
    evidence = [one.event for one in world.entries("op-1") if isinstance(one.event, OutcomeConfirmed)]
    assert [(one.source, one.matched_on) for one in evidence] == [("probe", ["operation_id"])]


def test_absence_is_believed_only_after_the_safe_window(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider), commits=False, on_absent=OnAbsent.OFFER_RETRY, max_attempts=2)
    world.projector()
    world.reconciler(registry)
    result = world.ledger().perform(refund, operation_id="op-1", order="7", operation="op-1")
    assert isinstance(result, Unknown)
    operation = world.until("op-1", "not_found")
    entries = world.entries("op-1")
    ended = next(one.at_ms for one in entries if type(one.event).__name__ == "OutcomeUnknown")
    proven = next(one.at_ms for one in entries if type(one.event).__name__ == "AbsenceEstablished")
    assert proven - ended >= 1000, "absence was believed inside the safe window"
    assert provider.looks >= 2, "there was no look inside the window that proved nothing"
    assert provider.effects == []
    assert not operation.references


def test_an_effect_that_lands_late_is_found_and_not_taken_for_absent(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider), commits=False)
    world.projector()
    world.reconciler(registry)
    world.ledger().perform(refund, operation_id="op-1", order="7", operation="op-1")
    world.until("op-1", "reconciling")
    provider.commit("op-1")
    assert world.until("op-1", "confirmed").references[0].value == "re_1"


def test_proven_absence_goes_to_a_person_where_the_contract_says_so(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider), commits=False)
    world.projector()
    world.reconciler(registry)
    ledger = world.ledger()
    ledger.perform(refund, operation_id="op-1", order="7", operation="op-1")
    operation = world.until("op-1", "escalated")
    assert operation.escalated_for == "absent"
    assert operation.review is not None
    assert world.events("op-1")[-3:] == ["probe_recorded", "absence_established", "operation_escalated"]
    again = ledger.perform(refund, operation_id="op-1", order="7", operation="op-1")
    assert isinstance(again, Escalated)
    assert provider.effects == []


def test_a_lease_that_ran_out_is_settled_by_evidence(world: World) -> None:
    """The caller is gone: nobody recorded an outcome, as after kill -9."""
    provider = Provider()
    registry, refund = registry_of(provider, found(provider))
    world.projector()
    ledger = world.ledger()
    from landed import Execute, intent_of

    begun = ledger.begin(intent_of(refund.contract, {"order": "7", "operation": "op-1"}, operation_id="op-1"))
    assert isinstance(begun, Execute)
    assert ledger.start(begun) is None
    provider.commit("op-1")
    ledger.close()
    world.reconciler(registry)
    world.until("op-1", "confirmed")
    entries = world.entries("op-1")
    expired = next(one for one in entries if isinstance(one.event, LeaseExpired))
    assert isinstance(expired.event, LeaseExpired)
    assert expired.at_ms > expired.event.lease_end_ms
    assert world.events("op-1")[-3:] == ["lease_expired", "probe_recorded", "outcome_confirmed"]
    assert provider.effects == ["op-1"]


def hopeless(world: World, look: Callable[[ProbeRequest], Any], **contract: Any) -> tuple[Operation, list[Any]]:
    provider = Provider()
    registry, refund = registry_of(provider, look, **{"max_checks": 3, **contract})
    world.projector()
    world.reconciler(registry)
    world.ledger().perform(refund, operation_id="op-1", order="7", operation="op-1")
    operation = world.until("op-1", "escalated")
    return operation, [one.event for one in world.entries("op-1")]


def test_a_probe_that_raises_is_recorded_without_its_text_and_bounded(world: World) -> None:
    def look(request: ProbeRequest) -> Any:
        raise RuntimeError("card 4242 4242 of Jane Roe")

    operation, events = hopeless(world, look)
    assert operation.escalated_for == "probes_exhausted"
    looks = [one for one in events if isinstance(one, ProbeRecorded)]
    assert [one.result for one in looks] == ["error"] * 3
    assert all("RuntimeError" in (one.evidence or "") for one in looks)
    assert not any("4242" in str(one) for one in events), "the text of an error is on the log"


def test_a_probe_that_hangs_is_bounded_in_time(world: World) -> None:
    woken = threading.Event()

    def look(request: ProbeRequest) -> Any:
        woken.wait(30)
        return Absent()

    began = time.monotonic()
    try:
        operation, events = hopeless(world, look, max_checks=2)
    finally:
        woken.set()
    assert operation.escalated_for == "probes_exhausted"
    assert [one.result for one in events if isinstance(one, ProbeRecorded)] == ["error"] * 2
    assert time.monotonic() - began < 25


def test_a_probe_that_answers_garbage_proves_nothing(world: World) -> None:
    operation, events = hopeless(world, lambda request: {"status": "succeeded"})
    assert operation.escalated_for == "probes_exhausted"
    assert [one.result for one in events if isinstance(one, ProbeRecorded)] == ["error"] * 3


def test_a_similar_record_is_no_proof(world: World) -> None:
    operation, _ = hopeless(world, lambda request: Found(reference="re_1", matched_on=("amount",)))
    assert operation.escalated_for == "conflict"
    assert not operation.references


def test_a_reference_without_the_declared_form_is_no_evidence(world: World) -> None:
    operation, _ = hopeless(world, lambda request: Found(reference="javascript:alert(1)", matched_on=("operation_id",)))
    assert operation.escalated_for == "conflict"


def test_an_ambiguous_answer_goes_to_a_person_with_the_reason(world: World) -> None:
    operation, events = hopeless(world, lambda request: Ambiguous("two candidates"))
    assert operation.escalated_for == "conflict"
    assert any("two candidates" in (one.evidence or "") for one in events if isinstance(one, ProbeRecorded))


def test_a_probe_that_is_not_registered_leaves_the_operation_to_a_person(world: World) -> None:
    provider = Provider()
    _, refund = registry_of(provider, found(provider))
    world.projector()
    world.reconciler(ToolRegistry())
    world.ledger().perform(refund, operation_id="op-1", order="7", operation="op-1")
    world.until("op-1", "escalated")
    reasons = [one.event.reason for one in world.entries("op-1") if isinstance(one.event, OperationEscalated)]
    assert reasons == ["no_probe"]


def test_two_reconcilers_give_one_terminal_state(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider))
    world.projector()
    for _ in range(2):
        world.reconciler(registry)
    ledger = world.ledger()
    for number in range(10):
        ledger.perform(refund, operation_id=f"op-{number}", order=str(number), operation=f"op-{number}")
    for number in range(10):
        operation = world.until(f"op-{number}", "confirmed")
        states = [row.state for row in world.rows(f"op-{number}") if row.accepted]
        assert states.count("confirmed") == len(states) - states.index("confirmed"), "it left `confirmed` again"
        # What the slower one appends is a repeat: the reference is on record already.
        assert [one.value for one in operation.references] == [f"re_{provider.effects.index(f'op-{number}') + 1}"]
        assert (operation.marks, operation.review) == ((), None)
    assert sorted(provider.effects) == [f"op-{number}" for number in range(10)]


def test_what_is_in_doubt_survives_a_restart_of_the_reconciler(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider), first_check_after=1.5)
    world.projector()
    first = world.reconciler(registry)
    world.ledger().perform(refund, operation_id="op-1", order="7", operation="op-1")
    first.end()
    assert world.operation("op-1").state == "unknown"
    world.reconciler(registry)
    world.until("op-1", "confirmed")


def test_an_operation_in_doubt_is_never_sent_again_by_its_caller(world: World) -> None:
    provider = Provider()
    registry, refund = registry_of(provider, found(provider), first_check_after=600.0, max_interval=600.0)
    world.projector()
    world.reconciler(registry)
    ledger = world.ledger()
    results = [ledger.perform(refund, operation_id="op-1", order="7", operation="op-1") for _ in range(3)]
    assert [type(one) for one in results] == [Unknown] * 3
    other = ledger.perform(refund, operation_id="op-1", order="8", operation="op-1")
    assert isinstance(other, Refused)
    assert other.reason == "request_mismatch"
    assert provider.effects == ["op-1"]
