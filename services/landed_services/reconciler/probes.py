"""Runs probes: the team's own code, bounded in time, on threads that are never waited for without end."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import msgspec

from landed.core.contract import Contract
from landed.core.reconciliation import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.ports.tables import DueOperation
from landed.sdk import probes as said
from landed.sdk.answer import receipt_json, valid_reference
from landed.sdk.probes import ProbeRequest
from landed.sdk.registry import ToolRegistry
from landed.sdk.tools import ProbeFunction

_LOG = logging.getLogger("landed.reconciler")


class Running:
    """A probe that was started; `answer_of` waits for it."""

    def __init__(self, future: "Future[ProbeAnswer]", until: float) -> None:
        self.future = future
        self.until = until


class ProbeRunner:
    """Runs the probe of a tool with a bound on its time and on how many run at once.

    A sync probe that hangs cannot be ended from outside: its thread is given up after the bound and its place is lost until it
    returns, so *at_once* also bounds what hanging probes can cost.

    Args:
        registry: the team's tools.
        time_limit_s: seconds that one probe may take.
        at_once: probes that run at the same time.
    """

    def __init__(self, registry: ToolRegistry, *, time_limit_s: float = 10.0, at_once: int = 16) -> None:
        self._registry = registry
        self._time_limit_s = time_limit_s
        self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="landed-probe")

    def can_probe(self, contract: Contract) -> bool:
        """Whether the probe that *contract* declares is registered here."""
        return self._registry.probe(contract) is not None

    def start(self, due: DueOperation) -> Running:
        """Starts the probe of *due*.

        Raises:
            ValueError: its contract declares no probe that is registered here; ask `can_probe` before.
        """
        contract = due.operation.contract
        probe = None if contract is None else self._registry.probe(contract)
        if contract is None or probe is None:
            raise ValueError(f"operation {due.operation.operation_id!r} has no registered probe")
        request = request_for(due, contract, self._time_limit_s)
        future = self._pool.submit(self._run, probe, request, contract)
        return Running(future, time.monotonic() + self._time_limit_s)

    def answer_of(self, running: Running) -> ProbeAnswer:
        """The answer, or `ProbeFailed` when the probe raises, answers something else, or takes too long."""
        try:
            return running.future.result(timeout=max(0.0, running.until - time.monotonic()))
        except FutureTimeout:
            running.future.cancel()
            return ProbeFailed("timeout")

    def close(self) -> None:
        """Ends the threads that are idle; one that hangs in a probe is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, probe: ProbeFunction, request: ProbeRequest, contract: Contract) -> ProbeAnswer:
        try:
            answer: Any = probe(request)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_bounded(answer, self._time_limit_s))
            return taken(answer, contract)
        except Exception as error:
            # The text of an error may hold content or secrets: only its class is kept.
            about = {"action": "probe_failed", "tenant_id": request.tenant_id, "operation_id": request.operation_id}
            _LOG.warning("probe failed: %s", type(error).__name__, extra=about)
            return ProbeFailed(type(error).__name__)


def request_for(due: DueOperation, contract: Contract, time_limit_s: float) -> ProbeRequest:
    """What the probe of *due* is given: identity, stored arguments and references, and nothing else."""
    operation, last = due.operation, due.operation.last
    return ProbeRequest(
        tenant_id=due.tenant_id,
        operation_id=operation.operation_id,
        group_id=due.group_id,
        tool=contract.tool,
        attempt=last.number if last else 0,
        request_hash=operation.request_hash,
        stored_args=msgspec.json.decode(operation.stored_args) if operation.stored_args else {},
        references=tuple(reference.value for reference in operation.references),
        dispatched_at_ms=last.granted_at_ms if last else None,
        timeout_s=time_limit_s,
    )


def taken(answer: object, contract: Contract) -> ProbeAnswer:
    """*answer* of a probe as evidence: what is not allowed on the log is dropped, what is no answer proves nothing.

    A reference is untrusted until it has the contract's pattern; a record whose reference has not is no record of ours.
    """
    match answer:
        case said.Found():
            reference = None if answer.reference is None else valid_reference(contract, answer.reference)
            if answer.reference is not None and reference is None:
                return Ambiguous("the reference has not the form that the contract declares")
            receipt = None if answer.receipt is None else receipt_json(contract, answer.receipt)
            return Found(reference=reference, receipt=receipt, matched_on=tuple(answer.matched_on), status=answer.status)
        case said.Absent():
            return Absent()
        case said.Ambiguous():
            return Ambiguous(answer.reason)
        case _:
            return ProbeFailed(f"answered_{type(answer).__name__}")


async def _bounded(awaitable: Awaitable[Any], time_limit_s: float) -> Any:
    async with asyncio.timeout(time_limit_s):
        return await awaitable
