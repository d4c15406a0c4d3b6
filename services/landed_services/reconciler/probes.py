"""Runs probes: the team's own code, bounded in time, on threads that are never waited for without end."""

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from landed.core.contract import Contract
from landed.core.reconciliation import ProbeAnswer, ProbeFailed
from landed.ports.tables import DueOperation
from landed.sdk.looking import request_for, taken
from landed.sdk.registry import ToolRegistry
from landed.sdk.tools import ProbeFunction

_LOG = logging.getLogger("landed.reconciler")


class Running:
    """A probe that was started."""

    def __init__(self, tool: str, limit_s: float) -> None:
        self.tool = tool
        self.until = time.monotonic() + limit_s
        self.answer: ProbeAnswer | None = None
        self.given_up = False

    def is_over(self) -> bool:
        """Whether it has answered or used up its time."""
        return self.answer is not None or time.monotonic() >= self.until


class ProbeRunner:
    """Runs the probe of a tool with a bound on its time and on how many run at once.

    A sync probe that hangs cannot be ended from outside: its thread is given up after the bound, and its place goes to others. A
    tool of which *at_once* threads were given up is stuck: it is not probed any more until one of them returns, so that it costs
    the others nothing.

    Args:
        registry: the team's tools.
        time_limit_s: seconds that one probe may take.
        at_once: probes that run at the same time.
    """

    def __init__(self, registry: ToolRegistry, *, time_limit_s: float = 10.0, at_once: int = 16) -> None:
        self._registry = registry
        self._time_limit_s = time_limit_s
        self._at_once = at_once
        self._lock = threading.Lock()
        self._running = 0
        self._given_up: Counter[str] = Counter()
        self._closed = False

    def can_probe(self, contract: Contract) -> bool:
        """Whether the probe that *contract* declares is registered here."""
        return self._registry.probe(contract) is not None

    def is_stuck(self, contract: Contract) -> bool:
        """Whether so many probes of the tool hang that no more are started."""
        with self._lock:
            return self._given_up[contract.tool] >= self._at_once

    def start(self, due: DueOperation, *, when_done: Callable[[], None] = lambda: None) -> Running | None:
        """Starts the probe of *due*; None when every place is taken.

        Args:
            when_done: called from its thread once it has answered.

        Raises:
            ValueError: its contract declares no probe that is registered here; ask `can_probe` before.
        """
        contract = due.operation.contract
        probe = None if contract is None else self._registry.probe(contract)
        if contract is None or probe is None:
            raise ValueError(f"operation {due.operation.operation_id!r} has no registered probe")
        with self._lock:
            if self._closed or self._running >= self._at_once:
                return None
            self._running += 1
        running = Running(contract.tool, self._time_limit_s)
        # A daemon: one that hangs must not keep the process from ending, as threads of a pool would.
        asked = (running, probe, due, contract, when_done)
        threading.Thread(target=self._run, args=asked, name="landed-probe", daemon=True).start()
        return running

    def answer_of(self, running: Running) -> ProbeAnswer:
        """The answer of a probe that is over; `ProbeFailed` when it raised, answered something else, or takes too long."""
        with self._lock:
            if running.answer is not None:
                return running.answer
            if not running.given_up:
                running.given_up = True
                self._running -= 1
                self._given_up[running.tool] += 1
            given_up = self._given_up[running.tool]
        about = {"action": "probe_hangs", "tool": running.tool, "given_up": given_up}
        _LOG.warning("a probe takes too long, it is given up", extra=about)
        return ProbeFailed("timeout")

    def close(self) -> None:
        """Starts nothing any more; probes that run are left behind."""
        with self._lock:
            self._closed = True

    def _run(
        self, running: Running, probe: ProbeFunction, due: DueOperation, contract: Contract, when_done: Callable[[], None]
    ) -> None:
        answer = self._asked(probe, due, contract)
        with self._lock:
            if running.given_up:
                self._given_up[running.tool] -= 1
                return
            self._running -= 1
            running.answer = answer
        when_done()

    def _asked(self, probe: ProbeFunction, due: DueOperation, contract: Contract) -> ProbeAnswer:
        try:
            answer: Any = probe(request_for(due, contract, self._time_limit_s))
            if inspect.isawaitable(answer):
                answer = asyncio.run(_bounded(answer, self._time_limit_s))
            return taken(answer, contract)
        except BaseException as error:
            # The text of an error may hold content or secrets: only its class is kept.
            about = {"action": "probe_failed", "tenant_id": due.tenant_id, "operation_id": due.operation.operation_id}
            _LOG.warning("probe failed: %s", type(error).__name__, extra=about)
            return ProbeFailed(type(error).__name__)


async def _bounded(awaitable: Awaitable[Any], time_limit_s: float) -> Any:
    async with asyncio.timeout(time_limit_s):
        return await awaitable
