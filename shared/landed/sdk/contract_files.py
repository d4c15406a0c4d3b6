"""Contracts from a file, YAML or JSON: one contract, a list of them, or an object with `contracts`.

JSON needs nothing beside the library; YAML needs `pip install 'landed[yaml]'`. The form is that of `landed.core.contract_form`;
its JSON Schema is printed by `landed contracts schema`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from landed.core.contract import Contract, Problem
from landed.core.contract_form import contract_of
from landed.sdk.errors import ContractError

FILE_BYTES_MAX: Final = 4 << 20


class ContractFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says, right or wrong."""

    path: str
    contracts: tuple[Contract, ...]
    """Those without a problem, in the file's order."""
    problems: tuple[Problem, ...]
    """Everything that is wrong, field `<tool>.<field>`."""


def load_contracts(path: str | Path) -> tuple[Contract, ...]:
    """The contracts in the file at *path*, in its order.

    Raises:
        ContractError: names the file and lists every tool, field and rule that is broken; no contract of it is taken.
    """
    found = read_contracts(path)
    if found.problems:
        raise ContractError(found.path, found.problems)
    return found.contracts


def read_contracts(path: str | Path) -> ContractFile:
    """As `load_contracts`, with what is right and what is wrong side by side; never raises for what is in the file.

    Raises:
        ContractError: it cannot be read at all, or is no YAML or JSON.
    """
    file = Path(path)
    document = read_document(file)
    contracts: list[Contract] = []
    found: list[Problem] = []
    for number, one in enumerate(_listed(file, document)):
        contract, problems = contract_of(one)
        name = one.get("tool") if isinstance(one, dict) else None
        subject = name if isinstance(name, str) and name else f"contracts[{number}]"
        if contract is not None and any(other.tool == contract.tool for other in contracts):
            problems.append(Problem("tool", "another contract of the file has this name"))
        found += [Problem(f"{subject}.{problem.field}", problem.rule) for problem in problems]
        if contract is not None and not problems:
            contracts.append(contract)
    return ContractFile(path=str(file), contracts=tuple(contracts), problems=tuple(found))


def _listed(file: Path, document: object) -> list[Any]:
    if isinstance(document, dict) and "contracts" in document:
        unknown = [str(name) for name in document if name not in ("contracts", "$schema")]
        if unknown:
            raise ContractError(str(file), [Problem(name, "is not known beside `contracts`") for name in unknown])
        document = document["contracts"]
        if not isinstance(document, list):
            raise ContractError(str(file), [Problem("contracts", "must be a list of contracts")])
    if isinstance(document, dict):
        return [document]
    if not isinstance(document, list) or not document:
        raise ContractError(str(file), [Problem("contracts", "there are none: a contract, or a list of them, is expected")])
    return document


def read_document(file: Path) -> object:
    """What the file at *file* holds, before it is taken as contracts. Raises ContractError as `read_contracts`."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ContractError(str(file), [Problem("file", f"cannot be read ({error.strerror or type(error).__name__})")]) from error
    if len(content) > FILE_BYTES_MAX:
        raise ContractError(str(file), [Problem("file", f"must be at most {FILE_BYTES_MAX} bytes")])
    try:
        text = content.decode()
        return _json(text) if file.suffix == ".json" else _yaml()(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(str(file), [Problem("file", _one_line(error))]) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refused_constant)


def _refused_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number that a contract may hold")


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """An object of *pairs*: a field that is given twice would silently be what stands last."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        _add(found, name, value)
    return found


def _add(found: dict[Any, Any], name: Any, value: Any) -> None:
    if name in found:
        raise ValueError(f"{name!r} is given twice")
    found[name] = value


def _yaml() -> Callable[[str], object]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError("contracts in YAML need: pip install 'landed[yaml]'") from None

    class Loader(yaml.SafeLoader):
        """Plain values only, and every field once."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            del deep
            for name, _ in node.value:
                if name.tag == "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, "merge keys are not taken", name.start_mark)
            pairs = [
                (self.construct_object(name, deep=True), self.construct_object(value, deep=True)) for name, value in node.value
            ]
            found: dict[Any, Any] = {}
            for (name, value), (written, _) in zip(pairs, node.value, strict=True):
                try:
                    _add(found, name, value)
                except (ValueError, TypeError) as error:
                    raise yaml.constructor.ConstructorError(None, None, str(error), written.start_mark) from None
            return found

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            # An alias can stand for a document of any size, and a person who reads the contract does not see it whole.
            if self.check_event(yaml.AliasEvent):
                raise yaml.composer.ComposerError(None, None, "aliases are not taken", None)
            return super().compose_node(parent, index)

    def load(text: str) -> object:
        try:
            return yaml.load(text, Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
            raise ValueError(f"{error.problem or error.context}{where}") from error
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error

    return load
