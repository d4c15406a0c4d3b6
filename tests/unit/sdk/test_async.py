"""Performing from asyncio: the same protocol; whoever is cancelled leaves the truth behind."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.core.contract import Verify
from landed.core.vocabulary import Refusal, State
from landed.sdk.async_ledger import AsyncLedger
from landed.sdk.operation import current_operation
from landed.sdk.probes import Absent, Found, ProbeAnswer, ProbeRequest
from landed.sdk.results import Confirmed, Refused, Unknown
from landed.sdk.tools import Tool, effect

from .support import Counted, Flaky, settings


def async_tool(act: Callable[[], Awaitable[Any]], **fields: Any) -> Tool[[], Any]:
    @effect(tool="refund", effect="refund.create", **fields)
    async def refund() -> Any:
        return await act()

    return refund


def ledger_on(memory: MemoryLedger, **changes: Any) -> AsyncLedger:
    return AsyncLedger(settings(wait=5.0, record_wait=5.0, **changes), memory, memory)


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


async def test_an_async_tool_and_a_sync_one_are_performed_alike() -> None:
    async def act() -> dict[str, str]:
        return {"id": current_operation().id}

    memory = MemoryLedger()
    refund = Counted()
    async with ledger_on(memory) as ledger:
        first = await ledger.perform(async_tool(act, receipt_fields=("id",)), operation_id="a")
        again = await ledger.perform(async_tool(act, receipt_fields=("id",)), operation_id="a")
        other = await ledger.perform(refund.tool, operation_id="b")
    assert isinstance(first, Confirmed)
    assert isinstance(again, Confirmed)
    assert isinstance(other, Confirmed)
    assert (first.receipt, again.receipt, again.repeated) == ({"id": "a"}, {"id": "a"}, True)
    assert (other.reference, refund.effects) == ("re_1", 1)


async def test_groups_close_and_unwind() -> None:
    memory = MemoryLedger()
    refund = Counted()
    async with ledger_on(memory) as ledger, ledger.group("trip-7", workflow_type="trip") as group:
        await group.perform(refund.tool, step="a")
        await group.close()
        closed = await group.perform(refund.tool, step="b")
        await group.unwind("later_step_failed")
        unwinding = await group.perform(refund.tool, step="b")
    assert isinstance(closed, Refused)
    assert isinstance(unwinding, Refused)
    assert (closed.reason, unwinding.reason) == (Refusal.GROUP_CLOSED, Refusal.GROUP_UNWINDING)


async def test_a_caller_cancelled_while_it_waits_leaves_a_withdrawn_claim() -> None:
    flaky = Flaky()
    flaky.lost = {ev.OperationPrepared}
    refund = Counted()
    async with AsyncLedger(settings(wait=60.0), flaky, flaky) as ledger:
        task = asyncio.create_task(ledger.perform(refund.tool, operation_id="op"))
        await until(lambda: flaky.memory.waiting == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (released,) = flaky.memory.events("op")
    assert isinstance(released, ev.DispatchReleased)
    assert (released.attempt, released.why) == (None, "the caller is gone")
    assert refund.effects == 0
    assert flaky.memory.waiting == 0


async def test_a_caller_cancelled_while_the_tool_is_called_leaves_unknown() -> None:
    inside = asyncio.Event()

    async def act() -> None:
        inside.set()
        await asyncio.sleep(60)

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        task = asyncio.create_task(ledger.perform(async_tool(act), operation_id="op"))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert memory.state("op").state is State.UNKNOWN
    assert memory.state("op").error_code == "CancelledError"


async def test_a_call_is_really_cancelled_when_its_lease_ends() -> None:
    """`longest_processing` bounds the renewals; after it the call is cut off and nobody can tell."""
    cut = asyncio.Event()

    async def act() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.set()
            raise

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        started = time.monotonic()
        result = await ledger.perform(async_tool(act, lease=0.2, longest_processing=0.3), operation_id="op")
    assert cut.is_set()
    assert 0.2 <= time.monotonic() - started < 5
    assert isinstance(result, Unknown)
    assert result.reason == "lease_over"
    assert memory.state("op").state is State.UNKNOWN


async def test_a_call_that_came_back_leaves_no_timer_behind() -> None:
    async def act() -> dict[str, str]:
        return {"id": "re_1"}

    broken: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: broken.append(context))
    async with ledger_on(MemoryLedger()) as ledger:
        await ledger.perform(async_tool(act, lease=0.1), operation_id="op")
        await asyncio.sleep(0.3)
    assert broken == []


async def test_a_lease_is_renewed_while_a_long_call_runs() -> None:
    async def act() -> dict[str, str]:
        await asyncio.sleep(2.0)
        return {"id": "re_1"}

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        result = await ledger.perform(async_tool(act, lease=1.2), operation_id="op")
    assert isinstance(result, Confirmed)
    renewals = [event for event in memory.events("op") if isinstance(event, ev.LeaseRenewed)]
    assert [event.lease_number for event in renewals] == list(range(1, len(renewals) + 1))
    assert len(renewals) >= 3
    assert memory.refused() == {}


async def test_a_time_out_of_the_tools_own_is_an_error_like_any_other() -> None:
    async def act() -> None:
        raise TimeoutError

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        result = await ledger.perform(async_tool(act), operation_id="op")
    assert isinstance(result, Unknown)
    assert result.reason == "TimeoutError"


@pytest.mark.parametrize("stop", ["cancelled", "lease over"])
async def test_a_sync_tool_that_cannot_be_stopped_is_recorded_when_it_ends(stop: str) -> None:
    """An `unknown` that is written while the thread goes on would say that the attempt has ended, and a later "absent" would be
    believed too early."""
    inside, leave = threading.Event(), threading.Event()

    def hold(answer: dict[str, Any]) -> dict[str, Any]:
        inside.set()
        leave.wait(10)
        return answer

    fields = {"lease": 0.2, "longest_processing": 0.3} if stop == "lease over" else {}
    refund = Counted(hold, **fields)
    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        task = asyncio.create_task(ledger.perform(refund.tool, operation_id="op"))
        await asyncio.to_thread(inside.wait, 10)
        if stop == "cancelled":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            result = await task
            assert isinstance(result, Unknown)
            assert result.reason == "still_running"
        assert memory.state("op").state is State.DISPATCHED, "its end is not known yet"
        leave.set()
        await until(lambda: memory.state("op").state is State.CONFIRMED)
    assert memory.state("op").references[0].value == "re_1"
    assert refund.effects == 1


async def test_a_sync_tool_that_waits_for_a_thread_is_not_called_once_its_caller_is_gone() -> None:
    leave = threading.Event()
    loop = asyncio.get_running_loop()
    blockers = [loop.run_in_executor(None, leave.wait, 10) for _ in range(64)]
    refund = Counted()
    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        task = asyncio.create_task(ledger.perform(refund.tool, operation_id="op"))
        await until(lambda: memory.state("op").state is State.DISPATCHED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()
        await until(lambda: memory.state("op").state is State.PREPARED)
        await asyncio.gather(*blockers)
    assert refund.effects == 0
    assert memory.state("op").attempts_counted == 0


class Interrupt(Exception): ...


@pytest.mark.parametrize("kind", ["async", "in a thread"])
async def test_a_framework_that_interrupts_a_tool_gives_the_grant_back(kind: str) -> None:
    async def act() -> None:
        raise Interrupt

    def interrupt(answer: dict[str, Any]) -> None:
        raise Interrupt

    memory = MemoryLedger()
    async with AsyncLedger(settings(), memory, memory, suspend_on=(Interrupt,)) as ledger:
        tool: Tool[..., Any] = async_tool(act) if kind == "async" else Counted(interrupt).tool
        with pytest.raises(Interrupt):
            await ledger.perform(tool, operation_id="op")
    assert (memory.state("op").state, memory.state("op").attempts_counted) == (State.PREPARED, 0)


@pytest.mark.parametrize(("seen", "confirmed"), [(Found(matched_on=("operation_id",)), True), (Absent(), False)])
async def test_verification_may_be_async(seen: ProbeAnswer, confirmed: bool) -> None:
    refund = Counted(verify=Verify(tool="look"))

    @refund.tool.verify
    async def look(request: ProbeRequest) -> ProbeAnswer:
        await asyncio.sleep(0)
        return seen

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        result = await ledger.perform(refund.tool, operation_id="op")
    assert isinstance(result, Confirmed if confirmed else Unknown)


async def test_a_verification_that_takes_too_long_proves_nothing() -> None:
    refund = Counted(verify=Verify(tool="look"), lease=0.1)

    @refund.tool.verify
    async def look(request: ProbeRequest) -> ProbeAnswer:
        await asyncio.sleep(60)
        return Absent()

    memory = MemoryLedger()
    async with ledger_on(memory) as ledger:
        result = await ledger.perform(refund.tool, operation_id="op")
    assert isinstance(result, Unknown)
    assert result.reason == "not_verified"


async def test_no_verdict_in_time_is_a_refusal_and_the_loop_stays_free() -> None:
    flaky = Flaky()
    flaky.lost = {ev.OperationPrepared}
    refund = Counted()
    async with AsyncLedger(settings(wait=0.3), flaky, flaky) as ledger:
        performing = asyncio.create_task(ledger.perform(refund.tool, operation_id="op"))
        ticks = 0
        while not performing.done():
            await asyncio.sleep(0.01)
            ticks += 1
        result = await performing
    assert isinstance(result, Refused)
    assert (result.reason, refund.effects) == (Refusal.LEDGER_UNAVAILABLE, 0)
    assert ticks > 5


async def test_the_lower_interface_is_the_same() -> None:
    from landed.sdk.classify import Returned
    from landed.sdk.intent import intent_for
    from landed.sdk.token import Execute

    memory = MemoryLedger()
    refund = Counted()
    async with ledger_on(memory) as ledger:
        token = await ledger.begin(intent_for(refund.tool, {}, operation_id="op"))
        assert isinstance(token, Execute)
        assert ledger.start(token) is None
        result = await ledger.finish(token, Returned(answer={"id": "re_9", "amount": 5}))
        other = await ledger.begin(intent_for(refund.tool, {}, operation_id="other"))
        assert isinstance(other, Execute)
        await ledger.suspend(other)
    assert isinstance(result, Confirmed)
    assert result.reference == "re_9"
    assert memory.state("other").state is State.PREPARED
