"""What an answer of a tool shows: its fields, the provider's reference, and the receipt. What is not allowed is dropped."""

import logging
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from landed.core.contract import Contract
from landed.core.identity import RequestError, rendered

_LOG: Final = logging.getLogger(__name__)
REFERENCE_CHARACTERS_MAX: Final = 500
RECEIPT_FIELD_BYTES_MAX: Final = 16_384
RECEIPT_BYTES_MAX: Final = 65_536
_WORD: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")


def word(value: object) -> str | None:
    """*value* as a code that may be recorded: short and without free text; None for anything else."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return text if text is not None and _WORD.fullmatch(text) else None


def fields_of(answer: object) -> Mapping[str, Any]:
    """Top-level fields of *answer*; none where it has no fields (a plain text, a list)."""
    if isinstance(answer, Mapping):
        return answer
    dump = getattr(answer, "model_dump", None)
    try:
        built = dump() if callable(dump) else msgspec.to_builtins(answer, enc_hook=_unreadable)
    except Exception:
        return {}
    return built if isinstance(built, dict) else {}


def _unreadable(value: object) -> None:
    """Of a field that is not JSON nothing is read."""


def is_empty(answer: object) -> bool:
    """Whether *answer* acknowledges nothing."""
    if answer is None:
        return True
    return isinstance(answer, str | bytes | list | tuple | set | Mapping) and not answer


def reference_in(contract: Contract, fields: Mapping[str, Any]) -> object:
    """What stands where the contract says that the reference is; None where nothing does."""
    return _at(fields, contract.reference_field or "")


def _at(fields: Mapping[str, Any], path: str) -> object:
    found: Any = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def is_own(contract: Contract, fields: Mapping[str, Any], identity: Mapping[str, str]) -> bool:
    """Whether *fields* are of the object that the contract's `ownership` describes for the call of *identity*."""
    for path, template in contract.ownership.items():
        try:
            wanted = rendered(template, identity, field=f"ownership.{path}")
        except RequestError:
            return False  # it names a group, and there is none
        if str(_at(fields, path)) != wanted:
            return False
    return True


def valid_reference(contract: Contract, value: object) -> str | None:
    """*value* as a reference: text (or a whole number), of a sane length, printable, of the contract's pattern; else None."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    if not 1 <= len(text) <= REFERENCE_CHARACTERS_MAX or text.isspace():
        return None
    if not text.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        return None
    pattern = contract.reference_pattern
    return text if pattern is None or re.fullmatch(pattern, text) else None


def receipt_json(contract: Contract, fields: Mapping[str, Any]) -> str | None:
    """JSON of the declared receipt fields that *fields* has; None where the contract declares none or none is there.

    A field that is not JSON, or too large for the log, is left out: it never keeps an effect from being recorded.
    """
    kept: dict[str, msgspec.Raw] = {}
    left = RECEIPT_BYTES_MAX
    for name in contract.receipt_fields:
        if name not in fields:
            continue
        try:
            text = msgspec.json.encode(fields[name], order="deterministic")
        except (TypeError, ValueError, RecursionError):
            text = b""
        if b"null" in text and not _is_finite(msgspec.to_builtins(fields[name])):
            text = b""  # what is no number is no JSON: it would be told as if the provider had said nothing
        if 0 < len(text) <= min(RECEIPT_FIELD_BYTES_MAX, left):
            kept[name] = msgspec.Raw(text)
            left -= len(text)
        else:
            about = {"action": "receipt_field_dropped", "tool": contract.tool, "field": name}
            _LOG.warning("a receipt field is not JSON or too large, it is left out", extra=about)
    return msgspec.json.encode(kept, order="deterministic").decode() if kept else None


def _is_finite(built: object) -> bool:
    """Whether every number in *built* (of JSON's types) is one."""
    if isinstance(built, float):
        return math.isfinite(built)
    if isinstance(built, dict):
        return all(map(_is_finite, built.values()))
    return all(map(_is_finite, built)) if isinstance(built, list | tuple | set | frozenset) else True
