"""The form of a contract in files and keyword arguments: the fields of `Contract`, and shorter ways to write some of them.

| field | may be written |
|---|---|
| `effect` | its kind alone |
| `effect.reversible` | `true`, `false` (or the text), `conditional` |
| `outcome_probe`, `verify` | the name of the tool alone |
| `webhook` | what it is matched by, alone |
| `compensation` | one alone, without the list; the name of its tool alone |
| `compensation.input_from` | one source alone |
| lists of codes, values of `success_when` | numbers and truth values, taken as their text |

Equal contracts have one document (`document_of`), and it reads back as the same contract.

Source: docs/contracts.md.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from landed.core.contract import Contract, Problem
from landed.core.contract_rules import problems

_FIELDS: Final = {field.name: field for field in msgspec.structs.fields(Contract)}
_REQUIRED: Final = {"tool": "the name of the tool", "effect": "what the tool does, `resource.verb`"}


def contract_of(document: object, *, tool: str | None = None) -> tuple[Contract | None, list[Problem]]:
    """The contract that *document* says, and every problem with it: of form, or, where the form is right, of the rules.

    Args:
        document: of a file, or fields by name; values of the core's own types are taken as well.
        tool: name of the tool where the document has none.
    """
    if not isinstance(document, Mapping):
        return None, [Problem("contract", f"must be an object of fields, is {_kind(document)}")]
    found: list[Problem] = []
    values: dict[str, Any] = {} if tool is None else {"tool": tool}
    for name, value in document.items():
        field = _FIELDS.get(name) if isinstance(name, str) else None
        if field is None:
            found.append(Problem(str(name), "is not a field of a contract"))
            continue
        try:
            values[name] = msgspec.convert(_LONG.get(name, _as_is)(msgspec.to_builtins(value)), field.type)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            found.append(_problem(name, error))
    told = {problem.field for problem in found}
    for name, what in _REQUIRED.items():
        if name not in values and not any(field.split(".")[0] == name for field in told):
            found.append(Problem(name, f"is required: {what}"))
    if found:
        return None, found
    contract = Contract(**values)
    return contract, list(problems(contract))


def document_of(contract: Contract) -> dict[str, Any]:
    """The document of *contract*: plain values only, defaults left out."""
    document: dict[str, Any] = msgspec.to_builtins(contract)
    reversible = document["effect"].get("reversible")
    if reversible in _TRUTH:
        document["effect"]["reversible"] = _TRUTH[reversible]
    return document


_TRUTH: Final = {"true": True, "false": False}


def _kind(value: object) -> str:
    return {bool: "a truth value", int: "a number", float: "a number", str: "text", list: "a list"}.get(
        type(value), "nothing" if value is None else type(value).__name__
    )


def _problem(name: str, error: Exception) -> Problem:
    """*error* of a nested value with the path put in front, in the product's form."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem(name, f"is of a wrong type ({type(error).__name__})")
    text, _, path = str(error).partition(" - at `$")
    return Problem(name + path.rstrip("`"), text[:1].lower() + text[1:])


# ---- the long form of what may be written shorter ----------------------------------------------------------------------


def _as_is(value: Any) -> Any:
    return value


def _named(field: str) -> Callable[[Any], Any]:
    return lambda value: {field: value} if isinstance(value, str) else value


def _effect(value: Any) -> Any:
    value = _named("kind")(value)
    if isinstance(value, dict) and isinstance(value.get("reversible"), bool):
        return {**value, "reversible": _text(value["reversible"])}
    return value


def _text(value: Any) -> Any:
    """A number or truth value as the text that an answer's field is compared by."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _text(one) for name, one in value.items()}
    return [_text(one) for one in value] if isinstance(value, list) else value


def _compensation(value: Any) -> Any:
    several = value if isinstance(value, list) else [value] if isinstance(value, dict | str) else value
    return [_inverse(one) for one in several] if isinstance(several, list) else several


def _inverse(value: Any) -> Any:
    value = _named("tool")(value)
    if not isinstance(value, dict):
        return value
    long = {name: _texts(one) if name in ("gone_errors", "next_on") else one for name, one in value.items()}
    if isinstance(long.get("input_from"), str):
        long["input_from"] = [long["input_from"]]
    return long


_LONG: Final[dict[str, Callable[[Any], Any]]] = {
    "effect": _effect,
    "verify": _named("tool"),
    "outcome_probe": _named("tool"),
    "webhook": _named("match"),
    "compensation": _compensation,
    "success_when": _texts,
    "no_effect_errors": _texts,
    "already_exists_errors": _texts,
    "removed_when": _texts,
}
