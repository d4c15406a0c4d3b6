"""Checks contracts by their text: of a file, or of a registry with the functions that they are bound to."""

import importlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from landed.core.contract import Contract, Problem
from landed.core.contract_questions import Question, questions
from landed.core.contract_weak import Weakness, at_most_one_effect, weaknesses
from landed.core.vocabulary import ActionClass
from landed.sdk.contract_files import read_contracts
from landed.sdk.errors import ContractError
from landed.sdk.registry import ToolRegistry, load_registry
from landed.sdk.tools import Tool
from landed_services.trust.results import DrillResult, beside, digest_of, read_results

FILE_SUFFIXES = (".yaml", ".yml", ".json")


class ToolReport(msgspec.Struct, frozen=True, kw_only=True):
    """One contract: the five parts as questions with its answers, and where it is weak."""

    tool: str
    file: str | None
    """The contract file; None: declared in code."""
    at_most_one_effect: str
    """What it rests on that the effect happens at most once."""
    questions: tuple[Question, ...]
    weak: tuple[Weakness, ...]
    drill: DrillResult | None = None
    """What the last drill of this very contract saw."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    target: str
    tools: tuple[ToolReport, ...]
    errors: tuple[Problem, ...]
    """What must change; each names tool and field."""


def check(target: str) -> Report:
    """Checks *target*: a file (`.yaml`, `.yml`, `.json`), or a registry as `module:attribute`.

    Raises:
        SettingsError: there is no such registry, or the results of drills beside it cannot be read.
    """
    return _file(target) if target.endswith(FILE_SUFFIXES) or Path(target).is_file() else _registry(target)


def _file(path: str) -> Report:
    try:
        read = read_contracts(path)
    except ContractError as error:
        return Report(target=path, tools=(), errors=error.problems)
    drills = read_results(beside(path))
    named = {contract.tool for contract in read.contracts}
    tools = [_tool(contract, path, drills, beside_it=named) for contract in read.contracts]
    return Report(target=path, tools=tuple(tools), errors=(*read.problems, *_contradicted(tools)))


def _registry(target: str) -> Report:
    try:
        registry = load_registry(target)
    except ContractError as error:
        # A contract that breaks a rule is refused where it stands, when its module is loaded.
        told = tuple(Problem(f"{error.subject}, {one.field}", one.rule) for one in error.problems)
        return Report(target=target, tools=(), errors=told)
    errors: list[Problem] = []
    try:
        registry.check()
    except ContractError as error:
        errors += error.problems
    tools = []
    for tool in _all(registry):
        file = registry.contract_files.get(tool.name)
        drills = read_results(results_path(registry, target, tool.name))
        tools.append(_tool(tool.contract, file, drills, tool.argument_names))
        errors += _inverses(registry, tool.contract)
    return Report(target=target, tools=tuple(tools), errors=(*errors, *_contradicted(tools)))


def _all(registry: ToolRegistry) -> Iterator[Tool[..., Any]]:
    """Its tools, and those that are registered only as the inverse of another."""
    named = {tool.name for tool in registry}
    for tool in registry:
        yield tool
        for name, inverse in tool.inverses.items():
            if name not in named:
                named.add(name)
                yield inverse


def results_path(registry: ToolRegistry, target: str, tool: str) -> Path:
    """Where results of drills of *tool* are kept: beside its contract file, else beside the module of the registry."""
    file = registry.contract_files.get(tool)
    if file is not None:
        return beside(file)
    module = importlib.import_module(target.partition(":")[0])
    return beside(module.__file__ or f"{module.__name__}.py")


def _tool(
    contract: Contract,
    file: str | None,
    drills: dict[str, DrillResult],
    arguments: Iterable[str] | None = None,
    beside_it: Collection[str] | None = None,
) -> ToolReport:
    drill = drills.get(contract.tool)
    current = drill is not None and drill.contract_digest == digest_of(contract)
    weak = list(weaknesses(contract, arguments=None if arguments is None else tuple(arguments)))
    for number, one in enumerate(contract.compensation):
        if beside_it is not None and one.tool not in beside_it:
            what = f"{one.tool!r} needs a contract of its own, and this file has none"
            weak.append(Weakness(f"compensation[{number}].tool", what))
    if drill is not None and not current:
        weak.append(Weakness("tool", "the contract has changed since its drill: landed drill tells whether it still holds"))
    return ToolReport(
        tool=contract.tool,
        file=file,
        at_most_one_effect=at_most_one_effect(contract),
        questions=questions(contract),
        weak=tuple(weak),
        drill=drill if current else None,
    )


def _contradicted(tools: Iterable[ToolReport]) -> list[Problem]:
    return [
        Problem(f"{tool.tool}.{one.field}", f"the drill saw otherwise: {one.what}")
        for tool in tools
        if tool.drill is not None
        for one in tool.drill.differences
    ]


def _inverses(registry: ToolRegistry, contract: Contract) -> list[Problem]:
    found = []
    for number, one in enumerate(contract.compensation):
        inverse = registry.tool(one.tool)
        if inverse is None:
            continue  # `ToolRegistry.check` has said so
        at = f"{contract.tool}.compensation[{number}]"
        if inverse.contract.read_only:
            found.append(Problem(f"{at}.tool", f"{one.tool!r} is a read: it undoes nothing"))
        if one.automatic and inverse.contract.action_class is ActionClass.IRREVERSIBLE:
            found.append(Problem(f"{at}.automatic", f"{one.tool!r} is irreversible: never without a person"))
    return found
