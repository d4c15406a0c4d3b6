"""What a registry says about the providers behind its tools: how much the ledger itself may ask of them, and who may be asked.

The ledger asks a provider only to settle what is in doubt: a look, or the same request once more. Both come out of one budget of
the provider that all reconcilers share, so that its own limits are left to the calls that people wait for.

Source: docs/semantics.md §7.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final, Literal, TypeVar

import msgspec

from landed.core.contract import Problem
from landed.sdk.errors import ContractError

PER_SECOND: Final = 20.0
AT_ONCE: Final = 8


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of one provider."""

    name: str
    per_second: float | None = PER_SECOND
    """Looks and repeated requests a second, of all reconcilers together; None: as many as there is room for."""
    at_once: int = AT_ONCE
    """Of them at the same time, in one reconciler."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the ledger is about to make by itself."""

    tenant_id: str
    action: Literal["probe", "replay", "compensate"]
    """`probe`: a read. `replay`: the same request once more. `compensate`: an inverse, or the read that it requires."""
    tool: str
    """The tool whose effect is looked for, or which is called again."""
    provider: str
    operation_id: str
    group_id: str | None = None


Authorize = Callable[[Access], bool]
_A = TypeVar("_A", bound=Authorize)


class Providers:
    """Providers of a registry, by tool. A tool that none was named for is a provider of its own, with the default budget."""

    def __init__(self) -> None:
        self._of: dict[str, Provider] = {}
        self._alone: dict[str, Provider] = {}
        self._authorize: Authorize | None = None

    def add(self, name: str, *, tools: Sequence[str], per_second: float | None = PER_SECOND, at_once: int = AT_ONCE) -> Provider:
        """Names the provider behind *tools*, and its budget.

        Raises:
            ContractError: a number is out of range, or a tool has a provider already.
        """
        found = []
        if isinstance(tools, str) or not tools:
            found.append(Problem("tools", "must be a list of names of tools"))
        if per_second is not None and not (isfinite(per_second) and per_second > 0):
            found.append(Problem("per_second", "must be greater than 0 (a second), or None"))
        if at_once < 1:
            found.append(Problem("at_once", "must be at least 1"))
        found += [Problem("tools", f"{tool!r} has a provider already") for tool in tools if tool in self._of]
        if found:
            raise ContractError(f"provider {name!r}", found)
        provider = Provider(name=name, per_second=per_second, at_once=at_once)
        self._of.update(dict.fromkeys(tools, provider))
        return provider

    def of(self, tool: str) -> Provider:
        """The provider behind *tool*."""
        named = self._of.get(tool)
        if named is not None:
            return named
        alone = self._alone.get(tool)
        if alone is None:
            alone = self._alone[tool] = Provider(name=tool)
        return alone

    def tools_of(self, provider: str) -> tuple[str, ...]:
        """Tools known to be behind *provider*."""
        named = tuple(tool for tool, one in self._of.items() if one.name == provider)
        return named or ((provider,) if provider in self._alone else ())

    def authorize(self, function: _A) -> _A:
        """Registers *function* to say, right before each call that the ledger makes by itself, whether it may be made.

        Without one every call may: with the credentials of the process. One that raises, or answers anything but True, denies.
        """
        self._authorize = function
        return function

    def allows(self, access: Access) -> bool:
        """Whether the call may be made."""
        if self._authorize is None:
            return True
        try:
            return self._authorize(access) is True
        except Exception:
            return False
