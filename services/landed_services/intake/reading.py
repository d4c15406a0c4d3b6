"""What a contract reads in a provider's message: identity, status, time and the declared fields. All else is not kept."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from landed.core.contract import Contract, milliseconds
from landed.core.identity import RequestError, check_id
from landed.sdk.answer import receipt_json, valid_reference, word

WEBHOOK_ID_CHARACTERS_MAX: Final = 180
NO_STATUS: Final = "none"
"""Status of a message in which the contract finds no word."""
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]{1,180}")
_SECONDS_BELOW: Final = 100_000_000_000
"""A smaller number is a time in seconds (until the year 5138) or a version; a larger one a time in milliseconds."""
_TIME_MS_MAX: Final = 2**62


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A message as one contract reads it."""

    webhook_id: str | None
    """What makes two deliveries the same news, where it stands in the message."""
    operation_key: str | None
    reference: str | None
    status: str
    provider_time_ms: int | None
    receipt: str | None
    keep_ms: int


def reading(contract: Contract, message: Mapping[str, Any]) -> Reading:
    """*message* as *contract* reads it; what is missing or malformed is as if it were not there.

    Raises:
        ValueError: the contract declares no `webhook`.
    """
    terms = contract.webhook
    if terms is None:
        raise ValueError(f"contract of {contract.tool!r} declares no webhook")
    named = at(message, terms.match)
    referred = named if terms.reference is None else at(message, terms.reference)
    fields = None if terms.receipt is None else at(message, terms.receipt)
    return Reading(
        webhook_id=None if terms.dedupe_by is None else webhook_id(at(message, terms.dedupe_by)),
        operation_key=_operation_id(named),
        reference=valid_reference(contract, referred),
        status=(None if terms.status is None else word(at(message, terms.status))) or NO_STATUS,
        provider_time_ms=None if terms.order_by is None else provider_time_ms(at(message, terms.order_by)),
        receipt=receipt_json(contract, fields) if isinstance(fields, Mapping) else None,
        keep_ms=milliseconds(terms.keep_unmatched),
    )


def at(message: Any, path: str) -> Any:
    """What stands at *path* (names and places in lists, with dots between); None where nothing does. An empty path: the whole."""
    found = message
    for name in path.split(".") if path else ():
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and len(name) < 5 and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def webhook_id(value: object) -> str | None:
    """*value* as the provider's id of a message: printable and short; None for anything else."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return text if text is not None and _PRINTABLE.fullmatch(text) else None


def provider_time_ms(value: object) -> int | None:
    """*value* as a time: seconds, milliseconds, a version number or ISO 8601 (UTC where it names no zone); None for no time."""
    try:
        if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,9})?", value):
            moment = datetime.fromisoformat(value)
            number = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            number = float(value)
            number = number * 1000 if number < _SECONDS_BELOW else number
        else:
            return None
        return round(number) if 0 <= number <= _TIME_MS_MAX else None
    except (ValueError, OverflowError):
        return None


def _operation_id(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        check_id("operation_id", value, inverse_allowed=True)
    except RequestError:
        return None
    return value
