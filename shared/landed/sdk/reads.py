"""Performing a tool that only reads: no claim, no record, may be repeated; a failed read is an error, never an empty result."""

from collections.abc import Callable, Generator
from typing import Any

from landed.ports import Clock
from landed.sdk.answer import fields_of, receipt_json, reference_in, valid_reference
from landed.sdk.classify import Raised
from landed.sdk.intent import Intent, hash_of
from landed.sdk.leases import Lease
from landed.sdk.operation import CurrentOperation
from landed.sdk.outcomes import decoded
from landed.sdk.requests import Call, NotBegun, Request
from landed.sdk.results import Confirmed, Rejected, Result
from landed.sdk.token import Execute


def read(
    intent: Intent, function: Callable[..., Any], *, tenant_id: str, claim_id: str, clock: Clock
) -> Generator[Request, Any, Result]:
    """Calls *function*, bounded by the contract's lease. `Rejected` names the class or code of its error."""
    contract = intent.contract
    token = Execute(
        tenant_id=tenant_id,
        route=intent.route,
        operation_id=intent.operation_id,
        group_id=intent.group_id,
        claim_id=claim_id,
        attempt=0,
        request_hash=hash_of(intent),
        contract=contract,
        lease_ms=round(contract.lease * 1000),
        granted_at_ms=clock.now_ms(),
        sent_s=clock.monotonic(),
        version=0,
    )
    lease = Lease(token, clock)
    operation = CurrentOperation(token, lease)
    outcome = yield Call(
        function, intent.arguments, check=lambda: None, operation=operation, lease=lease, late=lambda outcome: None
    )
    if isinstance(outcome, NotBegun):
        return Rejected(operation_id=intent.operation_id, reason="not_sent")
    if isinstance(outcome, Raised):
        reason = outcome.error_code or outcome.response_status or outcome.error_class
        return Rejected(operation_id=intent.operation_id, reason=reason)
    fields = fields_of(outcome.answer)
    return Confirmed(
        operation_id=intent.operation_id,
        receipt=decoded(receipt_json(contract, fields)),
        reference=valid_reference(contract, reference_in(contract, fields)) if contract.reference_field else None,
        at_ms=clock.now_ms(),
        answer=outcome.answer,
    )
