"""Tools: plain functions with a contract, and what their authors register beside them.

    @effect(effect="refund.create", operation_key=OperationKey(argument="key"), reference_field="id", ...)
    def issue_refund(order_id: str, amount: int, key: str) -> dict: ...

    @issue_refund.probe
    def find_refund(request: ProbeRequest) -> ProbeAnswer: ...

A tool is performed through a ledger. Calling it directly raises `UnrecordedCall`; its bare function is `tool.function`.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar, Unpack

from landed.core.contract import Contract, Problem
from landed.core.contract_rules import names_in
from landed.core.identity import RequestError
from landed.sdk.declare import ContractFields, contract_from_fields
from landed.sdk.errors import ContractError, UnrecordedCall
from landed.sdk.listing import ListFunction
from landed.sdk.probes import ProbeAnswer, ProbeRequest
from landed.sdk.staging import StageFunction

P = ParamSpec("P")
R = TypeVar("R")
P2 = ParamSpec("P2")
R2 = TypeVar("R2")
ProbeFunction: TypeAlias = Callable[[ProbeRequest], ProbeAnswer | Awaitable[ProbeAnswer]]
_F = TypeVar("_F", bound=ProbeFunction)
_L = TypeVar("_L", bound=ListFunction)
_S = TypeVar("_S", bound=StageFunction)

OPTIONS: Final = frozenset(
    {"tool", "step", "operation_id", "depends_on", "uses", "replaces", "approval_id", "retry", "wait", "self"},
)
"""Words of `perform`, which no argument of a tool can have as its name."""


class Tool(Generic[P, R]):
    """A function with a contract. Made by `effect`."""

    def __init__(self, function: Callable[P, R], contract: Contract, *, declared: bool = True) -> None:
        self.function: Final = function
        """The bare function: calling it is not recorded."""
        self.contract: Final = contract
        self.declared: Final = declared
        """False: nobody wrote the contract (`without_contract`); it only says how the call is made."""
        self.is_async: Final = inspect.iscoroutinefunction(function)
        self.probe_function: ProbeFunction | None = None
        self.verify_function: ProbeFunction | None = None
        self.list_function: ListFunction | None = None
        self.stage_function: StageFunction | None = None
        self.inverses: dict[str, Tool[..., Any]] = {}
        """Registered inverses by name."""
        self._signature: Final = inspect.signature(function)
        found = _signature_problems(function, self._signature, contract)
        if found:
            raise ContractError(f"contract of {contract.tool!r}", found)
        functools.update_wrapper(self, function, updated=())

    @property
    def name(self) -> str:
        return self.contract.tool

    def __repr__(self) -> str:
        return f"<tool {self.name!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        raise UnrecordedCall(
            f"{self.name!r} has effects: perform it through a ledger; the bare function is {self.name}.function",
        )

    def probe(self, function: _F) -> _F:
        """Registers *function* as the look-up that `outcome_probe` of the contract declares."""
        if self.contract.outcome_probe is None:
            raise self._undeclared("outcome_probe", "must be declared for a probe function to be registered")
        self.probe_function = function
        return function

    def verify(self, function: _F) -> _F:
        """Registers *function* as the read right after a call that `verify` of the contract declares.

        The effect counts as verified when it answers `Found` with status `settled` and the reference that the call showed.
        """
        if self.contract.verify is None:
            raise self._undeclared("verify", "must be declared for a verify function to be registered")
        self.verify_function = function
        return function

    def list_probe(self, function: _L) -> _L:
        """Registers *function* as the list of the effects that the provider has of a span of time, for `landed sweep`."""
        self.list_function = function
        return function

    def stage(self, function: _S) -> _S:
        """Registers *function*, a context manager that gives a `Stage`: where `landed drill` tries the contract."""
        self.stage_function = function
        return function

    def inverse(self, tool: "Tool[P2, R2]") -> "Tool[P2, R2]":
        """Registers *tool*, which has a contract of its own, as one of the inverses that `compensation` declares."""
        declared = [compensation.tool for compensation in self.contract.compensation]
        if not isinstance(tool, Tool):
            raise self._undeclared("compensation", "an inverse is a tool: put @effect(...) below @inverse")
        if tool.name not in declared:
            raise self._undeclared("compensation", f"does not declare {tool.name!r}, only {declared}")
        self.inverses[tool.name] = tool
        return tool

    def _undeclared(self, field: str, rule: str) -> ContractError:
        return ContractError(f"contract of {self.name!r}", [Problem(field, rule)])

    def bound(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """*arguments* as the function takes them, defaults filled in, without the operation key, which the ledger fills.

        Raises:
            RequestError: an argument is missing, unknown, or the operation key.
        """
        key = self.key_argument
        if key is not None and key in arguments:
            raise RequestError(Problem(f"arguments.{key}", "is filled by the ledger with the operation id"))
        parameters = self._signature.parameters
        for name in arguments:
            if name not in parameters:
                raise RequestError(Problem(f"arguments.{name}", f"is not an argument of {self.name!r}"))
        found = {}
        for name, parameter in parameters.items():
            if name == key:
                continue
            if name in arguments:
                found[name] = arguments[name]
            elif parameter.default is not inspect.Parameter.empty:
                found[name] = parameter.default
            else:
                raise RequestError(Problem(f"arguments.{name}", "is required"))
        return found

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the function's arguments."""
        return tuple(self._signature.parameters)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Arguments of the function, without the operation key, which the ledger fills."""
        return tuple(name for name in self._signature.parameters if name != self.key_argument)

    @property
    def key_argument(self) -> str | None:
        key = self.contract.operation_key
        return None if key is None else key.argument


def _signature_problems(function: Callable[..., Any], signature: inspect.Signature, contract: Contract) -> list[Problem]:
    found = []
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        found.append(Problem("function", "must return its answer, not yield"))
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            found.append(Problem(f"arguments.{name}", "must be passed by name: no *args, **kwargs or positional-only"))
        if name in OPTIONS:
            found.append(Problem(f"arguments.{name}", "is a word of perform: call the argument something else"))
    if contract.unit == "item":
        found.append(Problem("unit", "'item' needs a caller that claims each item: perform makes one call for one operation"))
    found += _template_problems(signature, contract)
    key = contract.operation_key
    named = {
        "identity_args": contract.identity_args,
        "volatile_args": contract.volatile_args,
        "free_text_args": contract.free_text_args,
        "stored_args": contract.stored_args,
        "personal": contract.personal,
        "operation_key.argument": (key.argument,) if key is not None and key.argument is not None else (),
        "dry_run": (contract.dry_run,) if contract.dry_run is not None else (),
        "unique_field": (contract.unique_field,) if contract.unique_field is not None else (),
    }
    for field, names in named.items():
        found += [
            Problem(field, f"{name!r} is not an argument of the function") for name in names if name not in signature.parameters
        ]
    return found


def _template_problems(signature: inspect.Signature, contract: Contract) -> list[Problem]:
    """Of templates over arguments: found now, not at the first call."""
    templates = [("business_key", text) for text in (contract.business_key,) if text is not None]
    templates += [("resources", text) for text in contract.resources] + [("implies", text) for text in contract.implies]
    return [
        Problem(field, f"{text!r} names {name!r}, which is not an argument of the function")
        for field, text in templates
        for name in names_in(text)
        if name not in signature.parameters
    ]


def effect(contract: Contract | None = None, /, **fields: Unpack[ContractFields]) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Makes a tool of a function: a ready `Contract`, or its fields by name (see `Contract`).

    `tool` defaults to the name of the function; shorter ways to write a field are those of a contract file (`contract_form`).

    Raises:
        ContractError: lists every field and rule that is broken, when the function is decorated.
    """

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, contract_from_fields(getattr(function, "__name__", ""), contract, fields))

    return decorate


def without_contract(tool: str) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Makes a tool of a function that has no contract yet: refused (`no_contract`), unless the tenant observes *tool* (§10).

    In observe mode it runs, and the log keeps that it had none: what it returns confirms it, nothing looks it up, sends it again
    or takes it back. For the weeks before its contract is written.

    Raises:
        ContractError: the name or a parameter breaks a rule, when the function is decorated.
    """

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, contract_from_fields(tool, None, {"tool": tool, "effect": tool}), declared=False)

    return decorate
