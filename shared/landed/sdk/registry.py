"""The registry of a team's tools: what a process that looks effects up, replays or undoes them loads by import path."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, Unpack

from landed.core.contract import Contract, Problem
from landed.sdk.contract_files import load_contracts
from landed.sdk.declare import ContractFields
from landed.sdk.errors import ContractError, SettingsError
from landed.sdk.providers import Providers
from landed.sdk.tools import ProbeFunction, Tool, effect

P = ParamSpec("P")
R = TypeVar("R")
_Read = TypeVar("_Read", bound=ProbeFunction)


class ToolRegistry:
    """Tools by name. Nothing is registered by importing a module of ours: an author adds each tool.

    registry = ToolRegistry()

    @registry.effect(effect="refund.create", ...)
    def issue_refund(order_id: str) -> dict: ...

    Contracts of a file are bound to functions by the name of the tool:

    registry.load_contracts("contracts.yaml")

    @registry.bind("payments.refund")
    def issue_refund(order_id: str) -> dict: ...
    """

    def __init__(self) -> None:
        self.providers: Final = Providers()
        """Who is behind the tools, and how much the ledger may ask of them by itself."""
        self._tools: dict[str, Tool[..., Any]] = {}
        self._requirements: dict[str, ProbeFunction] = {}
        self._unbound: dict[str, tuple[Contract, str]] = {}
        self.contract_files: dict[str, str] = {}
        """Path of the contract file by name of the tool."""

    def add(self, tool: Tool[P, R]) -> Tool[P, R]:
        """Registers *tool*.

        Raises:
            ContractError: another tool has the same name, or nobody wrote its contract: there is nothing that services could do
                for it.
        """
        if not tool.declared:
            raise ContractError(f"contract of {tool.name!r}", [Problem("tool", "has no contract, and a registry needs one")])
        known = self._tools.setdefault(tool.name, tool)
        if known is not tool:
            raise ContractError(f"contract of {tool.name!r}", [Problem("tool", "another tool of the registry has this name")])
        return tool

    def effect(
        self, contract: Contract | None = None, /, **fields: Unpack[ContractFields]
    ) -> Callable[[Callable[P, R]], Tool[P, R]]:
        """As `landed.effect`, and registers the tool."""
        make = effect(contract, **fields)

        def decorate(function: Callable[P, R]) -> Tool[P, R]:
            return self.add(make(function))

        return decorate

    def load_contracts(self, path: str | Path) -> tuple[str, ...]:
        """Reads the contracts of a file (YAML or JSON) for `bind`; the names of their tools, in the file's order.

        Raises:
            ContractError: names the file and every tool, field and rule that is broken; nothing of the file is taken.
        """
        contracts = load_contracts(path)
        known = [one.tool for one in contracts if one.tool in self._tools or one.tool in self._unbound]
        if known:
            raise ContractError(str(path), [Problem(name, "has a contract in the registry already") for name in known])
        for contract in contracts:
            self._unbound[contract.tool] = (contract, str(path))
            self.contract_files[contract.tool] = str(path)
        return tuple(contract.tool for contract in contracts)

    def bind(self, tool: str) -> Callable[[Callable[P, R]], Tool[P, R]]:
        """Makes a tool of a function under the contract that a file gave for *tool*, and registers it.

        Raises:
            ContractError: no file gave such a contract (a tool with effects and no contract is refused), it is bound already, or
                the function does not keep to it.
        """
        found = self._unbound.get(tool)
        if found is None:
            rule = "is bound to a function already" if tool in self._tools else "no contract of that name was loaded"
            raise ContractError(f"contract of {tool!r}", [Problem("tool", rule)])

        def decorate(function: Callable[P, R]) -> Tool[P, R]:
            contract, path = found
            try:
                made = self.add(Tool(function, contract))
            except ContractError as error:
                raise ContractError(path, [Problem(f"{tool}.{one.field}", one.rule) for one in error.problems]) from None
            self._unbound.pop(tool, None)
            return made

        return decorate

    def requirement(self, name: str) -> Callable[[_Read], _Read]:
        """Registers a function as the read *name* that a compensation `requires`: it is made right before the inverse.

        It is asked about the forward operation, as a probe is. Its answer is `Found` with the fields that the condition names in
        `receipt`, or `Absent`; anything else, an error too, shows nothing, and the inverse waits.

        Raises:
            ContractError: another function has the name.
        """

        def decorate(function: _Read) -> _Read:
            if self._requirements.setdefault(name, function) is not function:
                raise ContractError(f"requirement {name!r}", [Problem("read", "another function of the registry has this name")])
            return function

        return decorate

    def requirement_of(self, name: str) -> ProbeFunction | None:
        """The read of that name; None where there is none."""
        return self._requirements.get(name)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self._tools.values())

    def tool(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name, also where it is registered only as the inverse of another; None where there is none."""
        found = self._tools.get(name)
        if found is not None:
            return found
        return next((tool.inverses[name] for tool in self._tools.values() if name in tool.inverses), None)

    def probe(self, contract: Contract) -> ProbeFunction | None:
        """The look-up for operations under *contract*, which came from the log.

        None where this process has no such tool, or where it names another `outcome_probe` than the contract: an operation is
        looked up as its own contract says, not as today's code does.
        """
        tool = self.tool(contract.tool)
        if tool is None or contract.outcome_probe is None or tool.contract.outcome_probe is None:
            return None
        return tool.probe_function if tool.contract.outcome_probe.tool == contract.outcome_probe.tool else None

    def check(self) -> None:
        """Refuses a registry in which a contract declares what no function was registered for.

        Raises:
            ContractError: lists every tool and field.
        """
        found = [Problem(f"{name}.tool", f"of {path} is bound to no function") for name, (_, path) in self._unbound.items()]
        for tool in self:
            contract = tool.contract
            if contract.outcome_probe is not None and tool.probe_function is None:
                found.append(Problem(f"{tool.name}.outcome_probe", "is declared and no @probe function is registered"))
            if contract.verify is not None and tool.verify_function is None:
                found.append(Problem(f"{tool.name}.verify", "is declared and no @verify function is registered"))
            for compensation in contract.compensation:
                if compensation.tool not in tool.inverses and compensation.tool not in self._tools:
                    found.append(Problem(f"{tool.name}.compensation", f"{compensation.tool!r} is not registered"))
                required = compensation.requires
                if required is not None and required.read not in self._requirements:
                    found.append(Problem(f"{tool.name}.compensation.requires", f"the read {required.read!r} is not registered"))
        if found:
            raise ContractError("tool registry", found)


def load_registry(path: str) -> ToolRegistry:
    """The registry at *path*, `module:attribute`, such as `acme.tools:registry`.

    Raises:
        SettingsError: names what is wrong with the path; an error of the module itself is its cause.
        ContractError: a contract of the module breaks a rule.
    """
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise _bad(path, "must be module:attribute")
    try:
        found = getattr(importlib.import_module(module_name), attribute, None)
    except ContractError:
        raise  # it says itself which tool, field and rule
    except Exception as error:
        raise _bad(path, f"module {module_name!r} cannot be imported ({type(error).__name__})") from error
    if not isinstance(found, ToolRegistry):
        raise _bad(path, f"{attribute!r} is {'missing' if found is None else 'not a ToolRegistry'}")
    return found


def _bad(path: str, rule: str) -> SettingsError:
    return SettingsError("tool registry", [Problem(f"tools {path!r}", rule)])
