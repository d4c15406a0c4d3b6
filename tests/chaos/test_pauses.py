"""Callers stopped (SIGSTOP) beyond their lease and woken, many callers of one operation, deliveries that come again or late."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from landed import Confirmed, Refused
from landed.core import events as ev

from .conftest import Chaos, go_on, one_effect_each, wait_for_state

pytestmark = pytest.mark.timeout(300)


class Woken(msgspec.Struct, frozen=True, kw_only=True):
    """A caller stopped at a point until its operation was settled without it."""

    point: str
    tool: str = "pay"
    state_without_it: str
    told: tuple[str, str]
    """Result and reason that it gets in the end."""
    story: list[str]


WOKEN = [
    # Another caller has performed meanwhile; the lease is over, so nothing is called, and the release comes too late to count.
    Woken(
        point="sdk.verdict_received",
        state_without_it="not_found",
        told=("Refused", "ledger_unavailable"),
        story=["dispatch_granted", "lease_expired", "absence_established", "dispatch_granted", "outcome_confirmed"],
    ),
    # Between the check and the call nothing can help: a contract without another attempt has one dispatch ever, so one effect.
    Woken(
        point="sdk.before_call",
        tool="pay.once",
        state_without_it="escalated",
        told=("Unknown", "lease_over"),
        story=["dispatch_granted", "lease_expired", "absence_established", "operation_escalated", "outcome_confirmed"],
    ),
    Woken(
        point="sdk.after_call",
        state_without_it="confirmed",
        told=("Unknown", "lease_over"),
        story=["dispatch_granted", "lease_expired", "outcome_confirmed", "outcome_confirmed"],
    ),
    Woken(
        point="sdk.before_outcome",
        state_without_it="confirmed",
        told=("Unknown", "lease_over"),
        story=["dispatch_granted", "lease_expired", "outcome_confirmed", "outcome_confirmed"],
    ),
]


def test_a_caller_that_wakes_after_its_lease_does_no_harm(chaos: Chaos) -> None:
    chaos.projector()
    chaos.reconciler(chaos.tools.registry)
    ledger = chaos.ledger()

    def woken(one: Woken) -> tuple[str, str]:
        operation_id = f"op-{one.point}"
        named = {"operation_id": operation_id, "tool": one.tool, "worker": "sleeper"}
        with chaos.process("caller", point=f"{one.point}:stop", **named) as process:
            wait_for_state(process, "T")
            settled = chaos.until_settled(operation_id)
            if one.tool == "pay.once":
                deadline = time.monotonic() + 60
                while (settled := chaos.operation(operation_id)).state == "not_found" and time.monotonic() < deadline:
                    time.sleep(0.1)
            assert settled.state == one.state_without_it
            again = ledger.perform(chaos.tools.named(one.tool), operation_id=operation_id, retry=True)
            assert isinstance(again, Confirmed) or one.tool == "pay.once"
            go_on(process)
            said, _ = process.communicate(timeout=60)
        told = json.loads(said)
        return told["result"], told["reason"]

    with ThreadPoolExecutor(len(WOKEN)) as pool:
        told = list(pool.map(woken, WOKEN))
    chaos.assert_whole()
    operations = chaos.folded()
    for one, (result, reason) in zip(WOKEN, told, strict=True):
        operation_id = f"op-{one.point}"
        assert (result, reason) == one.told, one.point
        assert chaos.story(operation_id) == one.story
        operation = operations[operation_id]
        assert (operation.state, operation.marks, operation.review, len(operation.references)) == ("confirmed", (), None, 1)
    one_effect_each(chaos.provider, (f"op-{one.point}" for one in WOKEN))


OPERATIONS, PROCESSES, THREADS = 200, 4, 6


def test_two_hundred_operations_of_twenty_four_callers_in_several_processes_are_dispatched_once_each(chaos: Chaos) -> None:
    operation_ids = [f"op-{number}" for number in range(OPERATIONS)]
    told: dict[str, int] = {}
    with chaos.process("projector"), ExitStack() as stack:
        given: dict[str, Any] = {"operation_ids": operation_ids, "threads": THREADS, "tool": "pay.patient", "wait": 60.0}
        crowds = [stack.enter_context(chaos.process("crowd", worker=f"crowd-{n}", **given)) for n in range(PROCESSES)]
        for crowd in crowds:
            said, _ = crowd.communicate(timeout=100)
            for result, count in json.loads(said).items():
                told[result] = told.get(result, 0) + count
        chaos.assert_whole()
    assert sum(told.values()) == OPERATIONS * PROCESSES * THREADS
    assert set(told) <= {"Confirmed", "Unknown in_flight"}, told
    one_effect_each(chaos.provider, operation_ids)
    granted = [str(one.event.operation_id) for one in chaos.entries() if isinstance(one.event, ev.DispatchGranted)]
    assert sorted(granted) == sorted(operation_ids), "not exactly one dispatch each"


def test_events_that_are_delivered_again_or_late_change_nothing(chaos: Chaos) -> None:
    """Every event of the log appended once more, in reverse order, as a sender would that never saw an acknowledgement."""
    chaos.projector()
    chaos.reconciler(chaos.tools.registry)
    ledger = chaos.ledger()
    ledger.perform(chaos.tools.named("pay"), operation_id="op-done")
    ledger.perform(chaos.tools.named("pay.unanswered"), operation_id="op-lost")
    chaos.until_settled("op-lost")
    chaos.wait_for_end()
    before, entries = chaos.folded(), chaos.entries()
    for entry in reversed(entries):
        ledger.parts.log.append(entry.event).result(10)
    chaos.assert_whole()
    assert len(chaos.entries()) == 2 * len(entries), "a claim that came again was decided again, or an operation looked up again"
    assert chaos.folded() == before
    assert [row.reason for name in before for row in chaos.rows(name) if not row.accepted] == ["repeated"] * len(entries)
    one_effect_each(chaos.provider, before)


def test_the_same_operation_with_other_arguments_is_refused_in_every_state(chaos: Chaos) -> None:
    from landed import effect

    @effect(tool="pay", effect="payment.create")
    def pay(amount: int) -> dict[str, str]:
        raise AssertionError("called with other arguments")

    chaos.projector()
    chaos.reconciler(chaos.tools.registry)
    ledger = chaos.ledger()
    ledger.perform(chaos.tools.named("pay"), operation_id="op-confirmed")
    code, _ = chaos.caller("op-dispatched", point="sdk.before_call")
    assert code == -9
    for operation_id in ("op-dispatched", "op-confirmed", "op-dispatched"):
        other = ledger.perform(pay, operation_id=operation_id, amount=7)
        assert isinstance(other, Refused)
        assert other.reason == "request_mismatch"
        chaos.until_settled("op-dispatched")
    assert chaos.provider.effects() == {"op-confirmed": 1}


def test_a_slow_projector_costs_its_callers_an_answer_and_never_an_effect(chaos: Chaos, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log runs ahead of a projector that takes a few records at a time: who is not answered in time is not called."""
    from landed_services.projector import session
    from landed_services.projector.store import Store

    advance, slow = Store.advance, [True]

    def slowly(self: Store, *given: object) -> object:
        time.sleep(0.2 if slow else 0.0)
        return advance(self, *given)  # type: ignore[arg-type]

    tool, operation_ids = chaos.tools.named("pay.patient"), [f"op-{number}" for number in range(60)]
    with monkeypatch.context() as patched:
        patched.setattr(session, "RECORDS_MAX", 3)
        patched.setattr(Store, "advance", slowly)
        chaos.projector()
        patient, hasty = chaos.ledger(wait=60.0), chaos.ledger(wait=1.0)
        slow_and_well = [patient.perform(tool, operation_id=f"patient-{number}") for number in range(3)]
        assert [type(one) for one in slow_and_well] == [Confirmed] * 3
        with ThreadPoolExecutor(60) as pool:
            first = list(pool.map(lambda one: hasty.perform(tool, operation_id=one), operation_ids))
        effects = chaos.provider.effects()
        late = [one for one in first if isinstance(one, Refused)]
        assert late, "it was not slow at all"
        assert {one.reason for one in late} == {"ledger_unavailable"}
        assert all(effects[one.operation_id] == 0 for one in late)
        assert all(effects[one.operation_id] == 1 for one in first if isinstance(one, Confirmed))
        slow.clear()
        patched.setattr(session, "RECORDS_MAX", 4_000)
        chaos.wait_for_end()
        # Granted too late, and given back: nobody is left holding a lease.
        assert {one.state for one in chaos.folded().values()} == {"prepared", "confirmed"}
        with ThreadPoolExecutor(20) as pool:
            second = list(pool.map(lambda one: patient.perform(tool, operation_id=one), operation_ids))
    assert [one for one in second if not isinstance(one, Confirmed)] == []
    one_effect_each(chaos.provider, operation_ids)
    chaos.assert_whole()
