"""Performing through a sync ledger: one intended effect, one call, and the same answer ever after."""

import threading
from typing import Any

import pytest

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.core.contract import Compensation, OperationKey, Verify
from landed.core.identity import RequestError
from landed.core.vocabulary import Refusal, State
from landed.sdk.errors import ContractError, LedgerGone, NoOperation, NotSent, ToolError, UnrecordedCall
from landed.sdk.intent import intent_for
from landed.sdk.ledger import Ledger
from landed.sdk.operation import current_operation
from landed.sdk.probes import Absent, Ambiguous, Found, ProbeAnswer, ProbeRequest
from landed.sdk.results import Confirmed, Pending, Refused, Rejected, Unknown
from landed.sdk.tools import effect

from .support import TENANT, Counted, allow_inverses, raising


@pytest.fixture
def memory() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def ledger(memory: MemoryLedger) -> Any:
    with Ledger.on(memory, tenant=TENANT, worker="worker-1", wait=5) as made:
        yield made


def names(memory: MemoryLedger, operation_id: str) -> list[str]:
    return [type(event).__name__ for event in memory.events(operation_id)]


def test_an_operation_takes_three_records_and_gives_the_receipt_that_is_on_the_log(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted()
    result = ledger.perform(refund.tool, operation_id="op", order_id="17", amount=5)
    assert isinstance(result, Confirmed)
    assert (result.receipt, result.reference, result.repeated) == ({"id": "re_1", "amount": 5}, "re_1", False)
    assert result.answer == {"id": "re_1", "amount": 5, "order": "17"}
    assert names(memory, "op") == ["OperationPrepared", "DispatchGranted", "OutcomeConfirmed"]
    assert result.at_ms == memory.state("op").confirmed_at_ms


def test_a_second_process_gets_the_original_receipt_and_time_and_calls_nothing(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted()
    first = ledger.perform(refund.tool, operation_id="op")
    with Ledger.on(memory, tenant=TENANT, worker="worker-2") as other:
        again = other.perform(refund.tool, operation_id="op")
    assert isinstance(first, Confirmed)
    assert isinstance(again, Confirmed)
    assert again == Confirmed(
        operation_id="op", receipt=first.receipt, reference=first.reference, at_ms=first.at_ms, repeated=True
    )
    assert refund.effects == 1


def test_after_a_crash_in_the_call_the_operation_is_unknown_to_whoever_comes_back(ledger: Ledger, memory: MemoryLedger) -> None:
    """A process that dies leaves a granted claim and nothing else: its successor is told so and calls nothing."""
    refund = Counted()
    ledger.begin(intent_for(refund.tool, {}, operation_id="op"))
    with Ledger.on(memory, tenant=TENANT, worker="worker-2") as other:
        result = other.perform(refund.tool, operation_id="op")
    assert isinstance(result, Unknown)
    assert (result.reason, result.retry_allowed) == ("in_flight", False)
    assert result.next_check_at_ms == memory.state("op").attempts[0].lease_end_ms
    assert refund.effects == 0


def test_a_lost_answer_is_unknown_and_is_not_sent_again(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted(raising(ConnectionResetError("peer")))
    first = ledger.perform(refund.tool, operation_id="op")
    again = ledger.perform(refund.tool, operation_id="op")
    assert isinstance(first, Unknown)
    assert isinstance(again, Unknown)
    assert (first.reason, again.reason) == ("ConnectionResetError", "unresolved")
    assert refund.effects == 1
    assert memory.state("op").state is State.UNKNOWN


def test_a_refused_second_connection_is_no_proof_that_the_first_had_no_effect(ledger: Ledger) -> None:
    """The refund is made; then the tool asks for its status on another connection, which is refused."""
    refund = Counted(raising(ConnectionRefusedError()))
    assert isinstance(ledger.perform(refund.tool, operation_id="op"), Unknown)
    assert isinstance(ledger.perform(refund.tool, operation_id="op"), Unknown)
    assert refund.effects == 1


def test_a_declared_error_is_rejected_and_stays_so(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted(raising(ToolError("card_declined", status=402)), no_effect_errors=("card_declined",))
    first = ledger.perform(refund.tool, operation_id="op")
    again = ledger.perform(refund.tool, operation_id="op")
    at_ms = memory.state("op").settled_at_ms
    assert first == Rejected(operation_id="op", reason="card_declined", at_ms=at_ms)
    assert again == Rejected(operation_id="op", reason="card_declined", at_ms=at_ms, repeated=True)
    assert refund.effects == 1


def test_a_rejection_is_retried_only_by_the_caller_and_only_where_the_contract_allows_it(ledger: Ledger) -> None:
    refund = Counted(raising(NotSent()), retry_rejected=True, max_attempts=2)
    results = [ledger.perform(refund.tool, operation_id="op") for _ in range(3)]
    assert [type(result) for result in results] == [Rejected, Rejected, Rejected]
    assert refund.effects == 2, "the third performance finds no attempt left"


def test_the_same_operation_with_other_arguments_is_refused_and_the_argument_is_named(ledger: Ledger) -> None:
    refund = Counted()
    ledger.perform(refund.tool, operation_id="op", amount=5)
    result = ledger.perform(refund.tool, operation_id="op", amount=6)
    assert result == Refused(operation_id="op", reason=Refusal.REQUEST_MISMATCH, detail={"differs": "amount"})


def test_defaults_are_filled_in_before_the_request_is_hashed(ledger: Ledger) -> None:
    refund = Counted()
    ledger.perform(refund.tool, operation_id="op", order_id="17", amount=5)
    assert isinstance(ledger.perform(refund.tool, operation_id="op"), Confirmed)


def test_the_tool_learns_its_operation_and_the_provider_gets_its_id_as_key(ledger: Ledger) -> None:
    seen: dict[str, Any] = {}

    @effect(effect="refund.create", operation_key=OperationKey(argument="key"))
    def refund(amount: int, key: str) -> dict[str, str]:
        here = current_operation()
        seen.update(key=key, id=here.id, attempt=here.attempt, tenant=here.tenant_id, group=here.group_id, left=here.remaining())
        here.note(request_id="req_1", response_status=200)
        return {"id": "re_1"}

    ledger.perform(refund, operation_id="op", amount=1)
    assert 0 < seen.pop("left") <= 10
    assert seen == {"key": "op", "id": "op", "attempt": 1, "tenant": TENANT, "group": None}
    with pytest.raises(NoOperation):
        current_operation()


def test_what_the_tool_notes_of_the_answer_is_recorded_with_the_attempt(ledger: Ledger, memory: MemoryLedger) -> None:
    @effect(effect="refund.create")
    def refund() -> dict[str, str]:
        current_operation().note(request_id="req_1", response_status=200)
        return {"id": "re_1"}

    ledger.perform(refund, operation_id="op")
    outcome = memory.events("op")[-1]
    assert isinstance(outcome, ev.OutcomeConfirmed)
    assert outcome.call is not None
    assert (outcome.call.provider_request_id, outcome.call.response_status) == ("req_1", "200")


def test_the_operation_key_cannot_be_given_by_the_caller(ledger: Ledger) -> None:
    @effect(effect="refund.create", operation_key=OperationKey(argument="key"))
    def refund(key: str) -> None: ...

    with pytest.raises(RequestError, match=r"arguments\.key: is filled by the ledger"):
        ledger.perform(refund, operation_id="op", key="mine")


def test_a_business_key_names_the_operation_from_its_arguments(ledger: Ledger) -> None:
    refund = Counted(business_key="refund:{order_id}")
    assert ledger.perform(refund.tool, order_id="17").operation_id == "refund:17"
    assert ledger.perform(refund.tool, order_id="18").operation_id == "refund:18"
    assert refund.effects == 2


def test_an_operation_that_nothing_names_is_an_error_before_anything_is_sent(ledger: Ledger, memory: MemoryLedger) -> None:
    with pytest.raises(RequestError, match="operation_id: nothing names the operation"):
        ledger.perform(Counted().tool)
    assert memory.entries() == ()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"amount": 2**60}, r"arguments\.amount: integer beyond"),
        ({"amount": float("nan")}, r"arguments\.amount: number is not finite"),
        ({"amount": object()}, r"arguments\.amount: is not JSON"),
        ({"amount": b"5"}, r"arguments\.amount: is not JSON"),
        ({"colour": "red"}, r"arguments\.colour: is not an argument"),
        ({"operation_id": ""}, "operation_id: must have 1 to 180 characters"),
        ({"operation_id": "policy:x"}, "operation_id: must not start with"),
        ({"operation_id": 7}, "operation_id: must be text, got int"),
        ({"wait": "5"}, "wait: must be greater than 0"),
        ({"wait": 0}, "wait: must be greater than 0"),
        ({"replaces": "a\nb"}, "replaces: must not contain control characters"),
    ],
)
def test_bad_input_names_the_field_and_the_rule_before_anything_is_sent(
    ledger: Ledger, memory: MemoryLedger, arguments: dict[str, Any], rule: str
) -> None:
    with pytest.raises(RequestError, match=rule):
        ledger.perform(Counted().tool, **{"operation_id": "op", **arguments})
    assert memory.entries() == ()


def test_bad_input_of_a_group_names_the_field_and_the_rule(ledger: Ledger, memory: MemoryLedger) -> None:
    group: Any = ledger.group("trip", workflow_type="trip")
    for act, rule in (
        (lambda: group.perform(Counted().tool, step="a", depends_on="hotel"), "depends_on: must be a list"),
        (lambda: group.perform(Counted().tool, step="a", depends_on=7), "depends_on: must be a list"),
        (lambda: group.perform(Counted().tool, step="a", uses="hotel"), "uses: must be a list"),
        (lambda: group.perform(Counted().tool, step="a", uses=["policy:x"]), "uses.0.: must not start with"),
        (lambda: group.unwind(7), "reason: must be"),
        (lambda: group.unwind("late", inputs=[1]), "inputs: must be a mapping"),
    ):
        with pytest.raises(RequestError, match=rule):
            act()
    assert len(memory.entries()) == 1


def test_something_that_is_no_tool_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(RequestError, match="tool: must be a tool made by @effect, got function"):
        ledger.perform(raising, operation_id="op")  # type: ignore[arg-type]


def test_a_tool_cannot_be_called_past_the_ledger() -> None:
    refund = Counted()
    with pytest.raises(UnrecordedCall, match="perform it through a ledger"):
        refund.tool()
    assert refund.effects == 0


def test_arguments_changed_between_claim_and_call_are_not_sent(memory: MemoryLedger) -> None:
    """A grant is for the request that was claimed; the arguments are hashed once more right before the call."""
    items = [1]
    calls: list[Any] = []

    class Changing(MemoryLedger):
        def append(self, event: ev.Event) -> Any:
            acknowledged = super().append(event)
            if isinstance(event, ev.OperationPrepared):
                items.append(2)
            return acknowledged

    @effect(effect="batch.send")
    def send(items: list[int]) -> dict[str, int]:
        calls.append(items)
        return {"sent": len(items)}

    log = Changing()
    with Ledger.on(log, tenant=TENANT) as ledger:
        result = ledger.perform(send, operation_id="op", items=items)
    assert isinstance(result, Refused)
    assert result.reason is Refusal.REQUEST_MISMATCH
    assert calls == []
    state = log.state("op")
    assert (state.state, state.attempts_counted) == (State.PREPARED, 0)


# ---- pending, verification --------------------------------------------------------------------------------------------


def test_accepted_is_not_settled(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted(lambda answer: Pending("re_1"), settles_after=60.0)
    result = ledger.perform(refund.tool, operation_id="op")
    assert isinstance(result, Unknown)
    assert (result.reason, result.reference) == ("pending", "re_1")
    state = memory.state("op")
    assert state.state is State.UNKNOWN
    assert [(one.value, one.confirmed) for one in state.references] == [("re_1", False)]


SEEN: list[tuple[ProbeAnswer | Exception, bool]] = [
    (Found(reference="re_1", matched_on=("reference",)), True),
    (Found(matched_on=("operation_id",)), True),
    (Found(reference="re_2", matched_on=("operation_id",)), False),
    (Found(reference="re_1", matched_on=("reference",), status="pending"), False),  # type: ignore[arg-type]
    (Absent(), False),
    (Ambiguous("two of them"), False),
    (ConnectionResetError("peer"), False),
]


@pytest.mark.parametrize(("seen", "verified"), SEEN, ids=[str(row[0]) for row in SEEN])
def test_a_valid_receipt_stands_whatever_the_read_after_it_says(
    ledger: Ledger, memory: MemoryLedger, seen: ProbeAnswer | Exception, verified: bool
) -> None:
    """The reference is on the log before the read; a read that does not find it leaves `unknown`, never `not_found`."""
    refund = Counted(verify=Verify(tool="look"))
    asked: list[ProbeRequest] = []

    @refund.tool.verify
    def look(request: ProbeRequest) -> ProbeAnswer:
        asked.append(request)
        assert [one.value for one in memory.state("op").references] == ["re_1"]
        if isinstance(seen, Exception):
            raise seen
        return seen

    result = ledger.perform(refund.tool, operation_id="op")
    assert asked[0].references == ("re_1",)
    if verified:
        assert isinstance(result, Confirmed)
        assert memory.state("op").state is State.CONFIRMED
    else:
        assert isinstance(result, Unknown)
        assert (result.reason, result.reference) == ("not_verified", "re_1")
        assert memory.state("op").state is State.UNKNOWN


def test_a_declared_verification_without_a_function_is_refused_before_anything_is_sent(ledger: Ledger) -> None:
    refund = Counted(verify=Verify(tool="look"))
    with pytest.raises(ContractError, match="verify: is declared and no @verify function"):
        ledger.perform(refund.tool, operation_id="op")
    assert refund.effects == 0


# ---- interruptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_the_call_is_recorded_as_unknown_and_goes_on(
    ledger: Ledger, memory: MemoryLedger, kind: type[BaseException]
) -> None:
    refund = Counted(raising(kind("sk_live_planted")))
    with pytest.raises(kind):
        ledger.perform(refund.tool, operation_id="op")
    assert memory.state("op").state is State.UNKNOWN
    assert "planted" not in str(memory.events())


class Interrupt(Exception):
    """As a framework stops a tool to ask a person first."""


def test_a_framework_that_interrupts_a_tool_before_its_effect_gives_the_grant_back(memory: MemoryLedger) -> None:
    answers: list[str] = []

    @effect(effect="refund.create")
    def refund() -> dict[str, str]:
        if not answers:
            raise Interrupt
        return {"id": "re_1"}

    with Ledger.on(memory, tenant=TENANT, suspend_on=(Interrupt,)) as ledger:
        with pytest.raises(Interrupt):
            ledger.perform(refund, operation_id="op")
        assert (memory.state("op").state, memory.state("op").attempts_counted) == (State.PREPARED, 0)
        answers.append("yes")
        assert isinstance(ledger.perform(refund, operation_id="op"), Confirmed)


def test_an_interrupt_that_nobody_declared_is_an_error_like_any_other(ledger: Ledger, memory: MemoryLedger) -> None:
    result = ledger.perform(Counted(raising(Interrupt())).tool, operation_id="op")
    assert isinstance(result, Unknown)
    assert memory.state("op").state is State.UNKNOWN


# ---- groups -----------------------------------------------------------------------------------------------------------


def test_a_step_of_a_group_is_one_operation(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted()
    with ledger.group("trip-7", workflow_type="trip", intent_ref="ask-1") as group:
        first = group.perform(refund.tool, step="hotel")
        again = group.perform(refund.tool, step="hotel")
        other = group.perform(refund.tool, step="flight")
    assert [first.operation_id, again.operation_id, other.operation_id] == ["trip-7:hotel", "trip-7:hotel", "trip-7:flight"]
    assert refund.effects == 2
    route = memory.route("trip-7", tenant=TENANT)
    assert (route.workflow_type, route.intent_ref, list(route.operations)) == ("trip", "ask-1", ["trip-7:hotel", "trip-7:flight"])
    assert route.operations["trip-7:flight"].confirmed_before == ("trip-7:hotel",)


def test_equal_calls_under_another_id_are_refused_while_the_first_is_in_doubt(ledger: Ledger) -> None:
    """An agent that lost its memory comes back with a new id for the same intent."""
    refund = Counted(raising(TimeoutError()))
    group = ledger.group("trip-7", workflow_type="trip")
    group.perform(refund.tool, step="hotel")
    result = group.perform(refund.tool, step="hotel-again")
    assert isinstance(result, Refused)
    assert (result.reason, result.detail["operation_id"]) == (Refusal.OPEN_INTENT, "trip-7:hotel")


def test_a_step_waits_for_the_steps_that_it_names(ledger: Ledger) -> None:
    group = ledger.group("trip-7", workflow_type="trip")
    result = group.perform(Counted().tool, step="b", depends_on=["trip-7:a"])
    assert isinstance(result, Refused)
    assert (result.reason, result.detail) == (Refusal.PREREQUISITE_UNCONFIRMED, {"prerequisites": "trip-7:a"})


def test_a_step_depends_on_the_steps_whose_output_it_uses(ledger: Ledger) -> None:
    group = ledger.group("trip-7", workflow_type="trip")
    result = group.perform(Counted().tool, step="b", depends_on=[], uses=["trip-7:a"])
    assert isinstance(result, Refused)
    assert (result.reason, result.detail) == (Refusal.PREREQUISITE_UNCONFIRMED, {"prerequisites": "trip-7:a"})


def test_a_closed_group_takes_no_new_step(ledger: Ledger) -> None:
    group = ledger.group("trip-7", workflow_type="trip")
    group.perform(Counted().tool, step="a")
    group.close()
    result = group.perform(Counted().tool, step="b")
    assert isinstance(result, Refused)
    assert result.reason is Refusal.GROUP_CLOSED


def test_an_unwinding_group_takes_its_inverses_and_nothing_else(ledger: Ledger, memory: MemoryLedger) -> None:
    refund = Counted(compensation=(Compensation(tool="cancel_refund"),))

    @refund.tool.inverse
    @effect(effect="refund.cancel", reference_field="id")
    def cancel_refund(refund_id: str) -> dict[str, str]:
        return {"id": f"cancel {refund_id}"}

    allow_inverses(memory)
    group = ledger.group("trip-7", workflow_type="trip")
    group.perform(refund.tool, step="a")
    group.unwind("later_step_failed", inputs={"trip-7:a": {"refund_id": "re_1"}})
    group.unwind("later_step_failed", inputs={"trip-7:a": {"refund_id": "re_1"}})
    forward = group.perform(refund.tool, step="b")
    undone = group.perform(cancel_refund, operation_id="compensate:trip-7:a", refund_id="re_1")
    assert isinstance(forward, Refused)
    assert forward.reason is Refusal.GROUP_UNWINDING
    assert isinstance(undone, Confirmed)
    assert memory.state("trip-7:a").state is State.COMPENSATED


def test_a_block_that_raises_neither_closes_nor_unwinds_its_group(ledger: Ledger, memory: MemoryLedger) -> None:
    with pytest.raises(KeyError), ledger.group("trip-7", workflow_type="trip"):
        raise KeyError
    assert memory.route("trip-7", tenant=TENANT).group_state == "open"


def test_a_resource_has_one_writer_at_a_time(ledger: Ledger) -> None:
    refund = Counted(raising(TimeoutError()), resources=("order:{order_id}",))
    ledger.perform(refund.tool, operation_id="a", order_id="17")
    busy = ledger.perform(refund.tool, operation_id="b", order_id="17")
    free = ledger.perform(refund.tool, operation_id="c", order_id="18")
    assert isinstance(busy, Refused)
    assert (busy.reason, busy.detail["holder"]) == (Refusal.RESOURCE_BUSY, "a")
    assert isinstance(free, Unknown)


def test_an_id_known_in_a_group_is_refused_outside_of_it(ledger: Ledger) -> None:
    refund = Counted()
    ledger.group("trip-7", workflow_type="trip").perform(refund.tool, operation_id="op")
    result = ledger.perform(refund.tool, operation_id="op")
    assert result == Refused(operation_id="op", reason=Refusal.ROUTE_MISMATCH, detail={"known_route": "trip-7"})
    assert refund.effects == 1


# ---- reads, lower interface, end --------------------------------------------------------------------------------------


def test_a_read_takes_no_claim_and_a_failed_read_is_an_error_never_an_empty_result(ledger: Ledger, memory: MemoryLedger) -> None:
    @effect(effect="order.read", read_only=True, receipt_fields=("rows",))
    def orders(of: str) -> dict[str, list[str]]:
        if of == "nobody":
            raise ToolError("no_such_customer")
        return {"rows": []}

    found = ledger.perform(orders, of="anna")
    assert isinstance(found, Confirmed)
    assert found.receipt == {"rows": []}
    assert ledger.perform(orders, of="nobody") == Rejected(operation_id="read:orders", reason="no_such_customer")
    assert memory.entries() == ()


def test_two_threads_with_one_operation_make_one_call(ledger: Ledger) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold(answer: dict[str, Any]) -> dict[str, Any]:
        inside.set()
        leave.wait(10)
        return answer

    refund = Counted(hold)
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(ledger.perform(refund.tool, operation_id="op")))
    thread.start()
    assert inside.wait(10)
    second = ledger.perform(refund.tool, operation_id="op")
    leave.set()
    thread.join(10)
    assert isinstance(second, Unknown)
    assert second.reason == "in_flight"
    assert isinstance(first[0], Confirmed)
    assert refund.effects == 1


def test_a_closed_ledger_says_so(memory: MemoryLedger) -> None:
    ledger = Ledger.on(memory, tenant=TENANT)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerGone, match="connect again"):
        ledger.perform(Counted().tool, operation_id="op")


def test_an_async_tool_is_refused_by_the_sync_ledger(ledger: Ledger) -> None:
    @effect(effect="refund.create")
    async def refund() -> dict[str, str]:
        return {"id": "re_1"}

    with pytest.raises(RequestError, match="is async: perform it through AsyncLedger"):
        ledger.perform(refund, operation_id="op")


def test_a_function_that_hands_out_a_coroutine_proves_nothing(ledger: Ledger) -> None:
    async def later() -> dict[str, str]:
        return {"id": "re_1"}

    @effect(effect="refund.create")
    def refund() -> Any:
        return later()

    result = ledger.perform(refund, operation_id="op")
    assert isinstance(result, Unknown)
    assert result.reason == "CoroutineNeverAwaited"
