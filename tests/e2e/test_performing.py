"""The SDK on the real broker: each intent one effect, each caller an answer, nothing sent while the ledger is out of reach."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from landed import AsyncLedger, Confirmed, Ledger, Refused, Rejected, Settings, Tool, ToolError, Unknown, effect
from landed.adapters.embedded import Part, embedded
from landed.adapters.kafka import KafkaSettings, ensure_topics
from landed.core.contract import Effect

from .conftest import RING, World


def counting_tool() -> tuple[Tool[..., Any], Counter[str], Tool[..., Any]]:
    """A tool, sync and async, and how often it ran for each name."""
    ran: Counter[str] = Counter()
    lock = threading.Lock()
    fields: dict[str, Any] = {"effect": Effect(kind="thing.make"), "reference_field": "id", "receipt_fields": ("id",)}

    @effect(tool="things.make", **fields)
    def make(name: str) -> dict[str, str]:
        with lock:
            ran[name] += 1
        return {"id": f"thing_{name}"}

    @effect(tool="things.make", **fields)
    async def make_async(name: str) -> dict[str, str]:
        with lock:
            ran[name] += 1
        return {"id": f"thing_{name}"}

    return make, ran, make_async


def test_a_perform_is_one_effect_with_its_receipt_and_a_repeat_is_the_same_receipt(world: World) -> None:
    make, ran, _ = counting_tool()
    world.projector()
    ledger = world.ledger()
    first = ledger.perform(make, operation_id="op-1", name="a")
    second = ledger.perform(make, operation_id="op-1", name="a")
    assert isinstance(first, Confirmed)
    assert isinstance(second, Confirmed)
    assert (first.repeated, second.repeated) == (False, True)
    assert first.receipt == second.receipt == {"id": "thing_a"}
    assert second.at_ms == first.at_ms
    assert ran == {"a": 1}
    assert world.events("op-1")[:3] == ["operation_prepared", "dispatch_granted", "outcome_confirmed"]


def test_many_callers_of_one_operation_make_one_effect(world: World) -> None:
    make, ran, _ = counting_tool()
    world.projector()
    ledgers = [world.ledger(worker=f"worker-{number}") for number in range(3)]
    with ThreadPoolExecutor(24) as pool:
        calls = [pool.submit(ledgers[n % 3].perform, make, operation_id=f"op-{n % 10}", name=str(n % 10)) for n in range(240)]
        results = [call.result(timeout=60) for call in calls]
    assert ran == {str(number): 1 for number in range(10)}
    assert {type(one) for one in results} <= {Confirmed, Unknown}, Counter(type(one).__name__ for one in results)
    assert all(one.reason == "in_flight" for one in results if isinstance(one, Unknown))
    for number in range(10):
        assert world.events(f"op-{number}").count("dispatch_granted") == 1


def test_two_thousand_concurrent_performs_get_two_thousand_verdicts_and_effects(world: World) -> None:
    _, ran, make = counting_tool()
    world.projector()

    async def all_of_them() -> list[Any]:
        async with AsyncLedger.connect(world.settings(wait=60.0)) as ledger:
            return await asyncio.gather(
                *(ledger.perform(make, operation_id=f"op-{number}", name=str(number)) for number in range(2000))
            )

    began = time.perf_counter()
    results = asyncio.run(all_of_them())
    seconds = time.perf_counter() - began
    print(f"2,000 concurrent performs: {seconds:.1f} s, {2000 / seconds:.0f}/s")
    assert Counter(type(one).__name__ for one in results) == {"Confirmed": 2000}
    assert len(ran) == 2000
    assert set(ran.values()) == {1}


def test_threads_share_a_ledger(world: World) -> None:
    make, ran, _ = counting_tool()
    world.projector()
    ledger = world.ledger(wait=30)
    with ThreadPoolExecutor(64) as pool:
        results = list(pool.map(lambda n: ledger.perform(make, operation_id=f"op-{n}", name=str(n)), range(500)))
    assert Counter(type(one).__name__ for one in results) == {"Confirmed": 500}
    assert set(ran.values()) == {1}


def test_the_same_operation_with_other_arguments_is_refused_and_sends_nothing(world: World) -> None:
    make, ran, _ = counting_tool()
    world.projector()
    ledger = world.ledger()
    ledger.perform(make, operation_id="op-1", name="a")
    other = ledger.perform(make, operation_id="op-1", name="b")
    assert isinstance(other, Refused)
    assert other.reason == "request_mismatch"
    assert ran == {"a": 1}


def test_tenants_with_the_same_ids_never_meet(world: World) -> None:
    make, ran, _ = counting_tool()
    world.projector()
    results = [world.ledger(tenant=name).perform(make, operation_id="op-1", name=name) for name in ("acme", "globex")]
    assert [one.repeated for one in results if isinstance(one, Confirmed)] == [False, False]
    assert ran == {"acme": 1, "globex": 1}


def test_without_a_projector_nothing_is_sent_and_the_claim_is_withdrawn(world: World) -> None:
    make, ran, _ = counting_tool()
    ledger = world.ledger(wait=0.5)
    result = ledger.perform(make, operation_id="op-1", name="a")
    assert isinstance(result, Refused)
    assert result.reason == "ledger_unavailable"
    ledger.close()
    assert world.events("op-1") == ["operation_prepared", "dispatch_released"]
    world.projector()
    again = world.ledger().perform(make, operation_id="op-1", name="a")
    assert isinstance(again, Confirmed)
    assert ran == {"a": 1}


def test_with_the_broker_stopped_every_caller_is_refused_in_time_and_nothing_is_sent(tmp_path: Path) -> None:
    """A ledger that was connected when its broker went away."""
    make, ran, _ = counting_tool()
    with embedded(tmp_path, parts=frozenset({Part.KAFKA})) as running:
        log = KafkaSettings(bootstrap=running.bootstrap, ring=RING)
        ensure_topics(log, partitions=3)
        ledger = Ledger.connect(Settings(tenant="acme", bootstrap=running.bootstrap, worker="w", ring=RING, wait=1.0))
    began = time.perf_counter()
    with ThreadPoolExecutor(32) as pool:
        waits = list(pool.map(lambda n: timed(lambda: ledger.perform(make, operation_id=f"op-{n}", name=str(n))), range(32)))
    print(f"32 refusals without a broker: {time.perf_counter() - began:.2f} s")
    assert Counter(type(one).__name__ for one, _ in waits) == {"Refused": 32}
    assert {one.reason for one, _ in waits} == {"ledger_unavailable"}
    assert max(seconds for _, seconds in waits) < 10, "a caller waited far longer than its wait of one second"
    assert ran == {}, "a tool was called without a grant"
    ledger.close(timeout=0.5)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return call(), time.perf_counter() - began


def test_a_rejection_that_the_contract_names_is_a_rejection_and_everything_else_is_unknown(world: World) -> None:
    answers: dict[str, Callable[[], Any]] = {}

    @effect(tool="things.break", effect="thing.break", no_effect_errors=("declined",))
    def break_it(name: str) -> Any:
        return answers[name]()

    def failing(error: BaseException) -> Callable[[], Any]:
        def fail() -> Any:
            raise error

        return fail

    answers["declined"] = failing(ToolError("declined"))
    answers["other"] = failing(ToolError("internal"))
    answers["reset"] = failing(ConnectionResetError())
    answers["empty"] = lambda: None
    world.projector()
    ledger = world.ledger()
    results = {name: ledger.perform(break_it, operation_id=f"op-{name}", name=name) for name in answers}
    assert isinstance(results["declined"], Rejected)
    assert [type(results[name]) for name in ("other", "reset", "empty")] == [Unknown] * 3
    assert world.operation("op-declined").state == "rejected"
    assert world.operation("op-reset").state == "unknown"


@pytest.mark.parametrize("url", ["memory://", "kafka"])
def test_the_same_lines_run_in_memory_and_on_kafka(world: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One URL is all that differs."""
    ((key_id, key),) = {"writer-1": "a secret of thirty-two bytes or so"}.items()
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", key_id)
    monkeypatch.setenv("LANDED_WRITER_KEY", key)
    monkeypatch.setenv("LANDED_REPLIES_TOPIC", world.log.replies_topic)
    make, ran, _ = counting_tool()
    if url == "kafka":
        world.projector()
        url = f"kafka://{world.log.bootstrap}/{world.log.topic}"
    with Ledger.connect(url, tenant="acme", wait=20) as ledger:
        trip = ledger.group("trip-7", workflow_type="trip")
        first = trip.perform(make, step="hotel", name="a")
        again = trip.perform(make, step="hotel", name="a")
    assert isinstance(first, Confirmed)
    assert isinstance(again, Confirmed)
    assert (again.receipt, again.repeated) == (first.receipt, True)
    assert ran == {"a": 1}
