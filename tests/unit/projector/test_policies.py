"""Policies and approvals where claims are decided: the present policy counts, and what cannot be checked is refused (§5)."""

import msgspec
import pytest

from landed.core import events as ev
from landed.core.policy import Policies, ToolPolicy
from landed.core.vocabulary import Decision, Refusal

from .support import T0, Log, about, claim, prepared, types


def policies(**fields: object) -> Policies:
    return Policies(values={"tool:refund": ToolPolicy(**fields)}, versions={"tool:refund": 1})  # type: ignore[arg-type]


APPROVAL = policies(approval=True, approval_wait=30.0, approval_lifetime=60.0)


def waiting() -> tuple[Log, ev.ApprovalRequested]:
    """A log on which a claim was refused for want of an approval, and its caller waits."""
    log = Log()
    made = log.turn(prepared("op-1", claim("c1")), policies=APPROVAL)
    log.come_back(made)
    log.view.next_turn()
    requested = made.made[0].event
    assert isinstance(requested, ev.ApprovalRequested)
    return log, requested


def approved(requested: ev.ApprovalRequested, **fields: object) -> ev.ApprovalDecided:
    values = {
        **about("op-1"),
        "policy_version": "tool:refund@1",
        "approval_id": requested.approval_id,
        "request_hash": "h1",
        "decision": Decision.ALLOW,
        "approver": "anna",
        "reason": "checked",
        "expires_at_ms": T0 + 60_000,
    }
    return ev.ApprovalDecided(**{**values, **fields})


def test_the_request_for_approval_stands_before_the_refusal_and_the_refusal_names_it() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), policies=APPROVAL)
    assert types(made) == [ev.ApprovalRequested, ev.DispatchRefused]
    requested, refused = (decided.event for decided in made.made)
    assert isinstance(requested, ev.ApprovalRequested)
    assert isinstance(refused, ev.DispatchRefused)
    assert refused.detail["approval_id"] == requested.approval_id
    assert refused.detail["approval_wait_ms"] == "30000"
    assert requested.policy_version == refused.policy_version == "tool:refund@1"


def test_two_claims_of_one_request_ask_once() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), prepared("op-1", claim("c2"), actor="agent-2"), policies=APPROVAL)
    assert types(made) == [ev.ApprovalRequested, ev.DispatchRefused, ev.DispatchRefused]


def test_who_waits_is_told_as_soon_as_somebody_decided_and_claims_anew() -> None:
    log, requested = waiting()
    log.fold(log.append(approved(requested)))
    (news,) = log.view.changes.verdicts
    assert (news.claim_id, news.reply_to, news.granted) == ("c1", "caller-1", False)
    made = log.turn(prepared("op-1", claim("c2")), policies=APPROVAL)
    (granted,) = [decided.event for decided in made.made]
    assert isinstance(granted, ev.DispatchGranted)
    assert (granted.approval_id, granted.policy_version) == (requested.approval_id, "tool:refund@1")


def test_who_waits_no_more_is_not_told() -> None:
    log, requested = waiting()
    log.fold(log.append(approved(requested), at_ms=T0 + 1_000 + 30_001))
    assert log.view.changes.verdicts == []


def test_the_present_policy_is_checked_when_the_claim_is_decided() -> None:
    log, requested = waiting()
    log.fold(log.append(approved(requested)))
    newer = msgspec.structs.replace(APPROVAL, versions={"tool:refund": 2})
    made = log.turn(prepared("op-1", claim("c2")), policies=newer)
    again, refused = (decided.event for decided in made.made)
    assert isinstance(again, ev.ApprovalRequested)
    assert isinstance(refused, ev.DispatchRefused)
    assert refused.reason is Refusal.POLICY_DENIED
    assert refused.detail["approval_id"] == again.approval_id != requested.approval_id


@pytest.mark.parametrize(
    ("known", "whole"),
    [(policies(), False), (Policies(versions={"tool:refund": 1}, unreadable=frozenset({"tool:refund"})), True)],
    ids=["policies are missing", "the policy cannot be read"],
)
def test_what_a_policy_might_forbid_is_refused_while_it_is_not_known(known: Policies, whole: bool) -> None:
    log = Log()
    log.come_back(log.turn(prepared("op-1", claim("c1"))))
    log.append(ev.DispatchReleased(**about("op-1"), claim_id="c1", attempt=1, why="never called"))
    log.fold(log.items[-1])
    made = log.turn(prepared("op-1", claim("c2")), policies=known, policies_whole=whole)
    (refused,) = [decided.event for decided in made.made]
    assert isinstance(refused, ev.DispatchRefused)
    assert refused.reason is Refusal.LEDGER_UNAVAILABLE
    assert "polic" in refused.detail["unchecked"]


def test_what_the_fold_does_not_grant_in_observe_mode_is_recorded_as_refused_and_let_through() -> None:
    log = Log()
    observing = policies(observe=True, disabled=True)
    made = log.turn(prepared("op-1", claim("c1")), prepared("op-1", claim("c2"), actor="agent-2"), policies=observing)
    granted, refused = (decided.event for decided in made.made)
    assert isinstance(granted, ev.DispatchGranted)
    assert granted.observe == "policy_denied"
    assert isinstance(refused, ev.DispatchRefused)
    assert (refused.observe, refused.reason) == (True, Refusal.IN_FLIGHT)
    log.come_back(made)
    assert [verdict.granted for verdict in log.view.changes.verdicts] == [True, True]


def test_a_tool_without_contract_is_refused_unless_the_tenant_observes_it() -> None:
    bare = {"contract": None}
    refused = Log().turn(prepared("op-1", claim("c1"), **bare)).made[0].event
    assert isinstance(refused, ev.DispatchRefused)
    assert refused.reason is Refusal.NO_CONTRACT
    granted = Log().turn(prepared("op-1", claim("c1"), **bare), policies=policies(observe=True)).made[0].event
    assert isinstance(granted, ev.DispatchGranted)
    assert granted.observe == "no_contract"
