"""Runs probes: the team's own code, authorized, bounded in time, and taken for evidence only where it answers as it must."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from landed.core.backwards import forward_contract, looked_up_by, read_backwards
from landed.core.contract import Contract
from landed.core.reconciliation import ProbeAnswer, ProbeFailed
from landed.core.state import Operation
from landed.ports.tables import DueOperation
from landed.sdk.answer import word
from landed.sdk.looking import request_for, taken
from landed.sdk.providers import Access
from landed.sdk.registry import ToolRegistry
from landed.sdk.tools import ProbeFunction
from landed_services.work.places import Places

_LOG = logging.getLogger("landed.reconciler")
NOT_AUTHORIZED: Final = "not_authorized"
_THROTTLED: Final = frozenset({"429", "503"})


class Asked(msgspec.Struct, frozen=True):
    """A probe that was started."""

    due: DueOperation
    at_ms: int
    """When, on the log's clock."""
    clock_known: bool


class Looked(msgspec.Struct, frozen=True):
    """A probe that is over."""

    asked: Asked
    answer: ProbeAnswer
    throttled_s: float | None = None
    """The provider wants to be left alone for so long; 0: it does not say how long."""


class _Answered(msgspec.Struct, frozen=True):
    answer: ProbeAnswer
    throttled_s: float | None = None


def terms_of(due: DueOperation) -> tuple[Operation, Contract | None]:
    """The operation as it is looked up, and whose contract declares the probe: an inverse without one borrows the forward one."""
    lent = forward_contract(due.operation, due.forward)
    return (due.operation, due.operation.contract) if lent is None else (looked_up_by(due.operation, lent), lent)


class ProbeRunner:
    """Runs the probe of a tool with a bound on its time and on how many run at once.

    A tool of which *at_once* threads were left behind is stuck: it is not probed any more until one of them returns, so that it
    costs the others nothing.

    Args:
        registry: the team's tools.
        time_limit_s: seconds that one probe may take.
        at_once: probes that run at the same time.
    """

    def __init__(self, registry: ToolRegistry, *, time_limit_s: float = 10.0, at_once: int = 64) -> None:
        self._registry = registry
        self._time_limit_s = time_limit_s
        self._places: Places[Asked, _Answered] = Places(at_once, name="landed-probe")

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return self._places.is_full

    def can_probe(self, contract: Contract) -> bool:
        """Whether the probe that *contract* declares is registered here."""
        return self._registry.probe(contract) is not None

    def is_stuck(self, tool: str) -> bool:
        """Whether so many probes of *tool* hang that no more are started."""
        return self._places.is_stuck(tool)

    def left_behind(self) -> int:
        """Threads of probes that hang."""
        return self._places.left_behind()

    def start(self, asked: Asked, *, when_done: Callable[[], None] = lambda: None) -> bool:
        """Starts the probe; False when there is no place for it.

        Args:
            when_done: called from its thread once it has answered.

        Raises:
            ValueError: the contract declares no probe that is registered here; ask `can_probe` before.
        """
        due = asked.due
        _, contract = terms_of(due)
        probe = None if contract is None else self._registry.probe(contract)
        if contract is None or probe is None:
            raise ValueError(f"operation {due.operation.operation_id!r} has no registered probe")

        def work() -> _Answered:
            return self._asked(probe, asked, contract)

        # By the tool of the operation, as `is_stuck` is asked: inverses that borrow a probe that hangs hold up their own kind.
        key = due.operation.tool or contract.tool
        return self._places.start(key, asked, work, limit_s=self._time_limit_s, when_done=when_done)

    def take(self) -> list[Looked]:
        """Probes that are over; `ProbeFailed` where one raised, answered something else, or took too long."""
        found = []
        for one in self._places.take():
            if one.result is not None:
                found.append(Looked(one.about, one.result.answer, one.result.throttled_s))
                continue
            tool = one.about.due.operation.tool
            about = {"action": "probe_hangs", "tool": tool, "left_behind": self._places.left_behind()}
            _LOG.warning("a probe takes too long, it is given up", extra=about)
            found.append(Looked(one.about, ProbeFailed("timeout")))
        return found

    def close(self) -> None:
        """Starts nothing any more; probes that run are left behind."""
        self._places.close()

    def _asked(self, probe: ProbeFunction, asked: Asked, contract: Contract) -> _Answered:
        due = asked.due
        try:
            if not self._registry.providers.allows(self._access(due, contract)):
                return _Answered(ProbeFailed(NOT_AUTHORIZED))
            backwards = forward_contract(due.operation, due.forward) is not None
            about = msgspec.structs.replace(due, operation=due.forward) if backwards and due.forward is not None else due
            answer: Any = probe(request_for(about, contract, self._time_limit_s))
            if inspect.isawaitable(answer):
                answer = asyncio.run(_bounded(answer, self._time_limit_s))
            found = taken(answer, contract)
            if about is not due:
                found = read_backwards(found, about.operation, contract, asked_at_ms=asked.at_ms)
            return _Answered(found)
        except BaseException as error:
            # The text of an error may hold content or secrets: only its class is kept.
            told = {"action": "probe_failed", "tenant_id": due.tenant_id, "operation_id": due.operation.operation_id}
            _LOG.warning("probe failed: %s", type(error).__name__, extra=told)
            return _Answered(ProbeFailed(type(error).__name__), throttled_s(error))

    def _access(self, due: DueOperation, contract: Contract) -> Access:
        return Access(
            tenant_id=due.tenant_id,
            action="probe",
            tool=contract.tool,
            provider=self._registry.providers.of(contract.tool).name,
            operation_id=due.operation.operation_id,
            group_id=due.group_id,
        )


def throttled_s(error: BaseException) -> float | None:
    """Seconds for which the provider wants to be left alone; 0: it does not say how long; None: it wants no such thing."""
    try:
        said = {word(getattr(error, name, None)) for name in ("status", "status_code", "code")}
        after: Any = getattr(error, "retry_after", None)
    except Exception:
        return None  # an error of a library whose fields are computed, and fail
    if not said & _THROTTLED:
        return None
    return min(max(float(after), 0.0), 3600.0) if isinstance(after, int | float) and after == after else 0.0


async def _bounded(awaitable: Awaitable[Any], time_limit_s: float) -> Any:
    async with asyncio.timeout(time_limit_s):
        return await awaitable
