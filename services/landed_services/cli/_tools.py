"""Tools by import path, as a person names them: a function with its contract file, a declared tool, or one of a registry."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._exit import CommandFailed, Exit

if TYPE_CHECKING:
    from landed.core.contract import Contract
    from landed.sdk.registry import ToolRegistry
    from landed.sdk.tools import Tool


def import_from_here() -> None:
    """The team's modules may lie in the current directory, as with `python -m`."""
    sys.path.insert(0, str(Path.cwd()))


def registry_named(path: str) -> ToolRegistry:
    """The registry at *path*, `module:attribute`.

    Raises:
        SettingsError: there is none.
    """
    import_from_here()
    from landed.sdk.registry import load_registry

    return load_registry(path)


def tool_in(registry: ToolRegistry, name: str, path: str) -> Tool[..., Any]:
    """The tool *name* of *registry*, which is at *path*.

    Raises:
        CommandFailed: it has none of that name.
    """
    found = registry.tool(name)
    if found is None:
        raise CommandFailed(f"TOOL: {name!r} is not in {path}", Exit.SETUP)
    return found


def tool_named(path: str, contract: Path | None, name: str | None) -> Tool[..., Any]:
    """The tool at *path*, `module:attribute`.

    Args:
        contract: file with the contract of a plain function.
        name: which contract of the file, or which tool of a registry; None where there is one.

    Raises:
        CommandFailed: says what does not fit.
        ContractError: of the file, or of the function that does not keep to it.
    """
    from landed.sdk.registry import ToolRegistry
    from landed.sdk.tools import Tool

    found = _imported(path)
    if isinstance(found, ToolRegistry):
        _refuse_contract(contract, f"{path} is a registry, whose tools have contracts")
        known = found.tool(name) if name else None
        if known is None:
            names = ", ".join(sorted(one.name for one in found))
            raise CommandFailed(f"--tool: must be one of the registry: {names}", Exit.USAGE)
        return known
    if isinstance(found, Tool):
        _refuse_contract(contract, f"{path} is declared with its contract")
        return found
    if not callable(found):
        raise CommandFailed(f"TOOL: {path} is no function", Exit.SETUP)
    if contract is None:
        raise CommandFailed(f"--contract: {path} is a plain function: name the file with its contract", Exit.USAGE)
    return Tool(found, _contract_of(contract, name))


def _imported(path: str) -> Callable[..., Any] | Any:
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise CommandFailed(f"TOOL: {path!r} must be module:function, such as acme.tools:issue_refund", Exit.USAGE)
    import_from_here()
    from landed.sdk.errors import ContractError

    try:
        module = importlib.import_module(module_name)
    except ContractError:
        raise  # it says itself which tool, field and rule
    except Exception as error:
        raise CommandFailed(f"TOOL: module {module_name!r} cannot be imported ({type(error).__name__})", Exit.SETUP) from error
    if not hasattr(module, attribute):
        raise CommandFailed(f"TOOL: module {module_name!r} has no {attribute!r}", Exit.SETUP)
    return getattr(module, attribute)


def _refuse_contract(contract: Path | None, why: str) -> None:
    if contract is not None:
        raise CommandFailed(f"--contract: is for a plain function; {why}", Exit.USAGE)


def _contract_of(file: Path, name: str | None) -> Contract:
    from landed.sdk.contract_files import load_contracts

    contracts = load_contracts(file)
    fitting = [one for one in contracts if name in (None, one.tool)]
    if len(fitting) != 1:
        names = ", ".join(one.tool for one in contracts)
        raise CommandFailed(f"--tool: must name one of the contracts in {file}: {names}", Exit.USAGE)
    return fitting[0]
