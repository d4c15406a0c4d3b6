"""The events that the SDK appends after a claim, and the result that a recorded outcome gives."""

from typing import Any, TypeVar

import msgspec

from landed.core import events as ev
from landed.core.vocabulary import BytesLeft, Source
from landed.sdk.answer import word
from landed.sdk.classify import CallOutcome, Classified, Failed, InDoubt, Raised, Returned, Succeeded
from landed.sdk.results import Confirmed, Rejected, Result
from landed.sdk.token import Execute
from landed.wire.ids import with_event_id

_E = TypeVar("_E", bound=ev.Event)


def withdrawn(claimed: ev.Event, claim: ev.Claim, why: str) -> ev.DispatchReleased:
    """The claim of *claimed* is taken back, decided or not: nothing was called, and nothing will be."""
    return with_event_id(
        ev.DispatchReleased(
            event_id="",
            tenant_id=claimed.tenant_id,
            route=claimed.route,
            operation_id=claimed.operation_id,
            group_id=claimed.group_id,
            actor=claimed.actor,
            claim_id=claim.claim_id,
            attempt=None,
            why=why,
        )
    )


def released(token: Execute, actor: str, why: str) -> ev.DispatchReleased:
    """The granted call of *token* is given back: it was never made."""
    return with_event_id(
        ev.DispatchReleased(
            event_id="",
            tenant_id=token.tenant_id,
            route=token.route,
            operation_id=token.operation_id,
            group_id=token.group_id,
            actor=actor,
            seen_version=token.version,
            claim_id=token.claim_id,
            attempt=token.attempt,
            why=why,
        )
    )


def call_record(outcome: CallOutcome, *, dispatched_at_ms: int, ended_at_ms: int) -> ev.CallRecord:
    """What is kept of a call: times, and of its answer or error only status, ids, class and code."""
    error = outcome if isinstance(outcome, Raised) else None
    return ev.CallRecord(
        dispatched_at_ms=dispatched_at_ms,
        ended_at_ms=ended_at_ms,
        provider_request_id=word(outcome.provider_request_id),
        response_status=word(outcome.response_status),
        error_class=None if error is None else word(error.error_class),
        error_code=None if error is None else word(error.error_code),
    )


def event_of(token: Execute, actor: str, found: Classified, call: ev.CallRecord) -> ev.Event:
    """The outcome event of *found*; of a call that observe mode let through it answers for no attempt."""
    match found:
        case Succeeded():
            return with_event_id(
                ev.OutcomeConfirmed(
                    event_id="",
                    tenant_id=token.tenant_id,
                    route=token.route,
                    operation_id=token.operation_id,
                    group_id=token.group_id,
                    actor=actor,
                    seen_version=token.version,
                    attempt=token.attempt or None,
                    claim_id=token.claim_id,
                    source=Source.WORKER,
                    reference=found.reference,
                    receipt=found.receipt,
                    no_op=found.no_op,
                    call=call,
                )
            )
        case Failed():
            return with_event_id(
                ev.OutcomeRejected(
                    event_id="",
                    tenant_id=token.tenant_id,
                    route=token.route,
                    operation_id=token.operation_id,
                    group_id=token.group_id,
                    actor=actor,
                    seen_version=token.version,
                    attempt=token.attempt or None,
                    claim_id=token.claim_id,
                    source=Source.WORKER,
                    error_code=found.error_code,
                    call=call,
                )
            )
        case InDoubt():
            return with_event_id(
                ev.OutcomeUnknown(
                    event_id="",
                    tenant_id=token.tenant_id,
                    route=token.route,
                    operation_id=token.operation_id,
                    group_id=token.group_id,
                    actor=actor,
                    seen_version=token.version,
                    claim_id=token.claim_id,
                    attempt=token.attempt,
                    error_class=word(found.error_class) or "Exception",
                    bytes_left=found.bytes_left if found.reference is None else BytesLeft.YES,
                    reference=found.reference,
                    settles_after_ms=found.settles_after_ms,
                    call=call,
                )
            )


def decoded(receipt: str | None) -> dict[str, Any] | None:
    """Receipt of a result from its JSON on the log."""
    return None if receipt is None else msgspec.json.decode(receipt, type=dict[str, Any])


def result_of_call(token: Execute, found: Succeeded | Failed, outcome: CallOutcome, at_ms: int) -> Result:
    """The result of a call whose outcome is on the log since *at_ms*."""
    if isinstance(found, Failed):
        return Rejected(operation_id=token.operation_id, reason=found.error_code, at_ms=at_ms)
    return Confirmed(
        operation_id=token.operation_id,
        receipt=decoded(found.receipt),
        reference=found.reference,
        at_ms=at_ms,
        answer=outcome.answer if isinstance(outcome, Returned) else None,
    )
