"""Who an operation is: rules for ids, and the hash that correlates retries of one request.

Source: docs/semantics.md §1; canonical JSON: RFC 8785.
"""

import hashlib
import hmac
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import rfc8785

from landed.core.contract import Contract, Problem
from landed.core.errors import LandedError
from landed.core.state import COMPENSATE

ID_CHARACTERS_MAX: Final = 180
INTEGER_MAX: Final = 2**53
_RESERVED: Final = (COMPENSATE, "policy:")


class RequestError(LandedError, ValueError):
    """A request that cannot be taken: names the field and the rule."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _refuse(field: str, rule: str) -> RequestError:
    return RequestError(Problem(field, rule))


def check_id(field: str, value: object, *, inverse_allowed: bool = False) -> str:
    """*value* if it may be an id.

    Raises:
        RequestError: names *field* and the rule it breaks.
    """
    if not isinstance(value, str):
        raise _refuse(field, f"must be text, got {type(value).__name__}")
    if not 1 <= len(value) <= ID_CHARACTERS_MAX:
        raise _refuse(field, f"must have 1 to {ID_CHARACTERS_MAX} characters, got {len(value)}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        raise _refuse(field, "must not contain control characters or lone surrogates")
    body = value[len(COMPENSATE) :] if inverse_allowed and value.startswith(COMPENSATE) else value
    for prefix in _RESERVED:
        if body.startswith(prefix):
            raise _refuse(field, f"must not start with {prefix!r}")
    if not body:
        raise _refuse(field, "must name an operation after 'compensate:'")
    return value


def route_of(operation_id: str, group_id: str | None) -> str:
    """Route of an operation: its group, or itself; that of `compensate:X` is the route of X (§1)."""
    if group_id is not None:
        return group_id
    return operation_id[len(COMPENSATE) :] if operation_id.startswith(COMPENSATE) else operation_id


def normalized(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """*arguments* in Unicode NFC, checked to be JSON that every reader understands alike.

    Raises:
        RequestError: an integer beyond ±2^53, a number that is not finite, a key that is not text, or a value that is not JSON;
            names the path of the field.
    """
    return {_key(name, "arguments"): _value(value, f"arguments.{name}") for name, value in arguments.items()}


def _key(name: object, path: str) -> str:
    if not isinstance(name, str):
        raise _refuse(path, f"keys must be text, got {type(name).__name__}")
    return _text(name, path)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refuse(path, "must not contain lone surrogates") from None
    return unicodedata.normalize("NFC", value)


def _value(value: object, path: str) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int():
            if abs(value) > INTEGER_MAX:
                raise _refuse(path, "integer beyond ±2^53: send text")
            return value
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise _refuse(path, "number is not finite: send text")
            return value
        case list() | tuple():
            return [_value(item, f"{path}[{number}]") for number, item in enumerate(value)]
        case Mapping():
            return {_key(name, path): _value(item, f"{path}.{name}") for name, item in value.items()}
        case _:
            raise _refuse(path, f"is not JSON: {type(value).__name__}")


def _left_out(contract: Contract) -> frozenset[str]:
    key = contract.operation_key
    named = {*contract.volatile_args, *contract.free_text_args}
    return frozenset(named | ({key.argument} if key is not None and key.argument is not None else set()))


def hashed_arguments(contract: Contract, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the request hash: normalized, without volatile and free-text ones and without the operation key."""
    out = _left_out(contract)
    return {name: value for name, value in normalized(arguments).items() if name not in out}


def request_hash(contract: Contract, arguments: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the canonical JSON of tool name and normalized arguments. Correlates retries; makes nothing idempotent.

    Raises:
        RequestError: as `normalized`.
    """
    document: dict[str, Any] = {"tool": contract.tool, "arguments": hashed_arguments(contract, arguments)}
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def argument_digests(contract: Contract, arguments: Mapping[str, Any], *, key: bytes) -> dict[str, str]:
    """Keyed digest of each top-level argument of the hash: names the one that differs without showing it.

    Args:
        key: secret of the tenant's writers, so that digests of guessable values tell nothing to readers of the log.
    """
    return {
        name: hmac.new(key, rfc8785.dumps({name: value}), hashlib.sha256).hexdigest()[:32]
        for name, value in hashed_arguments(contract, arguments).items()
    }


def stored_arguments(contract: Contract, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the contract allows on the log (allow-list; everything else is dropped)."""
    return {name: value for name, value in normalized(arguments).items() if name in contract.stored_args}


class _Fields(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise _refuse(f"arguments.{name}", "is named by a template of the contract and missing")


def rendered(template: str, arguments: Mapping[str, Any], *, field: str) -> str:
    """*template* with `{argument}` filled in, such as `refund:{order_id}`.

    Raises:
        RequestError: an argument that the template names is missing or is not a plain value.
    """
    plain = _Fields({name: value for name, value in normalized(arguments).items() if isinstance(value, str | int | float | bool)})
    try:
        return template.format_map(plain)
    except (ValueError, IndexError, AttributeError, KeyError) as error:
        if isinstance(error, RequestError):
            raise
        raise _refuse(field, f"{template!r} is not a template of plain arguments") from None
