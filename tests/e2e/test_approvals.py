"""Approvals before dispatch (semantics.md §5), on the real broker and database: bound to the request, rechecked at the claim."""

import threading
import time
from typing import Any

import pytest

from landed import Confirmed, Effect, Ledger, Refused, ToolRegistry
from landed.core.events import ApprovalDecided, ApprovalRequested, DispatchGranted, DispatchRefused
from landed.core.vocabulary import Refusal, Stakes

from .conftest import World
from .people import Person, person, until

__all__ = ["person"]

registry = ToolRegistry()
CALLS: list[str] = []


@registry.effect(tool="pay", effect=Effect(kind="payment.create"), stakes=Stakes.MONEY, stored_args=("amount",), lease=5.0)
def pay(amount: int, operation: str) -> dict[str, Any]:
    CALLS.append(operation)
    return {"id": "pay_1"}


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def ask(ledger: Ledger, name: str, amount: int = 5, **options: Any) -> Any:
    return ledger.perform(pay, operation_id=name, amount=amount, operation=name, **options)


def policy(person: Person, value: str) -> None:
    person.does("policies", "set", "tool:pay", value, "--why", "audit", "--yes")


def approve(person: Person, name: str, *words: str, by: str = "anna") -> Any:
    return person.reads("approvals", "approve", name, "--reason", "within the limit", "--yes", "--by", by, *words)


def test_a_caller_that_waits_goes_on_by_itself_when_somebody_approves(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true, "approval_wait": 60}')
    results: list[Any] = []
    caller = threading.Thread(target=lambda: results.append(ask(world.ledger(), "p-1")))
    caller.start()
    (waits,) = until(lambda: person.reads("approvals", "list"))
    assert (waits["operation_id"], waits["status"], waits["stakes"]) == ("p-1", "pending", "money")
    assert waits["stored_args"] == {"amount": 5}
    assert "waits for a person" in person.does("approvals", "show", "p-1")
    assert CALLS == []
    approve(person, waits["approval_id"][:7])
    caller.join(50)  # not by the end of its wait, at which it is refused
    (result,) = results
    assert isinstance(result, Confirmed)
    assert CALLS == ["p-1"]
    said = [entry.event for entry in world.entries("p-1")]
    requested = next(event for event in said if isinstance(event, ApprovalRequested))
    decided = next(event for event in said if isinstance(event, ApprovalDecided))
    granted = next(event for event in said if isinstance(event, DispatchGranted))
    assert requested.requested_by == "worker-1"
    assert (decided.approver, decided.reason, decided.request_hash) == ("anna", "within the limit", requested.request_hash)
    assert granted.approval_id == requested.approval_id == decided.approval_id
    assert granted.policy_version == decided.policy_version == requested.policy_version == "tool:pay@1"
    assert person.reads("approvals", "list") == []
    assert person.does("approvals", "list") == "Nothing waits for an approval.\n"


def test_what_was_approved_after_its_caller_was_gone_runs_when_it_is_presented_again(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true}')
    ledger = world.ledger()
    first = ask(ledger, "p-2")
    assert isinstance(first, Refused)
    assert first.reason is Refusal.APPROVAL_REQUIRED
    approve(person, "p-2")
    assert world.operation("p-2").state == "prepared"
    (open_,) = person.reads("approvals", "list")
    assert open_["status"] == "approved"
    assert "approved and has not run" in open_["sentence"]
    assert isinstance(ask(ledger, "p-2"), Confirmed)
    assert CALLS == ["p-2"]
    assert person.reads("approvals", "show", "p-2")["status"] == "used"
    assert person.reads("approvals", "list") == []


def test_a_time_out_is_a_refusal_and_the_next_presentation_asks_anew(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true, "approval_lifetime": 0.8}')
    ledger = world.ledger()
    assert ask(ledger, "p-3").reason is Refusal.APPROVAL_REQUIRED
    time.sleep(1.0)
    why = person.is_refused("approvals", "approve", "p-3", "--reason", "late", "--yes")
    assert "lapsed at" in why
    asked = [ask(ledger, "p-3")]
    assert asked[0].reason is Refusal.APPROVAL_EXPIRED

    def approved() -> bool:
        """Where it took too long it lapsed, and is asked for anew."""
        code, _, _ = person.runs("approvals", "approve", asked[-1].detail["approval_id"], "--reason", "in time", "--yes")
        if code:
            asked.append(ask(ledger, "p-3"))
        return code == 0

    until(approved)
    time.sleep(1.0)
    assert ask(ledger, "p-3").reason is Refusal.APPROVAL_EXPIRED, "an approval that is over is no approval"
    assert CALLS == []


def test_an_approval_is_for_one_request_and_changed_arguments_do_not_pass_under_it(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true}')
    ledger = world.ledger()
    ask(ledger, "p-4", amount=5)
    approve(person, "p-4")
    changed = ask(ledger, "p-4", amount=5_000)
    assert changed.reason is Refusal.REQUEST_MISMATCH
    other = ledger.perform(pay, operation_id="p-5", replaces="p-4", amount=5_000, operation="p-5")
    assert other.reason is Refusal.APPROVAL_REQUIRED, "the corrected request needs an approval of its own"
    assert CALLS == []


def test_what_was_approved_under_another_policy_is_denied_and_asked_for_anew(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true}')
    ledger = world.ledger()
    ask(ledger, "p-6")
    approve(person, "p-6")
    policy(person, '{"approval": true, "four_eyes": true}')
    denied = ask(ledger, "p-6")
    assert denied.reason is Refusal.POLICY_DENIED
    assert denied.detail["approved_under"] == "tool:pay@1"
    assert denied.detail["policy_version"] == "tool:pay@2"
    assert CALLS == []
    approve(person, denied.detail["approval_id"])
    assert isinstance(ask(ledger, "p-6"), Confirmed)
    assert CALLS == ["p-6"]


def test_of_two_decisions_the_first_counts_and_a_denied_request_is_not_sent(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true}')
    ledger = world.ledger()
    ask(ledger, "p-7")
    person.does("approvals", "deny", "p-7", "--reason", "paid twice already", "--yes", "--by", "ben")
    assert "ben denied it" in person.is_refused("approvals", "approve", "p-7", "--reason", "fine", "--yes")
    denied = ask(ledger, "p-7")
    assert denied.reason is Refusal.POLICY_DENIED
    assert denied.detail["rule"] == "approval denied"
    assert person.reads("approvals", "show", "p-7")["status"] == "denied"
    assert CALLS == []


def test_with_four_eyes_whoever_asked_cannot_approve(world: World, person: Person) -> None:
    world.projector()
    policy(person, '{"approval": true, "four_eyes": true}')
    ledger = world.ledger(worker="carl")
    ask(ledger, "p-8")
    why = person.is_refused("approvals", "approve", "p-8", "--reason", "mine", "--yes", "--by", "carl")
    assert "wants another person" in why
    assert ask(ledger, "p-8").reason is Refusal.APPROVAL_REQUIRED
    approve(person, "p-8")
    assert isinstance(ask(ledger, "p-8"), Confirmed)


def test_approvals_of_another_tenant_are_neither_seen_nor_decided(world: World, person: Person) -> None:
    world.projector()
    for tenant in ("acme", "globex"):
        person.does("policies", "set", "tool:pay", '{"approval": true}', "--why", "audit", "--yes", "--tenant", tenant)
        ask(world.ledger(tenant=tenant), f"p-{tenant}")
    assert [one["operation_id"] for one in person.reads("approvals", "list")] == ["p-acme"]
    for verb in (("show",), ("approve", "--reason", "x", "--yes"), ("deny", "--reason", "x", "--yes")):
        assert "no approval of tenant 'acme'" in person.is_refused("approvals", verb[0], "p-globex", *verb[1:])
    approve(person, "p-globex", "--tenant", "globex")
    refusals = [entry.event for entry in world.entries("p-acme") if isinstance(entry.event, DispatchRefused)]
    assert [event.reason for event in refusals] == [Refusal.APPROVAL_REQUIRED]
