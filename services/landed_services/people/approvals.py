"""A person approves or denies a request before it is dispatched (semantics.md §5)."""

from typing import Any

import msgspec

from landed.adapters.postgres.policies import load_policies
from landed.core import events as ev
from landed.core.approvals import open_approval, undecidable
from landed.core.state import Approval
from landed.core.vocabulary import Decision
from landed.ports.log import EventLog
from landed_services.people.appending import put
from landed_services.people.errors import DecisionRefused, NotThere, PeopleError
from landed_services.people.times import utc
from landed_services.queries.approvals import known_approvals
from landed_services.queries.operations import Known, named

LISTED = 5


class Approved(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a request that holds."""

    approval_id: str
    operation_id: str
    decision: Decision
    expires_at_ms: int
    """Until when the approval may be used."""
    policy_version: str | None


def approval_named(connection: Any, tenant_id: str, name: str) -> tuple[Known, Approval]:
    """The approval whose id, or whose operation's id, is or begins with *name*.

    Raises:
        NotThere: none of the tenant fits, or several do.
    """
    known = known_approvals(connection, tenant_id, lapsed=True, prefix=name, limit=LISTED + 1) if name else []
    pairs = [(one, approval) for one in known if (approval := open_approval(one.operation)) is not None]
    exact = [pair for pair in pairs if name in (pair[1].approval_id, pair[0].operation.operation_id)]
    pairs = exact or pairs
    if not pairs:
        pairs = [(one, one.operation.approvals[-1]) for one in named(connection, tenant_id, name) if one.operation.approvals]
    if not pairs:
        raise NotThere(f"no approval of tenant {tenant_id!r} begins with {name!r}: landed approvals list")
    if len(pairs) > 1:
        names = ", ".join(approval.approval_id for _, approval in pairs[:LISTED])
        raise NotThere(f"{name!r} fits several: {names}{', …' if len(pairs) > LISTED else ''}")
    return pairs[0]


def decide(
    log: EventLog, connection: Any, known: Known, approval: Approval, decision: Decision, *, approver: str, reason: str
) -> Approved:
    """Takes the decision of *approver* about *approval*, under the policy that holds now.

    Raises:
        PeopleError: approver or reason is missing.
        DecisionRefused: it was decided before, its time is over, or whoever asked must not approve.
        NotSeenYet, AppendFailed: see `put`.
    """
    for field, text in (("approver", approver), ("reason", reason)):
        if not text.strip():
            raise PeopleError(f"{field}: must not be empty")
    operation = known.operation
    _check(approval, approver, known.now_ms)
    rules = load_policies(connection, [known.tenant_id])[known.tenant_id].rules(operation.tool or "")
    until_ms = known.now_ms + rules.approval_lifetime_ms
    event = ev.ApprovalDecided(
        event_id="",
        tenant_id=known.tenant_id,
        route=known.route,
        operation_id=operation.operation_id,
        group_id=known.group_id,
        actor=approver,
        seen_version=operation.version,
        policy_version=rules.version,
        approval_id=approval.approval_id,
        request_hash=approval.request_hash,
        decision=decision,
        approver=approver,
        reason=reason,
        expires_at_ms=until_ms,
    )
    folded = put(log, connection, event)
    now = next(one for one in named(connection, known.tenant_id, operation.operation_id) if one.route == known.route)
    held = next(one for one in now.operation.approvals if one.approval_id == approval.approval_id)
    mine = (decision, approver, until_ms)
    if not folded.accepted or (held.decision, held.approver, held.expires_at_ms) != mine:
        _check(held, approver, folded.at_ms)
        raise DecisionRefused(f"approval {approval.approval_id}: refused ({folded.reason or 'another decision counts'})")
    return Approved(
        approval_id=approval.approval_id,
        operation_id=operation.operation_id,
        decision=decision,
        expires_at_ms=until_ms,
        policy_version=rules.version,
    )


def _check(approval: Approval, approver: str, now_ms: int) -> None:
    name = f"approval {approval.approval_id}"
    match undecidable(approval, request_hash=approval.request_hash, approver=approver, at_ms=now_ms):
        case None:
            return
        case "approval_already_decided":
            said = "approved" if approval.decision is Decision.ALLOW else "denied"
            raise DecisionRefused(f"{name} was decided before: {approval.approver} {said} it. A decision stands")
        case "approval_expired":
            raise DecisionRefused(f"{name} lapsed at {utc(approval.expires_at_ms)}; presented again, the request asks anew")
        case "approver_is_requester":
            raise DecisionRefused(f"{name}: {approver} asked for it, and the policy wants another person to approve (four_eyes)")
        case why:
            raise DecisionRefused(f"{name}: {why}")
