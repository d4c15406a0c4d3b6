"""Approvals as people read them: what waits for a person, what was approved and has not run. Presentation-free."""

from typing import Any, Literal

import msgspec

from landed.adapters.postgres.escaping import escaped
from landed.core.approvals import is_used, open_approval
from landed.core.state import Approval
from landed.core.vocabulary import Decision, Stakes
from landed.core.wording import label, sentence
from landed_services.queries.operations import Known, found

LIMIT = 200


class ApprovalShown(msgspec.Struct, frozen=True, kw_only=True):
    """A request for approval, or an approval that was given and has not run."""

    approval_id: str
    operation_id: str
    route: str
    group_id: str | None
    tool: str | None
    effect_type: str | None
    stakes: Stakes
    request_hash: str
    stored_args: Any
    """The arguments that the contract allows on the log; the hash stands for all of them."""
    status: Literal["pending", "approved", "denied", "used", "lapsed"]
    """`approved`: it has not run, and runs when it is presented again; `used`: it has; `lapsed`: nobody decided, or nothing ran,
    in time."""
    requested_by: str | None
    four_eyes: bool
    approver: str | None
    policy_version: str | None
    expires_at_ms: int
    label: str
    sentence: str


def open_approvals(
    connection: Any, tenant_id: str, *, lapsed: bool = False, prefix: str | None = None, limit: int = LIMIT
) -> list[ApprovalShown]:
    """Open approvals of *tenant_id*, those that end first come first.

    Args:
        lapsed: also those that are over.
        prefix: only approvals or operations whose id begins so.
    """
    known = known_approvals(connection, tenant_id, lapsed=lapsed, prefix=prefix, limit=limit)
    return [approval_shown(one, approval) for one in known if (approval := open_approval(one.operation)) is not None]


def known_approvals(
    connection: Any, tenant_id: str, *, lapsed: bool = False, prefix: str | None = None, limit: int = LIMIT
) -> list[Known]:
    """The operations behind `open_approvals`."""
    return found(connection, "approvals_open", tenant_id, {"lapsed": lapsed, "prefix": escaped(prefix), "limit": limit})


def approval_shown(known: Known, approval: Approval) -> ApprovalShown:
    operation = known.operation
    contract = operation.contract
    return ApprovalShown(
        approval_id=approval.approval_id,
        operation_id=operation.operation_id,
        route=known.route,
        group_id=known.group_id,
        tool=operation.tool,
        effect_type=operation.effect_type,
        stakes=contract.stakes if contract else Stakes.NONE,
        request_hash=approval.request_hash,
        stored_args=None if operation.stored_args is None else msgspec.json.decode(operation.stored_args),
        status=_status(known, approval),
        requested_by=approval.requested_by,
        four_eyes=approval.four_eyes,
        approver=approval.approver,
        policy_version=approval.policy_version,
        expires_at_ms=approval.expires_at_ms,
        label=label(operation, known.group_state),
        sentence=sentence(operation, known.group_state),
    )


def _status(known: Known, approval: Approval) -> Literal["pending", "approved", "denied", "used", "lapsed"]:
    if approval.decision is Decision.DENY:
        return "denied"
    if is_used(known.operation, approval):
        return "used"
    if known.now_ms >= approval.expires_at_ms:
        return "lapsed"
    return "pending" if approval.decision is None else "approved"
