"""Runs probes: the team's own code, bounded in time, on threads that are never waited for without end."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from landed.core.contract import Contract
from landed.core.reconciliation import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.ports.tables import DueOperation

_LOG = logging.getLogger("landed.reconciler")

ProbeFunction = Callable[[DueOperation], Any]
"""Looks an operation up, sync or async; anything but an answer of `core.reconciliation` is taken as a failed probe."""


class ProbeRunner:
    """Runs the probe of a tool with a bound on its time and on how many run at once.

    A sync probe that hangs cannot be ended from outside: its thread is given up after the bound and its place is lost until it
    returns, so *at_once* also bounds what hanging probes can cost.
    """

    def __init__(self, probes: Mapping[str, ProbeFunction], *, time_limit_s: float = 10.0, at_once: int = 16) -> None:
        self._probes = probes
        self._time_limit_s = time_limit_s
        self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="landed-probe")

    def can_probe(self, contract: Contract) -> bool:
        """Whether the probe that *contract* declares is registered here."""
        return contract.outcome_probe is not None and contract.outcome_probe.tool in self._probes

    def start(self, due: DueOperation) -> "Future[ProbeAnswer]":
        """Starts the probe of *due*; never fails, see `answer_of`."""
        contract = due.operation.contract
        if contract is None or contract.outcome_probe is None:
            raise ValueError(f"operation {due.operation.operation_id!r} declares no probe")
        return self._pool.submit(self._run, self._probes[contract.outcome_probe.tool], due)

    def answer_of(self, running: "Future[ProbeAnswer]") -> ProbeAnswer:
        """The answer, or `ProbeFailed` when the probe raises, answers something else, or takes too long."""
        try:
            return running.result(timeout=self._time_limit_s)
        except TimeoutError:
            running.cancel()
            return ProbeFailed(f"no answer within {self._time_limit_s:g} s")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, probe: ProbeFunction, due: DueOperation) -> ProbeAnswer:
        try:
            answer = probe(due)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_bounded(answer, self._time_limit_s))
        except Exception as error:
            # The text of an error may hold content or secrets: only its class is kept.
            _LOG.warning(
                "probe failed: %s",
                type(error).__name__,
                extra={"action": "probe_failed", "tenant_id": due.tenant_id, "operation_id": due.operation.operation_id},
            )
            return ProbeFailed(type(error).__name__)
        if isinstance(answer, Found | Absent | Ambiguous | ProbeFailed):
            return answer
        return ProbeFailed(f"answered {type(answer).__name__}, which is no probe answer")


async def _bounded(awaitable: Any, time_limit_s: float) -> Any:
    async with asyncio.timeout(time_limit_s):
        return await awaitable
