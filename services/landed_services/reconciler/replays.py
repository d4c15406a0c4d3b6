"""Sends requests again: a claim of the same operation, and the registered tool called through the protocol of the SDK.

Whether it may be sent is for the ledger to say, at the claim; what the call came to is classified and recorded as any other call.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from landed.core.state import Operation
from landed.ports.tables import DueOperation
from landed.sdk.async_driver import AsyncDriver
from landed.sdk.drivers import SyncDriver
from landed.sdk.parts import Parts
from landed.sdk.providers import Access
from landed.sdk.registry import ToolRegistry
from landed.sdk.replaying import CannotReplay, arguments_of, cannot_replay, replay_of
from landed.sdk.results import Result
from landed_services.reconciler.probes import NOT_AUTHORIZED
from landed_services.work.places import Places

_LOG = logging.getLogger("landed.reconciler")
_OVERHEAD_S: Final = 5.0
"""Seconds beside verdict, call and record that a replay may take before its place goes to others."""


class Replayed(msgspec.Struct, frozen=True):
    """A replay that is over, as far as this process knows."""

    due: DueOperation
    result: Result | None = None
    """None: it hangs, or it was never begun."""
    not_begun: str | None = None
    """Why no claim was made, in one word."""


class ReplayRunner:
    """Replays with a bound on how many run at once. A call that hangs keeps its lease as the contract allows, not its place.

    Args:
        registry: the team's tools.
        parts: log, inbox and protocol that the claims go through.
        at_once: replays at the same time.
    """

    def __init__(self, registry: ToolRegistry, parts: Parts, *, at_once: int = 16) -> None:
        self._registry = registry
        self._parts = parts
        self._places: Places[DueOperation, Replayed] = Places(at_once, name="landed-replay")

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return self._places.is_full

    def cannot_replay(self, operation: Operation) -> str | None:
        """Why this process cannot send the request of *operation* again, in one word; None where it can."""
        return cannot_replay(self._registry.tool(operation.tool or ""), operation)

    def is_stuck(self, tool: str) -> bool:
        """Whether so many calls of *tool* hang that no more are started."""
        return self._places.is_stuck(tool)

    def left_behind(self) -> int:
        """Threads of calls that hang."""
        return self._places.left_behind()

    def start(self, due: DueOperation, reason: str, *, when_done: Callable[[], None] = lambda: None) -> bool:
        """Claims and calls; False when there is no place for it.

        Args:
            reason: why it is sent again, recorded with the claim.
            when_done: called from its thread once it is over.
        """
        contract = due.operation.contract
        call_s = 0.0 if contract is None else max(contract.lease, contract.longest_processing)
        limit_s = self._parts.settings.wait + call_s + self._parts.settings.record_wait + _OVERHEAD_S

        def work() -> Replayed:
            return self._replayed(due, reason)

        return self._places.start(due.operation.tool or "", due, work, limit_s=limit_s, when_done=when_done)

    def take(self) -> list[Replayed]:
        """Replays that are over."""
        found = []
        for one in self._places.take():
            if one.result is None:
                about = {"action": "replay_hangs", "tool": one.about.operation.tool, "left_behind": self._places.left_behind()}
                _LOG.warning("a call takes too long, its place goes to others", extra=about)
            found.append(one.result or Replayed(one.about))
        return found

    def close(self, timeout_s: float = 5.0) -> None:
        """Starts nothing any more, and ends the connection; calls that run are left behind."""
        self._places.close()
        self._parts.close(timeout_s)

    def _replayed(self, due: DueOperation, reason: str) -> Replayed:
        operation = due.operation
        about = {"tenant_id": due.tenant_id, "operation_id": operation.operation_id, "tool": operation.tool}
        try:
            tool, contract, _ = arguments_of(self._registry.tool(operation.tool or ""), operation)
            access = Access(
                tenant_id=due.tenant_id,
                action="replay",
                tool=contract.tool,
                provider=self._registry.providers.of(contract.tool).name,
                operation_id=operation.operation_id,
                group_id=due.group_id,
            )
            if not self._registry.providers.allows(access):
                return Replayed(due, not_begun=NOT_AUTHORIZED)
            intent = replay_of(tool, operation, group_id=due.group_id, reason=reason)
            _LOG.info("replay", extra={"action": "replay", "reason": reason, **about})
            steps = self._parts.protocol_for(due.tenant_id).perform(intent, tool.function, tool.verify_function)
            if tool.is_async or inspect.iscoroutinefunction(tool.verify_function):
                return Replayed(due, asyncio.run(AsyncDriver(self._parts.doors).run(steps)))
            return Replayed(due, SyncDriver(self._parts.doors).run(steps))
        except CannotReplay as error:
            return Replayed(due, not_begun=error.why)
        except BaseException as error:
            # What the protocol could not take; whatever was claimed is withdrawn or recorded by it.
            _LOG.error("replay failed: %s", type(error).__name__, extra={"action": "replay_failed", **about})
            return Replayed(due)
