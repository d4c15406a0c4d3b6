"""Who an operation is: rules for ids, and the hash that correlates retries of one request.

Source: docs/semantics.md §1; canonical JSON: RFC 8785.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import rfc8785

from landed.core.contract import Contract, Problem
from landed.core.errors import LandedError
from landed.core.state import COMPENSATE

ID_CHARACTERS_MAX: Final = 180
INTEGER_MAX: Final = 2**53
DEPTH_MAX: Final = 100
_PRINTABLE: Final = re.compile(r"[ -~]*")
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_RESERVED: Final = (COMPENSATE, "policy:")
_NUMBER_OF_INVERSE: Final = re.compile(r":[0-9]{1,4}\Z")


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
    inverse = inverse_allowed and value.startswith(COMPENSATE)
    body = value[len(COMPENSATE) :] if inverse else value
    if inverse and not body:
        raise _refuse(field, "must name an operation after 'compensate:'")
    # The ledger makes the id of an inverse: it is longer than that of the longest operation, which needs an inverse too.
    own = _NUMBER_OF_INVERSE.sub("", body) if inverse else body
    if not 1 <= len(own) <= ID_CHARACTERS_MAX:
        raise _refuse(field, f"must have 1 to {ID_CHARACTERS_MAX} characters, got {len(own)}")
    # What is printable holds neither, and nearly every id is.
    if not value.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        raise _refuse(field, "must not contain control characters or lone surrogates")
    for prefix in _RESERVED:
        if body.startswith(prefix):
            raise _refuse(field, f"must not start with {prefix!r}")
    return value


def route_of(operation_id: str, group_id: str | None) -> str:
    """Route of an operation: its group, or itself; that of `compensate:X` is the route of X (§1)."""
    if group_id is not None:
        return group_id
    return operation_id[len(COMPENSATE) :] if operation_id.startswith(COMPENSATE) else operation_id


def normalized(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """*arguments* in Unicode NFC, checked to be JSON that every reader understands alike.

    Raises:
        RequestError: an integer beyond ±2^53, a number that is not finite, a key that is not text, two keys that are one in NFC,
            nesting beyond 100 levels, or a value that is not JSON; names the path of the field.
    """
    return _object(arguments, "arguments", 1)


def _object(mapping: Mapping[Any, object], path: str, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in mapping.items():
        key = _key(name, path)
        if key in found:
            raise _refuse(f"{path}.{key}", "is given twice: two keys are the same text in Unicode NFC")
        found[key] = _value(value, f"{path}.{key}", depth)
    return found


def _key(name: object, path: str) -> str:
    if not isinstance(name, str):
        raise _refuse(path, f"keys must be text, got {type(name).__name__}")
    return _text(name, path)


def _text(value: str, path: str) -> str:
    if value.isascii():
        return value if type(value) is str else str(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refuse(path, "must not contain lone surrogates") from None
    return unicodedata.normalize("NFC", value)


def _value(value: object, path: str, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise _refuse(path[:200], f"is nested deeper than {DEPTH_MAX} levels")
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int():
            if abs(value) > INTEGER_MAX:
                raise _refuse(path, "integer beyond ±2^53: send text")
            return int(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise _refuse(path, "number is not finite: send text")
            return float(value)
        case list() | tuple():
            return [_value(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value)]
        case Mapping():
            return _object(value, path, depth + 1)
        case _:
            raise _refuse(path, f"is not JSON: {type(value).__name__}")


def _left_out(contract: Contract) -> frozenset[str]:
    key = contract.operation_key
    named = {*contract.volatile_args, *contract.free_text_args}
    if key is not None and key.argument is not None:
        named.add(key.argument)
    return frozenset(unicodedata.normalize("NFC", name) for name in named)


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
    return hashlib.sha256(canonical_json(document)).hexdigest()


def canonical_json(value: Any) -> bytes:
    """RFC 8785 canonical JSON of a normalized *value*."""
    # Without floats, and in printable ASCII, the rules of RFC 8785 come to what any encoder writes that sorts its keys: it is
    # only number formats, the order of code units and escapes that tell them apart.
    return _SORTED.encode(value) if _is_plain(value) else rfc8785.dumps(_as_doubles(value))


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return _PRINTABLE.fullmatch(value) is not None
    if kind is dict:
        return all(_is_plain(name) and _is_plain(item) for name, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    if kind is int:
        return bool(-INTEGER_MAX < value < INTEGER_MAX)
    return kind is bool or value is None


def _as_doubles(value: Any) -> Any:
    # ±2^53 is the last integer that a double holds for sure; the encoder takes it as a double only.
    match value:
        case bool():
            return value
        case int():
            return float(value) if abs(value) == INTEGER_MAX else value
        case list():
            return [_as_doubles(item) for item in value]
        case dict():
            return {name: _as_doubles(item) for name, item in value.items()}
        case _:
            return value


def argument_digests(contract: Contract, arguments: Mapping[str, Any], *, key: bytes) -> dict[str, str]:
    """Keyed digest of each top-level argument of the hash: names the one that differs without showing it.

    Args:
        key: secret of the tenant's writers, so that digests of guessable values tell nothing to readers of the log.
    """
    return {
        name: hmac.new(key, canonical_json({name: value}), hashlib.sha256).hexdigest()[:32]
        for name, value in hashed_arguments(contract, arguments).items()
    }


def stored_arguments(contract: Contract, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the contract allows on the log (allow-list; everything else is dropped)."""
    stored = {unicodedata.normalize("NFC", name) for name in contract.stored_args}
    return {name: value for name, value in normalized(arguments).items() if name in stored}


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
    except (ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        if isinstance(error, RequestError):
            raise
        raise _refuse(field, f"{template!r} is not a template of plain arguments") from None
