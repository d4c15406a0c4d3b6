"""How a drill calls a tool and its look-up at the stage: by the SDK itself, on a ledger in memory that is new for every call.

So a second call under the same operation id goes out as it would from a process that lost its memory of the first.
"""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, Final

from landed.adapters.memory import MemoryLedger
from landed.core.identity import stored_arguments
from landed.core.reconciliation import ProbeAnswer, ProbeFailed
from landed.core.sweeping import Effect
from landed.sdk.async_ledger import AsyncLedger
from landed.sdk.ledger import Ledger
from landed.sdk.listing import ListRequest
from landed.sdk.looking import taken
from landed.sdk.probes import ProbeRequest
from landed.sdk.results import Result
from landed.sdk.tools import ProbeFunction, Tool
from landed_services.trust.bounded import within
from landed_services.trust.listing import listed

TENANT: Final = "drill"
PROBE_LIMIT_S: Final = 10.0
_ALL_TIME_MS: Final = 2**53


def call(tool: Tool[..., Any], operation_id: str, arguments: Mapping[str, Any]) -> Result:
    """One call of *tool* for *operation_id*, classified as in earnest."""
    memory = MemoryLedger()
    if not tool.is_async and not inspect.iscoroutinefunction(tool.verify_function):
        with Ledger.on(memory, tenant=TENANT) as ledger:
            return ledger.perform(tool, operation_id=operation_id, **arguments)

    async def perform() -> Result:
        async with AsyncLedger.on(memory, tenant=TENANT) as ledger:
            return await ledger.perform(tool, operation_id=operation_id, **arguments)

    return asyncio.run(perform())


def look(
    tool: Tool[..., Any],
    probe: ProbeFunction,
    operation_id: str,
    arguments: Mapping[str, Any],
    references: tuple[str, ...] = (),
) -> ProbeAnswer:
    """One look of *probe* for the effect of *operation_id*, taken as a reconciler takes it."""
    request = ProbeRequest(
        tenant_id=TENANT,
        operation_id=operation_id,
        tool=tool.name,
        attempt=1,
        stored_args=stored_arguments(tool.contract, tool.bound(arguments)),
        references=references,
        timeout_s=PROBE_LIMIT_S,
    )

    def ask() -> Any:
        answer = probe(request)
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer

    try:
        return taken(within(PROBE_LIMIT_S, ask, name="landed-drill-probe"), tool.contract)
    except Exception as error:
        return ProbeFailed(type(error).__name__)


def effects_of(tool: Tool[..., Any], operation_id: str) -> list[Effect] | None:
    """Effects that the tool's list probe shows of *operation_id*; None where it has none."""
    if tool.list_function is None:
        return None
    request = ListRequest(tenant_id=TENANT, tool=tool.name, from_ms=0, to_ms=_ALL_TIME_MS, timeout_s=PROBE_LIMIT_S)
    effects, _ = listed(tool, request)
    return [effect for effect in effects if effect.operation_id == operation_id]


async def _awaited(answer: Any) -> Any:
    return await answer
