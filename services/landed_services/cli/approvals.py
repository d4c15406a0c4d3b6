"""``landed approvals``: requests that a person has to approve before they are sent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from landed.core.vocabulary import Decision

from ._confirm import confirm
from ._exit import Exit, require
from ._output import Format, plain, print_facts, print_value
from ._people import Person, Tenant, Yes, desk, person, print_one, print_values

approvals = App(
    name="approvals",
    help="Requests that a person approves before they are sent."
    "\n\nFor example:\n\n    landed approvals list\n\n    landed approvals approve refund-17 --reason checked",
    help_format="plaintext",
)
LIMIT_MAX = 10_000
Approval = Annotated[str, Parameter(help="Approval id or operation id, or the beginning of one.")]
Reason = Annotated[str, Parameter(help="Why; recorded with the decision.")]


@approvals.command(name="list")
def list_(
    *,
    lapsed: Annotated[bool, Parameter(negative="", help="Also those that are over.")] = False,
    limit: Annotated[int, Parameter(help="How many at most.")] = 200,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """List requests that wait for a person, and those approved that have not run. What ends first comes first.

    For example:

        landed approvals list

        landed approvals list --lapsed -o jsonl
    """
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    from landed_services.people.times import utc
    from landed_services.queries.approvals import open_approvals

    with desk(tenant) as at:
        found = open_approvals(at.connection, at.tenant_id, lapsed=lapsed, limit=limit)
    rows = [
        (
            one.approval_id,
            one.status,
            utc(one.expires_at_ms),
            one.stakes,
            one.tool or "",
            one.requested_by or "",
            one.operation_id,
        )
        for one in found
    ]
    columns = ("approval", "status", "until", "stakes", "tool", "asked by", "operation")
    print_values(found, output, columns=columns, rows=rows, empty="Nothing waits for an approval.")
    return Exit.DONE


@approvals.command
def show(approval: Approval, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show what is asked for, by whom and until when.

    For example:

        landed approvals show ap_7c1
    """
    from landed_services.people.approvals import approval_named
    from landed_services.people.times import utc
    from landed_services.queries.approvals import approval_shown

    with desk(tenant) as at:
        one = approval_shown(*approval_named(at.connection, at.tenant_id, approval))
    lines = [
        ("approval", f"{one.approval_id} ({one.status}, until {utc(one.expires_at_ms)})"),
        ("operation", one.operation_id),
        ("shown as", f"{one.label}: {one.sentence}"),
        ("request", f"{one.tool}, {one.effect_type}, hash {one.request_hash}"),
        ("arguments", f"on the log: {msgspec.json.encode(one.stored_args).decode()}"),
        ("at stake", one.stakes),
        ("asked by", f"{one.requested_by}" + (", who must not approve it" if one.four_eyes else "")),
    ]
    if one.approver is not None:
        lines.append(("decided by", f"{one.approver} under policy {one.policy_version}"))
    if output == "text":
        print_facts(lines)
    else:
        print_value(one, output)
    return Exit.DONE


@approvals.command
def approve(
    approval: Approval, *, reason: Reason, by: Person = None, yes: Yes = False, tenant: Tenant = None, output: Format = "text"
) -> int:
    """Approve a request. A caller that waits goes on by itself; else it runs when it is presented again.

    For example:

        landed approvals approve ap_7c1 --reason "within the limit" --yes
    """
    return _decide(approval, Decision.ALLOW, reason, by, yes, tenant, output)


@approvals.command
def deny(
    approval: Approval, *, reason: Reason, by: Person = None, yes: Yes = False, tenant: Tenant = None, output: Format = "text"
) -> int:
    """Deny a request. It is not sent; another try needs another operation.

    For example:

        landed approvals deny refund-17 --reason "paid twice already" --yes
    """
    return _decide(approval, Decision.DENY, reason, by, yes, tenant, output)


def _decide(name: str, decision: Decision, reason: str, by: str | None, yes: bool, tenant: str | None, output: str) -> int:
    from landed_services.people import approvals as people
    from landed_services.people.times import utc

    verb = "approve" if decision is Decision.ALLOW else "deny"
    with desk(tenant, decides=True) as at:
        known, approval = people.approval_named(at.connection, at.tenant_id, name)
        who = person(by)
        confirm(f"{verb} {approval.approval_id} for {plain(known.operation.operation_id)}, as {who}?", yes=yes)
        done = people.decide(at.log, at.connection, known, approval, decision, approver=who, reason=reason)
    said = f"approved until {utc(done.expires_at_ms)}" if decision is Decision.ALLOW else "denied"
    print_one(done, output, f"{done.approval_id}: {said} ({plain(done.operation_id)})")
    return Exit.DONE
