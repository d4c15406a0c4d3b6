"""What a look-up is given, and its answer as evidence: what a probe may see, and what is believed of what it says.

Source: docs/semantics.md §7.
"""

from typing import Final

import msgspec

from landed.core.contract import Contract
from landed.core.reconciliation import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.vocabulary import EffectStatus
from landed.ports.tables import DueOperation
from landed.sdk import probes as said
from landed.sdk.answer import receipt_json, valid_reference, word
from landed.sdk.probes import ProbeRequest

_REASON_CHARACTERS_MAX: Final = 500
_MS_MAX: Final = 2**62


def request_for(due: DueOperation, contract: Contract, time_limit_s: float) -> ProbeRequest:
    """What the probe of *due* is given: identity, stored arguments and references, and nothing else."""
    operation, last = due.operation, due.operation.last
    return ProbeRequest(
        tenant_id=due.tenant_id,
        operation_id=operation.operation_id,
        group_id=due.group_id,
        tool=contract.tool,
        attempt=last.number if last else 0,
        request_hash=operation.request_hash,
        stored_args=msgspec.json.decode(operation.stored_args) if operation.stored_args else {},
        references=tuple(reference.value for reference in operation.references),
        dispatched_at_ms=last.granted_at_ms if last else None,
        timeout_s=time_limit_s,
    )


def taken(answer: object, contract: Contract) -> ProbeAnswer:
    """*answer* of a probe as evidence: what is not allowed on the log is dropped, what is no answer proves nothing.

    A reference is untrusted until it has the contract's pattern; a record whose reference has not is no record of ours.
    """
    match answer:
        case said.Found():
            return _found(answer, contract)
        case said.Absent():
            return Absent()
        case said.Ambiguous():
            return Ambiguous(_printable(answer.reason)) if isinstance(answer.reason, str) else ProbeFailed("answered_reason")
        case _:
            return ProbeFailed(f"answered_{type(answer).__name__}")


def _found(answer: said.Found, contract: Contract) -> ProbeAnswer:
    matched_on = answer.matched_on
    if isinstance(matched_on, str) or not all(isinstance(name, str) and word(name) for name in matched_on):
        return ProbeFailed("answered_matched_on")
    status = EffectStatus.REMOVED if answer.status in contract.removed_when else answer.status
    if status not in tuple(EffectStatus):
        return ProbeFailed("answered_status")
    for time_ms in (answer.provider_time_ms, answer.removed_at_ms):
        if time_ms is not None and (type(time_ms) is not int or not 0 <= time_ms < _MS_MAX):
            return ProbeFailed("answered_time")
    reference = None if answer.reference is None else valid_reference(contract, answer.reference)
    if answer.reference is not None and reference is None:
        return Ambiguous("the reference has not the form that the contract declares")
    return Found(
        reference=reference,
        receipt=None if answer.receipt is None else receipt_json(contract, answer.receipt),
        matched_on=tuple(matched_on),
        status=EffectStatus(status),
        provider_time_ms=answer.provider_time_ms,
        removed_at_ms=answer.removed_at_ms,
    )


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:_REASON_CHARACTERS_MAX])
