"""Approvals before dispatch: when one is asked for, which decision about it counts, and which one a claim may use. Pure.

An approval is bound to the request's hash: changed arguments need a new one. A time-out is a refusal, never a grant. What an
approval allows is checked again when the claim is decided (`decide.py`).

Source: docs/semantics.md §5.
"""

import hashlib

from landed.core import events as ev
from landed.core.decide import Facts, Refused, approval_for
from landed.core.state import Approval, Operation
from landed.core.vocabulary import Decision, Refusal, Stakes, State

_MAY_BE_DISPATCHED = frozenset({State.NONE, State.PREPARED, State.NOT_FOUND, State.REJECTED})


def request_of(
    operation: Operation, event: ev.Event, claim: ev.Claim, refused: Refused, facts: Facts
) -> ev.ApprovalRequested | None:
    """The `approval_requested` (without `event_id`) that goes with *refused*; None where none is asked for, or one is open.

    A claim that is refused for want of an approval, because its approval is over, or because it was given under another policy,
    asks for a new one. One that was denied does not: a person said no.
    """
    if refused.observe or refused.reason not in (Refusal.APPROVAL_REQUIRED, Refusal.APPROVAL_EXPIRED, Refusal.POLICY_DENIED):
        return None
    known = approval_for(operation, claim)
    if refused.reason is Refusal.POLICY_DENIED and (known is None or known.decision is not Decision.ALLOW or facts.tool_disabled):
        return None
    if refused.reason is Refusal.APPROVAL_REQUIRED and known is not None:
        return None
    contract = operation.contract
    return ev.ApprovalRequested(
        event_id="",
        tenant_id=event.tenant_id,
        route=event.route,
        operation_id=event.operation_id,
        group_id=event.group_id,
        actor="projector",
        seen_version=operation.version,
        policy_version=facts.policy_version,
        approval_id=_approval_id(event, claim, len(operation.approvals) + 1),
        request_hash=claim.request_hash,
        stakes=contract.stakes if contract else Stakes.NONE,
        expires_at_ms=facts.now_ms + facts.approval_lifetime_ms,
        requested_by=claim.worker,
        four_eyes=facts.four_eyes,
    )


def _approval_id(event: ev.Event, claim: ev.Claim, number: int) -> str:
    # Made from what is asked: the same request decided twice is one event.
    said = "\0".join((event.tenant_id, event.route, event.operation_id or "", claim.request_hash, str(number)))
    return "ap_" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def undecidable(approval: Approval | None, *, request_hash: str, approver: str, at_ms: int) -> str | None:
    """Why a decision about *approval* at *at_ms* (the log's time) does not count; None when it does.

    The fold keeps such a decision without effect; whoever takes decisions from people says so before.
    """
    if approval is None:
        return "approval_not_requested"
    if approval.decision is not None:
        return "approval_already_decided"
    if approval.request_hash != request_hash:
        return "request_mismatch"
    if at_ms >= approval.expires_at_ms:
        return "approval_expired"
    if approval.four_eyes and approver == approval.requested_by:
        return "approver_is_requester"
    return None


def open_approval(operation: Operation) -> Approval | None:
    """The approval that a person may still decide, or that allows a dispatch that did not happen. It may be over by now."""
    if not operation.approvals or operation.final or operation.state not in _MAY_BE_DISPATCHED:
        return None
    newest = operation.approvals[-1]
    if newest.decision is None:
        return newest
    return None if newest.decision is Decision.DENY or is_used(operation, newest) else newest


def is_used(operation: Operation, approval: Approval) -> bool:
    """Whether a call was made under *approval*; a grant that was given back is none."""
    return any(attempt.approval_id == approval.approval_id and not attempt.released for attempt in operation.attempts)
