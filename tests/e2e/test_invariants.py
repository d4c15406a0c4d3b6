"""What always holds, one test each, on the real broker and database: recorded evidence, order of events, the sentence shown."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from landed import Ambiguous, Confirmed, ProbeRequest, Refused, ToolRegistry, Unknown
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.contract import Effect, Probe
from landed.core.wording import sentence
from landed.testing.fault_proxy import CommitThenDrop, Delay, FaultProxy, Reset
from landed.testing.faulty_provider import FaultyProvider

from .conftest import World
from .shop import TERMS_OF, shop
from .test_found_by_others import DONE, LOST, Shop, assert_done_once, assert_found_by_a_look, tool_of


@pytest.fixture
def shopped(world: World) -> Iterator[Shop]:
    with FaultyProvider(honours_key=False) as provider:
        port = int(provider.url.rpartition(":")[2])
        with FaultProxy("127.0.0.1", port) as proxy:
            yield Shop(world, provider, proxy)


def test_the_same_id_with_changed_input_is_refused(shopped: Shop) -> None:
    tool = shopped.open()
    ledger = shopped.world.ledger()
    assert isinstance(ledger.perform(tool, operation_id="op-1", order="7", amount=50), Confirmed)
    other = ledger.perform(tool, operation_id="op-1", order="7", amount=51)
    assert isinstance(other, Refused)
    assert other.reason == "request_mismatch"
    (refused,) = shopped.said(ev.DispatchRefused)
    assert refused.reason == "request_mismatch"
    hashes = [one.event.request_hash for one in shopped.world.entries("op-1") if isinstance(one.event, ev.OperationPrepared)]
    assert len(set(hashes)) == 2
    rows = [(row.event, row.accepted, row.reason) for row in shopped.world.rows("op-1")]
    assert rows == [
        ("operation_prepared", True, None),
        ("dispatch_granted", True, None),
        ("outcome_confirmed", True, None),
        ("operation_prepared", False, "request_mismatch"),
        ("dispatch_refused", True, None),
    ]
    operation = shopped.world.operation("op-1")
    assert operation.request_hash == hashes[0]
    assert_done_once(shopped, operation)


def test_a_timeout_gives_unknown_and_never_an_automatic_replay(shopped: Shop) -> None:
    """By the SDK: no reconciler runs, and nothing else sends."""
    registry_tool = tool_of(shop(shopped.proxy.url, "retried"))
    shopped.world.projector()
    shopped.proxy.arm(Delay(1.6, after_commit=True), method="POST")
    result = shopped.charge(registry_tool)
    assert isinstance(result, Unknown)
    assert (result.retry_allowed, result.next_check_at_ms is not None) == (False, True)
    again = shopped.charge(registry_tool, retry=True)
    assert isinstance(again, Unknown)
    time.sleep(2.0)
    (doubt,) = shopped.said(ev.OutcomeUnknown)
    assert (doubt.error_class, doubt.bytes_left, doubt.reference) == ("TimeoutError", "unknown", None)
    assert shopped.story() == [
        "operation_prepared",
        "dispatch_granted",
        "outcome_unknown",
        "operation_prepared",
        "dispatch_refused",
    ]
    assert shopped.requests == 1
    told = sentence(shopped.world.operation("op-1"))
    assert told == "It is not certain whether it happened. It is not sent again; the provider is being asked."


def test_a_read_that_finds_a_receipt_gives_confirmed_without_a_second_dispatch(shopped: Shop) -> None:
    tool = shopped.open("retried")
    shopped.proxy.arm(CommitThenDrop(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    operation = shopped.world.until("op-1", "confirmed")
    assert [one.attempt for one in shopped.said(ev.DispatchGranted)] == [1]
    assert shopped.story() == LOST
    assert_found_by_a_look(shopped)
    assert_done_once(shopped, operation)


def test_absence_enables_a_retry_only_after_the_window(shopped: Shop) -> None:
    tool = shopped.open("retried")
    shopped.proxy.arm(Reset(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    shopped.world.until("op-1", "reconciling")
    early = shopped.charge(tool, retry=True)
    assert isinstance(early, Unknown), "a retry was admitted inside the window"
    operation = shopped.world.until("op-1", "confirmed")
    (ended,), (proven,) = shopped.at_ms(ev.OutcomeUnknown), shopped.at_ms(ev.AbsenceEstablished)
    (requested,) = shopped.at_ms(ev.DispatchRequested)
    assert proven - ended >= 2_000
    assert requested >= proven
    (absence,) = shopped.said(ev.AbsenceEstablished)
    assert (absence.read_kind, absence.safe_window_ms, absence.attempt) == ("authoritative", 2_000, 1)
    (claim,) = [one.claim for one in shopped.said(ev.DispatchRequested)]
    assert (claim.replay, claim.replay_reason, claim.request_hash) == (True, "absent", operation.request_hash)
    assert [name for name in shopped.story() if name not in ("operation_prepared", "dispatch_refused", "probe_recorded")] == [
        "dispatch_granted",
        "outcome_unknown",
        "absence_established",
        "dispatch_requested",
        "dispatch_granted",
        "outcome_confirmed",
    ]
    assert_done_once(shopped, operation, requests=2)


def test_an_offered_retry_is_granted_to_a_claim_that_asks_for_it_and_to_no_other(shopped: Shop) -> None:
    tool = shopped.open("offered")
    shopped.proxy.arm(Reset(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    waiting = shopped.world.until("op-1", "not_found")
    assert sentence(waiting) == "It was proven that nothing happened. Nothing is sent by itself."
    refused = shopped.charge(tool)
    assert isinstance(refused, Refused)
    assert refused.reason == "retry_offered"
    taken = shopped.charge(tool, retry=True)
    assert isinstance(taken, Confirmed)
    assert [name for name in shopped.story() if name != "probe_recorded"] == [
        "operation_prepared",
        "dispatch_granted",
        "outcome_unknown",
        "absence_established",
        "operation_prepared",
        "dispatch_refused",
        "operation_prepared",
        "dispatch_granted",
        "outcome_confirmed",
    ]
    assert_done_once(shopped, shopped.world.operation("op-1"), requests=2)


def test_two_workers_give_one_terminal_state(shopped: Shop) -> None:
    tool = shopped.open()
    shopped.proxy.arm(Delay(0.8), method="POST")
    ledgers = [shopped.world.ledger(worker=f"worker-{number}") for number in range(2)]

    def work(number: int) -> Any:
        return ledgers[number].perform(tool, operation_id="op-1", order="7", amount=50)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(work, 0)
        shopped.proxy.wait_for(lambda seen: any(one.method == "POST" for one in seen), timeout_s=20.0)
        told = [work(1), first.result()]
    assert [type(one) for one in told] == [Unknown, Confirmed]
    (in_flight,) = [one for one in told if isinstance(one, Unknown)]
    assert in_flight.reason == "in_flight"
    later = [work(number) for number in range(2)]
    assert {(type(one), one.repeated) for one in later} == {(Confirmed, True)}
    assert [one.attempt for one in shopped.said(ev.DispatchGranted)] == [1]
    assert [one.reason for one in shopped.said(ev.DispatchRefused)] == ["in_flight", "already_confirmed", "already_confirmed"]
    states = [row.state for row in shopped.world.rows("op-1") if row.accepted]
    assert states.count("confirmed") == len(states) - states.index("confirmed"), "it left `confirmed` again"
    assert_done_once(shopped, shopped.world.operation("op-1"))


def test_a_resumed_workflow_uses_existing_operations(shopped: Shop) -> None:
    tool = shopped.open()
    steps = ["first", "second", "third"]

    def run(worker: str, upto: int) -> list[Any]:
        group = shopped.world.ledger(worker=worker).group("trip-1", workflow_type="trip")
        return [group.perform(tool, step=step, order=step, amount=50) for step in steps[:upto]]

    first = run("before-the-crash", 2)
    second = run("after-the-crash", 3)
    assert [one.repeated for one in first] == [False, False]
    assert [one.repeated for one in second] == [True, True, False]
    assert [one.reference for one in second] == ["ef_1", "ef_2", "ef_3"]
    assert [one["order"] for one in shopped.provider.effects] == steps
    assert shopped.requests == 3
    for step in steps:
        name = f"trip-1:{step}"
        granted = [one.event for one in shopped.world.entries(name) if isinstance(one.event, ev.DispatchGranted)]
        assert [one.attempt for one in granted] == [1]
        operation = shopped.world.operation(name)
        assert (operation.state, sentence(operation)) == ("confirmed", DONE)
    repeated = [name for name in shopped.world.events("trip-1:first") if name != "group_opened"]
    assert repeated == ["operation_prepared", "dispatch_granted", "outcome_confirmed", "operation_prepared", "dispatch_refused"]


PLANTED = "REASONING: the customer Jane Roe, card 4242, sounded angry, so I refund twice"


def test_an_escalation_holds_redacted_evidence_and_nothing_of_a_planted_reasoning_trace(world: World) -> None:
    registry = ToolRegistry()

    @registry.effect(
        tool="shop.charge",
        effect=Effect(kind="charge.create"),
        stored_args=("order",),
        free_text_args=("note",),
        **{**TERMS_OF["looked_up"], "outcome_probe": Probe(tool="shop.find"), "max_checks": 3},
    )
    def charge(order: str, note: str) -> dict[str, Any]:
        raise TimeoutError(note)

    @charge.probe
    def find(request: ProbeRequest) -> Any:
        assert "note" not in request.stored_args
        if request.attempt and len(looks) < 1:
            looks.append(request)
            raise RuntimeError(PLANTED)
        return Ambiguous("two candidates")

    looks: list[ProbeRequest] = []
    world.projector()
    world.reconciler(registry)
    result = world.ledger().perform(charge, operation_id="op-1", order="7", note=PLANTED)
    assert isinstance(result, Unknown)
    operation = world.until("op-1", "escalated")
    entries = [one.event for one in world.entries("op-1")]
    (told,) = [one for one in entries if isinstance(one, ev.OperationEscalated)]
    assert (told.reason, told.queue, told.choices != []) == ("conflict", "default", True)
    evidence = json.loads(told.evidence or "{}")
    assert (evidence["why"], evidence["looks"], evidence["last_look"], evidence["attempts"]) == (
        "two candidates",
        2,
        "ambiguous",
        1,
    )
    seen = [(one.result, json.loads(one.evidence or "{}")) for one in entries if isinstance(one, ev.ProbeRecorded)]
    assert seen == [("error", {"error": "RuntimeError"}), ("ambiguous", {"reason": "two candidates"})]
    assert operation.review is not None
    assert sentence(operation) == "Automation stopped and a person decides, with the evidence. Nothing is sent until then."
    assert world.events("op-1") == [
        "operation_prepared",
        "dispatch_granted",
        "outcome_unknown",
        "probe_recorded",
        "probe_recorded",
        "operation_escalated",
    ]
    with connect(world.view) as connection:
        kept = connection.execute("SELECT value FROM events UNION ALL SELECT body FROM operations").fetchall()
    assert kept
    for word in (b"REASONING", b"Jane", b"4242"):
        assert not [value for (value,) in kept if word in bytes(value)], f"{word!r} is on the log or in the view"
