"""A caller that waits for a person is told and claims anew, asks again when it hears nothing, and waits as long as allowed."""

import asyncio
import threading
import time
from typing import Any

import pytest

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.core.due import due_at_ms
from landed.core.identity import RequestError
from landed.core.policy import policy_route
from landed.core.reconciliation import Append, next_step
from landed.core.verdict import Verdict
from landed.core.vocabulary import Decision, Refusal, State
from landed.sdk import protocol
from landed.sdk.async_ledger import AsyncLedger
from landed.sdk.errors import ContractError
from landed.sdk.ledger import Ledger
from landed.sdk.registry import ToolRegistry
from landed.sdk.results import Confirmed, Refused, Unknown
from landed.sdk.tools import without_contract
from landed.wire.ids import with_event_id

from .support import TENANT, Counted

DIGEST = "0" * 64


class Deaf(MemoryLedger):
    """Tells nobody that a person decided, as a projector that was restarted meanwhile."""

    def expect(self, claim_id: str) -> Any:
        future = super().expect(claim_id)
        if claim_id in self.seen:
            self.forget(claim_id)
        self.seen.add(claim_id)
        return future

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()


def policy(memory: MemoryLedger, text: str) -> None:
    memory.append(
        with_event_id(
            ev.PolicyChanged(
                event_id="",
                tenant_id=TENANT,
                route=policy_route("tool:refund"),
                actor="anna",
                scope="tool:refund",
                new=text,
                who="anna",
                why="audit",
            )
        )
    )


def approve(memory: MemoryLedger, operation_id: str = "op") -> None:
    (asked,) = memory.state(operation_id).approvals
    memory.append(
        with_event_id(
            ev.ApprovalDecided(
                event_id="",
                tenant_id=TENANT,
                route=operation_id,
                operation_id=operation_id,
                actor="anna",
                policy_version="tool:refund@1",
                approval_id=asked.approval_id,
                request_hash=asked.request_hash,
                decision=Decision.ALLOW,
                approver="anna",
                reason="checked",
                expires_at_ms=asked.expires_at_ms,
            )
        )
    )


def until_asked(memory: MemoryLedger) -> None:
    deadline = time.monotonic() + 10
    while not memory.state("op").approvals:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def claims(memory: MemoryLedger) -> int:
    return sum(isinstance(event, ev.OperationPrepared) for event in memory.events("op"))


@pytest.fixture
def memory() -> MemoryLedger:
    made = MemoryLedger()
    policy(made, '{"approval":true,"approval_wait":20}')
    return made


def test_who_waits_hears_of_the_approval_and_claims_once_more(memory: MemoryLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_FIRST_LOOK_S", 20.0)
    refund, results = Counted(), list[Any]()
    with Ledger.on(memory, tenant=TENANT) as ledger:
        caller = threading.Thread(target=lambda: results.append(ledger.perform(refund.tool, operation_id="op")))
        caller.start()
        until_asked(memory)
        time.sleep(0.05)  # the refusal is on its way to the caller, who then begins to listen
        approve(memory)
        caller.join(15)
    assert isinstance(results[0], Confirmed)
    assert (refund.effects, claims(memory)) == (1, 2)


def test_who_hears_nothing_asks_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_FIRST_LOOK_S", 0.05)
    deaf, refund, results = Deaf(), Counted(), list[Any]()
    policy(deaf, '{"approval":true,"approval_wait":20}')
    with Ledger.on(deaf, tenant=TENANT) as ledger:
        caller = threading.Thread(target=lambda: results.append(ledger.perform(refund.tool, operation_id="op")))
        caller.start()
        until_asked(deaf)
        approve(deaf)
        caller.join(15)
    assert isinstance(results[0], Confirmed)
    assert refund.effects == 1


def test_nobody_waits_longer_than_the_policy_says_and_without_a_word_of_it_nobody_waits(memory: MemoryLedger) -> None:
    refund = Counted()
    with Ledger.on(memory, tenant=TENANT) as ledger:
        policy_two(memory, '{"approval":true,"approval_wait":0.2}')
        began = time.monotonic()
        result = ledger.perform(refund.tool, operation_id="op")
        assert 0.15 < time.monotonic() - began < 5
        assert isinstance(result, Refused)
        assert result.reason is Refusal.APPROVAL_REQUIRED
        assert claims(memory) == 2
        policy_two(memory, '{"approval":true}', seen=2)
        assert isinstance(ledger.perform(refund.tool, operation_id="op"), Refused)
        assert claims(memory) == 3
    assert refund.effects == 0


def policy_two(memory: MemoryLedger, text: str, seen: int = 1) -> None:
    said = ev.PolicyChanged(
        event_id="",
        tenant_id=TENANT,
        route=policy_route("tool:refund"),
        actor="anna",
        seen_version=seen,
        scope="tool:refund",
        new=text,
        who="anna",
        why="audit",
    )
    memory.append(with_event_id(said))


def test_a_task_waits_in_the_same_way(memory: MemoryLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_FIRST_LOOK_S", 20.0)
    refund = Counted()

    async def run() -> Any:
        async with AsyncLedger.on(memory, tenant=TENANT) as ledger:
            task = asyncio.create_task(ledger.perform(refund.tool, operation_id="op"))
            await asyncio.to_thread(until_asked, memory)
            await asyncio.sleep(0.05)
            approve(memory)
            return await asyncio.wait_for(task, 15)

    assert isinstance(asyncio.run(run()), Confirmed)
    assert (refund.effects, claims(memory)) == (1, 2)


def test_a_call_that_observe_mode_lets_through_answers_for_no_attempt(memory: MemoryLedger) -> None:
    policy_two(memory, '{"observe":true}')
    refund = Counted()
    with Ledger.on(memory, tenant=TENANT) as ledger:
        first = ledger.perform(refund.tool, operation_id="op")
        second = ledger.perform(refund.tool, operation_id="op")
    assert isinstance(first, Confirmed)
    assert isinstance(second, Confirmed)
    assert (first.reference, second.reference, second.repeated) == ("re_1", "re_2", False)
    outcomes = [event for event in memory.events("op") if isinstance(event, ev.OutcomeConfirmed)]
    assert [outcome.attempt for outcome in outcomes] == [1, None]
    assert memory.state("op").marks == ("duplicate_effect",)


def test_a_tool_without_contract_is_refused_and_in_observe_mode_runs_and_is_on_record_as_such(memory: MemoryLedger) -> None:
    calls = []

    @without_contract("refund")
    def refund(order: str) -> dict[str, str]:
        calls.append(order)
        return {"id": f"re_{order}"}

    with Ledger.on(memory, tenant=TENANT) as ledger:
        refused = ledger.perform(refund, operation_id="before", order="1")
        assert isinstance(refused, Refused)
        assert refused.reason is Refusal.NO_CONTRACT
        policy_two(memory, '{"observe":true}')
        assert isinstance(ledger.perform(refund, operation_id="op", order="2"), Confirmed)
    assert calls == ["2"]
    intent, granted = [event for event in memory.events("op") if isinstance(event, ev.OperationPrepared | ev.DispatchGranted)]
    assert (intent.contract, intent.contract_digest, intent.compensation) == (None, "", [])
    assert granted.observe == "no_contract"
    assert (memory.state("op").state, memory.state("op").contract) == (State.CONFIRMED, None)
    with pytest.raises(ContractError, match="has no contract"):
        ToolRegistry().add(refund)


def test_an_unknown_outcome_of_a_tool_without_contract_goes_to_a_person(memory: MemoryLedger) -> None:
    policy_two(memory, '{"observe":true}')

    @without_contract("refund")
    def refund() -> None:
        raise TimeoutError

    with Ledger.on(memory, tenant=TENANT) as ledger:
        assert isinstance(ledger.perform(refund, operation_id="op"), Unknown)
    operation = memory.state("op")
    due_ms = due_at_ms(operation)
    assert due_ms is not None
    step = next_step(operation, tenant_id=TENANT, route="op", now_ms=due_ms, can_probe=False)
    assert isinstance(step, Append)
    assert [event.reason for event in step.events if isinstance(event, ev.OperationEscalated)] == ["no_probe"]


# ---- statements ---------------------------------------------------------------------------------------------------------


def test_what_an_agent_told_is_on_the_log_once_without_its_words() -> None:
    memory, refund = MemoryLedger(), Counted()
    with Ledger.on(memory, tenant=TENANT) as ledger:
        group = ledger.group("trip", workflow_type="trip")
        group.perform(refund.tool, step="refund")
        for _ in range(2):
            group.record_statement("trip:refund", "failed", DIGEST)
        ledger.record_statement("alone", "succeeded", DIGEST)
    state = memory.state("trip:refund")
    assert (state.claimed_states, state.disagreements) == (("failed",), 1)
    (said,) = memory.events("alone")
    assert isinstance(said, ev.AgentStatement)
    assert (said.message_digest, said.claimed_state, said.route) == (DIGEST, "succeeded", "alone")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("", "succeeded", DIGEST), "operation_id: must have"),
        (("op", "booked!", DIGEST), "claimed_state: must be one of"),
        (("op", "none", DIGEST), "claimed_state: must be one of"),
        (("op", "succeeded", "booked, trust me"), "message_digest: must be a SHA-256"),
        (("op", "succeeded", "A" * 64), "message_digest: must be a SHA-256"),
    ],
)
def test_a_statement_that_breaks_a_rule_is_refused_with_field_and_rule(arguments: tuple[str, str, str], rule: str) -> None:
    memory = MemoryLedger()
    with Ledger.on(memory, tenant=TENANT) as ledger, pytest.raises(RequestError, match=rule):
        ledger.record_statement(*arguments)
    assert memory.events() == ()


def test_a_verdict_without_attempt_is_no_grant() -> None:
    about = {"tenant_id": TENANT, "operation_id": "op", "claim_id": "c", "reply_to": "r", "state": "prepared", "version": 1}
    assert not Verdict(**about, at_ms=0).granted  # type: ignore[arg-type]
    assert Verdict(**about, at_ms=0, attempt=0).granted  # type: ignore[arg-type]
