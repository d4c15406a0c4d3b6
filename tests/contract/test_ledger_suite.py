"""One suite for the two ports and the SDK on them: it runs on the in-memory ledger and on Kafka with a projector.

A further backend is one more name in `BACKENDS` and a branch in the fixture.
"""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import pytest

from landed.core import events as ev
from landed.core.contract import Contract, Effect, contract_json
from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal
from landed.ports import EventLog, NothingAppended, VerdictInbox
from landed.sdk.results import Confirmed, Refused, Unknown
from landed.sdk.tools import effect
from landed.wire.ids import with_event_id

from .ledger_backends import Backend, Memory, kafka_backend

BACKENDS = ("memory", "kafka")
TENANT = "acme"
WAIT_S = 20.0
CONTRACT = contract_json(Contract(tool="refund", effect=Effect(kind="refund.create"), lease=60.0))


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        yield Memory()
    else:
        with kafka_backend(request.getfixturevalue("servers")) as kafka:
            yield kafka


@pytest.fixture
def opened(backend: Backend) -> Iterator[tuple[EventLog, VerdictInbox]]:
    log, inbox = backend.open()
    yield log, inbox
    log.close(5.0)
    inbox.close()


@pytest.fixture
def op() -> str:
    return f"op-{uuid.uuid4().hex[:12]}"


def prepared(op: str, inbox: VerdictInbox, *, claim_id: str | None = None, **changes: Any) -> ev.OperationPrepared:
    claim = ev.Claim(
        claim_id=claim_id or uuid.uuid4().hex,
        request_hash="h1",
        worker="worker-1",
        reply_to=inbox.reply_to,
        lease_ms=60_000,
        asked_at_ms=0,
        answer_by_ms=30_000,
    )
    event = ev.OperationPrepared(
        event_id="",
        tenant_id=TENANT,
        route=op,
        operation_id=op,
        actor="worker-1",
        tool="refund",
        request_hash="h1",
        argument_digests={},
        contract=CONTRACT,
        contract_digest="d",
        effect_type="refund.create",
        compensation=[],
        claim=claim,
        **changes,
    )
    return with_event_id(event)


def released(event: ev.OperationPrepared) -> ev.DispatchReleased:
    assert event.claim is not None
    return with_event_id(
        ev.DispatchReleased(
            event_id="",
            tenant_id=TENANT,
            route=event.route,
            operation_id=event.operation_id,
            actor="worker-1",
            claim_id=event.claim.claim_id,
            why="no verdict in time",
        )
    )


def ask(log: EventLog, inbox: VerdictInbox, event: ev.OperationPrepared) -> Future[Verdict]:
    assert event.claim is not None
    verdict = inbox.expect(event.claim.claim_id)
    log.append(event).result(WAIT_S)
    return verdict


# ---- the log ----------------------------------------------------------------------------------------------------------


def test_appends_of_one_route_are_acknowledged_in_the_order_of_the_calls(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    futures = [log.append(prepared(op, inbox)) for _ in range(20)]
    acknowledged = [future.result(WAIT_S) for future in futures]
    offsets = [one.position.offset for one in acknowledged]
    assert offsets == sorted(set(offsets))
    assert len({one.position.partition for one in acknowledged}) == 1
    times = [one.at_ms for one in acknowledged]
    assert times == sorted(times)
    assert times[0] > 0


def test_an_event_that_cannot_be_written_is_certainly_not_on_the_log(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    bad = prepared(op, inbox, step="a step")
    broken = type(bad)(**{**{name: getattr(bad, name) for name in bad.__struct_fields__}, "step": "\ud800"})
    future = log.append(broken)
    with pytest.raises(NothingAppended):
        future.result(WAIT_S)


def test_the_same_claim_appended_twice_is_decided_once(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    """An append whose acknowledgement was lost is repeated: same event, another record, one decision."""
    log, inbox = opened
    event = prepared(op, inbox)
    verdict = ask(log, inbox, event)
    log.append(event).result(WAIT_S)
    granted = verdict.result(WAIT_S)
    assert granted.attempt == 1
    other = ask(log, inbox, prepared(op, inbox)).result(WAIT_S)
    assert (other.reason, other.detail["attempt"]) == (Refusal.IN_FLIGHT, "1")


# ---- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_claim_is_answered_to_whoever_expects_it(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    event = prepared(op, inbox)
    verdict = ask(log, inbox, event).result(WAIT_S)
    assert event.claim is not None
    assert (verdict.claim_id, verdict.operation_id, verdict.tenant_id) == (event.claim.claim_id, op, TENANT)
    assert (verdict.granted, verdict.attempt, verdict.lease_ms, verdict.state) == (True, 1, 60_000, "dispatched")
    assert verdict.at_ms > 0
    assert verdict.version == 2


def test_each_of_two_instances_gets_its_own_verdict(backend: Backend, opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    other_log, other_inbox = backend.open()
    first = ask(log, inbox, prepared(op, inbox)).result(WAIT_S)
    second = ask(other_log, other_inbox, prepared(op, other_inbox)).result(WAIT_S)
    assert first.granted
    assert second.reason is Refusal.IN_FLIGHT
    other_log.close(5.0)
    other_inbox.close()


def test_a_forgotten_claim_is_answered_to_nobody_and_the_inbox_goes_on(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    event = prepared(op, inbox)
    assert event.claim is not None
    verdict = inbox.expect(event.claim.claim_id)
    inbox.forget(event.claim.claim_id)
    inbox.forget(event.claim.claim_id)
    log.append(event).result(WAIT_S)
    assert ask(log, inbox, prepared(op, inbox)).result(WAIT_S).reason is Refusal.IN_FLIGHT
    with pytest.raises(FutureTimeout):
        verdict.result(0)


def test_a_withdrawn_claim_is_never_granted(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    """The release overtook the claim on its way: whatever the order, nothing may be called under it."""
    log, inbox = opened
    event = prepared(op, inbox)
    log.append(released(event)).result(WAIT_S)
    verdict = ask(log, inbox, event)
    other = ask(log, inbox, prepared(op, inbox)).result(WAIT_S)
    assert other.attempt == 1, "the withdrawn claim took no attempt"
    with pytest.raises(FutureTimeout):
        verdict.result(0)


def test_of_many_claims_for_one_operation_exactly_one_is_granted(opened: tuple[EventLog, VerdictInbox], op: str) -> None:
    log, inbox = opened
    events = [prepared(op, inbox) for _ in range(50)]
    futures = [inbox.expect(event.claim.claim_id) for event in events if event.claim is not None]
    for event in events:
        log.append(event)
    verdicts = [future.result(WAIT_S) for future in futures]
    assert sum(verdict.granted for verdict in verdicts) == 1
    assert {verdict.reason for verdict in verdicts if not verdict.granted} == {Refusal.IN_FLIGHT}


# ---- the SDK on both --------------------------------------------------------------------------------------------------


def test_an_operation_is_performed_once_and_answered_with_its_receipt_ever_after(backend: Backend, op: str) -> None:
    calls: list[str] = []

    @effect(effect="refund.create", reference_field="id", receipt_fields=("id",), business_key="refund:{order_id}")
    def refund(order_id: str) -> dict[str, str]:
        calls.append(order_id)
        return {"id": f"re_{len(calls)}"}

    with backend.connect(TENANT, wait=WAIT_S) as ledger:
        first = ledger.perform(refund, order_id=op)
        again = ledger.perform(refund, order_id=op)
    with backend.connect(TENANT, wait=WAIT_S) as other:
        later = other.perform(refund, order_id=op)
    assert isinstance(first, Confirmed)
    assert isinstance(again, Confirmed)
    assert isinstance(later, Confirmed)
    assert (first.receipt, again.receipt, later.receipt) == ({"id": "re_1"},) * 3
    assert (first.repeated, again.repeated, later.repeated) == (False, True, True)
    assert first.at_ms == again.at_ms == later.at_ms
    assert calls == [op]


def test_a_lost_answer_is_unknown_to_every_process(backend: Backend, op: str) -> None:
    @effect(effect="refund.create")
    def refund() -> None:
        raise ConnectionResetError

    with backend.connect(TENANT, wait=WAIT_S) as ledger:
        first = ledger.perform(refund, operation_id=op)
    with backend.connect(TENANT, wait=WAIT_S) as other:
        again = other.perform(refund, operation_id=op)
    assert isinstance(first, Unknown)
    assert isinstance(again, Unknown)
    assert (first.reason, again.reason) == ("ConnectionResetError", "unresolved")


def test_a_group_that_unwinds_takes_no_step_any_more(backend: Backend, op: str) -> None:
    @effect(effect="refund.create")
    def refund(number: int) -> dict[str, str]:
        return {"id": "re_1"}

    with backend.connect(TENANT, wait=WAIT_S) as ledger, ledger.group(op, workflow_type="trip") as group:
        first = group.perform(refund, step="a", number=1)
        group.unwind("later_step_failed")
        refused = group.perform(refund, step="b", number=2)
    assert isinstance(first, Confirmed)
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.GROUP_UNWINDING


def test_a_lease_is_renewed_while_the_call_runs(backend: Backend, op: str) -> None:
    @effect(effect="refund.create", lease=1.0)
    def refund() -> dict[str, str]:
        threading.Event().wait(2.5)
        return {"id": "re_1"}

    with backend.connect(TENANT, wait=WAIT_S) as ledger:
        assert isinstance(ledger.perform(refund, operation_id=op), Confirmed)
        assert isinstance(ledger.perform(refund, operation_id=op), Confirmed)


def test_concurrent_performs_of_one_process_are_all_answered(backend: Backend, op: str) -> None:
    effects: set[str] = set()

    @effect(effect="refund.create")
    def refund(name: str) -> dict[str, str]:
        effects.add(name)
        return {"id": name}

    with backend.connect(TENANT, wait=60.0) as ledger, ThreadPoolExecutor(64) as pool:
        names = [f"{op}:{number}" for number in range(300)]
        results = list(pool.map(lambda name: ledger.perform(refund, operation_id=name, name=name), names))
    assert all(isinstance(result, Confirmed) and not result.repeated for result in results)
    assert effects == set(names)
