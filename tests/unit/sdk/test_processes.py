"""One process with many callers; a forked process; a process that only imports."""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.sdk.async_ledger import AsyncLedger
from landed.sdk.errors import LedgerGone
from landed.sdk.ledger import Ledger
from landed.sdk.results import Confirmed
from landed.sdk.tools import effect

from .support import TENANT, Counted

PERFORMS = 2_000


def _check(memory: MemoryLedger, results: list[object], effects: int) -> None:
    assert len(results) == PERFORMS
    assert all(isinstance(result, Confirmed) and not result.repeated for result in results)
    assert effects == PERFORMS
    decisions = [event for event in memory.events() if isinstance(event, ev.DispatchGranted | ev.DispatchRefused)]
    assert len(decisions) == PERFORMS
    assert memory.waiting == 0
    assert memory.refused() == {}


def test_two_thousand_performs_by_threads_are_two_thousand_verdicts_and_effects() -> None:
    memory = MemoryLedger()
    effects: list[str] = []

    @effect(effect="refund.create")
    def refund(order_id: str) -> dict[str, str]:
        effects.append(order_id)
        return {"id": order_id}

    with Ledger.on(memory, tenant=TENANT, wait=60) as ledger, ThreadPoolExecutor(64) as pool:
        results = list(pool.map(lambda n: ledger.perform(refund, operation_id=f"op-{n}", order_id=str(n)), range(PERFORMS)))
    _check(memory, list(results), len(set(effects)))


async def test_two_thousand_performs_by_tasks_are_two_thousand_verdicts_and_effects() -> None:
    memory = MemoryLedger()
    effects: list[str] = []

    @effect(effect="refund.create")
    async def refund(order_id: str) -> dict[str, str]:
        await asyncio.sleep(0)
        effects.append(order_id)
        return {"id": order_id}

    async with AsyncLedger.on(memory, tenant=TENANT, wait=60) as ledger:
        performs = (ledger.perform(refund, operation_id=f"op-{n}", order_id=str(n)) for n in range(PERFORMS))
        results = await asyncio.gather(*performs)
    _check(memory, list(results), len(set(effects)))


def test_many_threads_with_one_operation_make_one_effect() -> None:
    memory = MemoryLedger()
    refund = Counted()
    barrier = threading.Barrier(32)

    def perform(_: int) -> object:
        barrier.wait(10)
        return ledger.perform(refund.tool, operation_id="op")

    with Ledger.on(memory, tenant=TENANT, wait=60) as ledger, ThreadPoolExecutor(32) as pool:
        results = list(pool.map(perform, range(32)))
    assert refund.effects == 1
    assert sum(isinstance(result, Confirmed) and not result.repeated for result in results) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_the_childs_ledger_says_so_and_the_parents_goes_on() -> None:
    """Threads and connections do not survive a fork: going on in silence would wait for verdicts that nobody delivers."""
    refund = Counted()
    with Ledger.on(MemoryLedger(), tenant=TENANT) as ledger:
        ledger.perform(refund.tool, operation_id="before")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ledger.perform(refund.tool, operation_id="in the child")
            except LedgerGone as error:
                ledger.close()
                code = 0 if refund.effects == 1 and "connect again in the child" in str(error) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert isinstance(ledger.perform(refund.tool, operation_id="after"), Confirmed)


def _fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_importing_loads_neither_the_kafka_client_nor_anything_else_heavy() -> None:
    heavy = "{'confluent_kafka', 'fastavro', 'rfc8785', 'landed.core.contract', 'asyncio'} & set(sys.modules)"
    assert _fresh(f"import sys, landed; print({heavy})") == "set()"


def test_a_ledger_in_memory_never_loads_the_kafka_client() -> None:
    code = (
        "import sys\n"
        "from landed import Ledger, effect\n"
        "tool = effect(effect='a.b')(lambda x: {'id': x})\n"
        "with Ledger.connect('memory://', tenant='t') as ledger:\n"
        "    print(type(ledger.perform(tool, operation_id='o', x='1')).__name__, 'confluent_kafka' in sys.modules)\n"
    )
    assert _fresh(code) == "Confirmed False"
