"""What a call came to, as evidence: one pure function over the contract and what the call did (semantics.md §6).

Only an answer that the contract lists in `no_effect_errors`, or an error raised before any byte left, proves that nothing
happened. Everything else that is not a valid acknowledgement proves nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from landed.core.contract import Contract
from landed.core.inverse import Gone
from landed.core.vocabulary import BytesLeft
from landed.sdk.answer import fields_of, is_empty, is_own, receipt_json, reference_in, valid_reference, word
from landed.sdk.errors import NotSent
from landed.sdk.results import Pending


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The call came back with *answer*."""

    answer: Any
    response_status: str | None = None
    provider_request_id: str | None = None


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """The call ended with an error. Holds no text of it: class and code only."""

    error_class: str
    error_code: str | None = None
    """The provider's code of the error."""
    response_status: str | None = None
    provider_request_id: str | None = None
    bytes_left: BytesLeft = BytesLeft.UNKNOWN
    """`NO` only where it is known that no byte of any request left."""


CallOutcome: TypeAlias = Returned | Raised


class Succeeded(msgspec.Struct, frozen=True, kw_only=True):
    reference: str | None
    receipt: str | None
    """JSON of the receipt."""
    no_op: bool = False
    """Of an inverse: the effect was gone already."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    error_code: str


class InDoubt(msgspec.Struct, frozen=True, kw_only=True):
    error_class: str
    bytes_left: BytesLeft
    reference: str | None = None
    settles_after_ms: int | None = None


Classified: TypeAlias = Succeeded | Failed | InDoubt

NOT_SENT: Final = "not_sent"
GONE_ALREADY: Final = "gone_already"
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


def raised(error: BaseException) -> Raised:
    """*error* of a tool as a value, without its text.

    Only `NotSent` says that nothing left. A refused connection does not: it may be the second one of the call, and the request on
    the first may have had the effect.
    """
    nothing_left = isinstance(error, NotSent)
    status = _attribute(error, "status") or _attribute(error, "status_code")
    return Raised(
        error_class=word(type(error).__name__) or "Exception",
        error_code=word(_attribute(error, "code")),
        response_status=word(status),
        provider_request_id=word(_attribute(error, "request_id")),
        bytes_left=BytesLeft.NO if nothing_left else BytesLeft.UNKNOWN,
    )


def _attribute(error: BaseException, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:
        return None  # an error of a library whose fields are computed, and fail


def classify(
    contract: Contract,
    outcome: CallOutcome,
    identity: Mapping[str, str] = _NOBODY,
    *,
    own_try: bool = False,
    gone: Gone | None = None,
) -> Classified:
    """The evidence in *outcome*, under *contract*. Total: an answer that cannot even be read proves nothing.

    Args:
        identity: whose call it was, as `ownership` of the contract may name it.
        own_try: an earlier attempt of the operation was made and not answered for good: what exists already may be its object.
        gone: of an inverse, answers that say that the effect is gone already.
    """
    if isinstance(outcome, Raised):
        return _error(contract, outcome, own_try=own_try, gone=gone)
    try:
        return _answer(contract, outcome.answer, identity, own_try=own_try, gone=gone)
    except Exception:
        return InDoubt(error_class="answer_unreadable", bytes_left=BytesLeft.YES)


def _answer(contract: Contract, answer: object, identity: Mapping[str, str], *, own_try: bool, gone: Gone | None) -> Classified:
    if isinstance(answer, Pending):
        return _pending(contract, answer)
    if is_empty(answer):
        return InDoubt(error_class="empty_answer", bytes_left=BytesLeft.YES)
    fields = fields_of(answer)
    reference = valid_reference(contract, reference_in(contract, fields)) if contract.reference_field else None
    mismatch = _unlike_success(contract, fields)
    if gone is not None and mismatch is not None and _says_gone(gone, mismatch, own_try=own_try):
        return _gone(gone)
    if mismatch is not None and mismatch in contract.no_effect_errors:
        return Failed(error_code=word(mismatch) or "declared_error")
    if not is_own(contract, fields, identity):
        # Somebody else's object: its reference must not come to stand for this effect.
        return InDoubt(error_class="not_ours", bytes_left=BytesLeft.YES)
    if mismatch is not None:
        return InDoubt(error_class="not_a_success", bytes_left=BytesLeft.YES, reference=reference)
    if contract.reference_field is not None and reference is None:
        missing = reference_in(contract, fields) is None
        return InDoubt(error_class="reference_missing" if missing else "reference_malformed", bytes_left=BytesLeft.YES)
    return Succeeded(reference=reference, receipt=receipt_json(contract, fields))


def _says_gone(gone: Gone, said: str, *, own_try: bool) -> bool:
    return said in gone.errors and (own_try or not gone.only_after_own_try)


def _gone(gone: Gone) -> Succeeded | InDoubt:
    """A safe no-op: verified by a look where there is one, else taken as the contract says (§8)."""
    if gone.looked_up:
        return InDoubt(error_class=GONE_ALREADY, bytes_left=BytesLeft.YES)
    return Succeeded(reference=None, receipt=None, no_op=True)


def _error(contract: Contract, error: Raised, *, own_try: bool, gone: Gone | None) -> Classified:
    # An error goes by its code, or by its status where it has none; a contract may name its class as well.
    goes_by = error.error_code or error.response_status
    if error.bytes_left is BytesLeft.NO:
        return Failed(error_code=NOT_SENT)
    if gone is not None and goes_by is not None and _says_gone(gone, goes_by, own_try=own_try):
        return _gone(gone)
    if goes_by is not None and goes_by in contract.no_effect_errors:
        return Failed(error_code=goes_by)
    if error.error_class in contract.no_effect_errors:
        return Failed(error_code=goes_by or error.error_class)
    if goes_by is not None and goes_by in contract.already_exists_errors:
        if own_try and contract.key_honoured:
            # An earlier try under the same key was not answered: what is there is what it made (§4).
            return Succeeded(reference=None, receipt=None)
        # It may be the own object of an earlier try or somebody else's: the look-up tells, not this answer.
        return InDoubt(error_class="already_exists", bytes_left=BytesLeft.YES)
    return InDoubt(error_class=error.error_class, bytes_left=error.bytes_left)


def _pending(contract: Contract, answer: Pending) -> InDoubt:
    settles_ms = None if contract.settles_after is None else round(contract.settles_after * 1000)
    reference = valid_reference(contract, answer.reference)
    kind = "pending" if reference is not None else "reference_malformed"
    return InDoubt(error_class=kind, bytes_left=BytesLeft.YES, reference=reference, settles_after_ms=settles_ms)


def _unlike_success(contract: Contract, fields: Mapping[str, Any]) -> str | None:
    """Text of the first field that is not as `success_when` says; None when all are."""
    for name, wanted in contract.success_when.items():
        found = _text(fields.get(name))
        if found != wanted:
            return found
    return None


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case None:
            return "null"
        case _:
            return str(value)
