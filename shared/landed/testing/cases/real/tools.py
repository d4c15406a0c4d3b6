"""The registry of tools for the service processes of a run: every tool of every case, over the door of the stand-in provider."""

import inspect
import os
import urllib.request
from pathlib import Path
from typing import Any, Final

import msgspec

from landed.core.contract import Contract
from landed.sdk.operation import current_operation
from landed.sdk.probes import Absent, Ambiguous, Found, ProbeAnswer, ProbeRequest
from landed.sdk.registry import ToolRegistry
from landed.sdk.tools import Tool
from landed.testing.cases.loading import Case
from landed.testing.cases.real.door import Asked, Said, answer_of
from landed.testing.cases.world import World

DOOR: Final = "LANDED_CASES_DOOR"
PLAYED: Final = "LANDED_CASES_PLAYED"
TERMS: Final[dict[str, Any]] = {"first_check_after": 0.3, "backoff": 1.0, "max_interval": 0.5}
"""How soon and how often is looked in real time: a case lasts seconds."""


def registry_of(cases: list[Case], door: str) -> ToolRegistry:
    """All tools of *cases*; names of tools differ from case to case."""
    found = ToolRegistry()
    for case in cases:
        world = World(case, terms=TERMS)
        for tool in _tools(case):
            contract = world.contract(tool)
            if contract.unit == "call":  # a request of several items has a caller of its own
                found.add(_tool(contract, door))
    return found


def _tools(case: Case) -> list[str]:
    named = [*case.contracts, *(step.get("tool") for step in case.steps if step.get("tool"))]
    for declared in case.contracts.values():
        undo = declared.get("undo", ())
        named += [undo] if isinstance(undo, str) else list(undo)
    return list(dict.fromkeys(named))


def _tool(contract: Contract, door: str) -> Tool[..., Any]:
    def function(**arguments: Any) -> object:
        operation = current_operation()
        asked = Asked(
            tool=contract.tool,
            tenant_id=operation.tenant_id,
            operation_id=operation.id,
            keyed=contract.operation_key is not None,
            arguments=arguments,
        )
        return answer_of(_ask(door, asked)).outcome()

    key = contract.operation_key.argument if contract.operation_key is not None else None
    names = {*contract.stored_args, *contract.volatile_args, *contract.free_text_args, *contract.identity_args}
    names |= {key} if key is not None else set()
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in sorted(names)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    made: Tool[..., Any] = Tool(function, contract)

    def look(request: ProbeRequest) -> ProbeAnswer:
        return _found(
            _ask(door, Asked(tool=contract.tool, tenant_id=request.tenant_id, operation_id=request.operation_id, look=request))
        )

    if contract.outcome_probe is not None:
        made.probe(look)
    if contract.verify is not None:
        made.verify(look)
    return made


def _ask(door: str, asked: Asked) -> Said:
    with urllib.request.urlopen(door, data=msgspec.json.encode(asked), timeout=30) as response:
        return msgspec.json.decode(response.read(), type=Said)


def _found(said: Said) -> ProbeAnswer:
    match said.kind:
        case "found":
            status: Any = said.status
            return Found(reference=said.reference, receipt=said.fields, matched_on=said.matched_on, status=status)
        case "absent":
            return Absent()
        case "ambiguous":
            return Ambiguous(str(said.said.get("reason")))
        case _:
            raise TimeoutError("the look failed")


def __getattr__(name: str) -> ToolRegistry:
    """`registry`, made of what the environment names: only the process of a run has one."""
    if name != "registry":
        raise AttributeError(name)
    cases = msgspec.json.decode(Path(os.environ[PLAYED]).read_bytes(), type=list[Case])
    return registry_of(cases, os.environ[DOOR])
