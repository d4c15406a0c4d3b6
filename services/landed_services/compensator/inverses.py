"""Performs inverses: what one requires is read, then it is claimed and called through the protocol of the SDK.

Whether it may be performed is for the ledger to say, at the claim; what the call came to is classified and recorded as any other.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from landed.adapters.postgres.rows import group_id_of
from landed.core.compensating import Perform
from landed.core.contract import Requires
from landed.core.identity import RequestError
from landed.core.inverse import condition_met
from landed.core.state import Operation, Route
from landed.sdk.async_driver import AsyncDriver
from landed.sdk.drivers import SyncDriver
from landed.sdk.intent import Intent, contract_of_inverse
from landed.sdk.parts import Parts
from landed.sdk.probes import Absent, Found, ProbeRequest
from landed.sdk.providers import Access
from landed.sdk.registry import ToolRegistry
from landed.sdk.results import Result
from landed.sdk.tools import ProbeFunction, Tool
from landed.testing.failure_points import reach
from landed_services.work.places import Places

_LOG = logging.getLogger("landed.compensator")
NO_READ: Final = "the read that it requires is not registered here"
NOT_AUTHORIZED: Final = "the registry does not authorize the call"
_OVERHEAD_S: Final = 5.0
"""Seconds beside read, verdict, call and record that an inverse may take before its place goes to others."""


class Job(msgspec.Struct, frozen=True):
    """An inverse that is to be performed now."""

    route: Route
    action: Perform

    @property
    def forward(self) -> Operation:
        return self.route.operation(self.action.operation_id)

    @property
    def group_id(self) -> str | None:
        return group_id_of(self.route, self.forward)


class Performed(msgspec.Struct, frozen=True):
    """An inverse that is over, as far as this process knows."""

    job: Job
    result: Result | None = None
    """None: it hangs, or it was never begun."""
    unmet: bool = False
    """What it requires does not hold now."""
    cannot: str | None = None
    """Why this process cannot perform it, whatever it waits for."""


class InverseRunner:
    """Inverses with a bound on how many run at once. A call that hangs keeps its lease as the contract allows, not its place.

    Args:
        registry: the team's tools.
        parts: log, inbox and protocol that the claims go through.
        read_limit_s: seconds that the read before an inverse may take.
        at_once: inverses at the same time.
    """

    def __init__(self, registry: ToolRegistry, parts: Parts, *, read_limit_s: float = 10.0, at_once: int = 32) -> None:
        self._registry = registry
        self._parts = parts
        self._read_limit_s = read_limit_s
        self._places: Places[Job, Performed] = Places(at_once, name="landed-inverse")

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return self._places.is_full

    def is_stuck(self, tool: str) -> bool:
        """Whether so many calls of *tool* hang that no more are started."""
        return self._places.is_stuck(tool)

    def start(self, job: Job, *, when_done: Callable[[], None] = lambda: None) -> bool:
        """Reads, claims and calls; False when there is no place for it.

        Args:
            when_done: called from its thread once it is over.
        """
        tool = self._registry.tool(job.action.tool)
        call_s = 0.0 if tool is None else max(tool.contract.lease, tool.contract.longest_processing)
        settings = self._parts.settings
        limit_s = self._read_limit_s + settings.wait + call_s + settings.record_wait + _OVERHEAD_S
        return self._places.start(job.action.tool, job, lambda: self._performed(job), limit_s=limit_s, when_done=when_done)

    def take(self) -> list[Performed]:
        """Inverses that are over."""
        found = []
        for one in self._places.take():
            if one.result is None:
                about = {"action": "inverse_hangs", "tool": one.about.action.tool, "left_behind": self._places.left_behind()}
                _LOG.warning("a call takes too long, its place goes to others", extra=about)
            found.append(one.result or Performed(one.about))
        return found

    def close(self, timeout_s: float = 5.0) -> None:
        """Starts nothing any more, and ends the connection; calls that run are left behind."""
        self._places.close()
        self._parts.close(timeout_s)

    # ---- one inverse, in a thread of its own --------------------------------------------------------------------------

    def _performed(self, job: Job) -> Performed:
        action, about = job.action, {"tenant_id": job.route.tenant_id, "operation_id": job.action.inverse_id}
        try:
            tool = self._registry.tool(action.tool)
            if tool is None:
                return Performed(job, cannot="the inverse is not registered here")
            if not self._registry.providers.allows(self._access(job, tool)):
                return Performed(job, cannot=NOT_AUTHORIZED)
            if action.requires is not None:
                read = self._registry.requirement_of(action.requires.read)
                if read is None:
                    return Performed(job, cannot=NO_READ)
                reach("compensator.before_read")
                if not self._holds(job, action.requires, read):
                    return Performed(job, unmet=True)
            try:
                intent = intent_of_inverse(job, tool)
            except RequestError as error:
                return Performed(job, cannot=f"its arguments do not fit: {error.problem.field}")
            reach("compensator.before_inverse")
            _LOG.info("inverse", extra={"action": "inverse", "tool": action.tool, **about})
            steps = self._parts.protocol_for(job.route.tenant_id).perform(intent, tool.function, tool.verify_function)
            if tool.is_async or inspect.iscoroutinefunction(tool.verify_function):
                return Performed(job, asyncio.run(AsyncDriver(self._parts.doors).run(steps)))
            return Performed(job, SyncDriver(self._parts.doors).run(steps))
        except BaseException as error:
            # What the protocol could not take; whatever was claimed is withdrawn or recorded by it.
            _LOG.error("inverse failed: %s", type(error).__name__, extra={"action": "inverse_failed", **about})
            return Performed(job)

    def _access(self, job: Job, tool: Tool[..., Any]) -> Access:
        return Access(
            tenant_id=job.route.tenant_id,
            action="compensate",
            tool=tool.name,
            provider=self._registry.providers.of(tool.name).name,
            operation_id=job.action.inverse_id,
            group_id=job.group_id,
        )

    def _holds(self, job: Job, requires: Requires, read: ProbeFunction) -> bool:
        """Whether the read shows what the inverse requires; one that fails shows nothing."""
        try:
            answer: Any = read(self._request(job))
            if inspect.isawaitable(answer):
                answer = asyncio.run(_bounded(answer, self._read_limit_s))
        except Exception as error:
            about = {"action": "requirement_failed", "tenant_id": job.route.tenant_id, "operation_id": job.action.operation_id}
            _LOG.warning("a read before an inverse failed: %s", type(error).__name__, extra=about)
            return False
        match answer:
            case Found():
                fields: Mapping[str, Any] | None = {"status": str(answer.status), **(answer.receipt or {})}
            case Absent():
                fields = None
            case _:
                return False
        return condition_met(requires.condition, job.forward, fields)

    def _request(self, job: Job) -> ProbeRequest:
        forward = job.forward
        return ProbeRequest(
            tenant_id=job.route.tenant_id,
            operation_id=forward.operation_id,
            group_id=job.group_id,
            tool=forward.tool or "",
            attempt=forward.last.number if forward.last else 0,
            request_hash=forward.request_hash,
            stored_args=msgspec.json.decode(forward.stored_args) if forward.stored_args else {},
            references=tuple(reference.value for reference in forward.references),
            dispatched_at_ms=forward.last.granted_at_ms if forward.last else None,
            timeout_s=self._read_limit_s,
        )


def intent_of_inverse(job: Job, tool: Tool[..., Any]) -> Intent:
    """The intent to perform the inverse of *job* with *tool*: under the contract that it was prepared with, if it was.

    Raises:
        RequestError: the tool takes other arguments.
    """
    known = job.route.operations.get(job.action.inverse_id)
    first = None if known is None else known.contract
    return Intent(
        contract=contract_of_inverse(tool.contract, tool.argument_names) if first is None else first,
        arguments=tool.bound(job.action.arguments),
        operation_id=job.action.inverse_id,
        group_id=job.group_id,
        # Of an inverse that is proven absent the compensator takes the retry that the ledger offers.
        retry=True,
    )


async def _bounded(awaitable: Awaitable[Any], time_limit_s: float) -> Any:
    async with asyncio.timeout(time_limit_s):
        return await awaitable
