"""Policies and observe mode (semantics.md §5, §10), on the real broker and database."""

import threading
from typing import Any

import pytest

from landed import (
    Absent,
    Confirmed,
    Effect,
    Ledger,
    OperationKey,
    Probe,
    ProbeRequest,
    Refused,
    Rejected,
    ToolError,
    ToolRegistry,
    Unknown,
    without_contract,
)
from landed.adapters.kafka import check_topic
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.events import DispatchGranted, DispatchRefused
from landed.core.vocabulary import OnAbsent, Refusal
from landed_services.projector.rebuilding import drop_the_view, rebuild
from landed_services.projector.verifying import verify

from .conftest import World
from .people import Person, person, until

__all__ = ["person"]

registry = ToolRegistry()
CALLS: list[str] = []


@registry.effect(
    tool="book", effect=Effect(kind="booking.create"), lease=5.0, no_effect_errors=("sold_out",), reference_field="id"
)
def book(seat: str, operation: str) -> dict[str, Any]:
    CALLS.append(operation)
    if seat == "lost":
        raise TimeoutError("the answer was lost")
    if seat == "sold":
        raise ToolError("sold_out")
    return {"id": f"b_{len(CALLS)}"}


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def ask(ledger: Ledger, name: str, seat: str = "1a", **options: Any) -> Any:
    return ledger.perform(book, operation_id=name, seat=seat, operation=name, **options)


def change(person: Person, key: str, *words: str) -> Any:
    return person.reads("policies", "set", key, *words, "--why", "incident 7", "--yes")


def test_a_policy_holds_for_every_claim_after_the_command_that_set_it_with_two_projectors(world: World, person: Person) -> None:
    world.projector()
    world.projector()
    ledgers = [world.ledger(), world.ledger(worker="worker-2")]
    for number in range(4):
        change(person, "tool:book", '{"disabled": true}')
        denied = [ask(ledger, f"b-{number}-{each}", seat=f"{number}-{each}") for each, ledger in enumerate(ledgers)]
        assert [one.reason for one in denied] == [Refusal.POLICY_DENIED] * 2
        assert denied[0].detail["rule"] == "tool disabled"
        change(person, "tool:book", "--remove")
        granted = [ask(ledger, f"b-{number}-{each}", seat=f"{number}-{each}") for each, ledger in enumerate(ledgers)]
        assert [type(one) for one in granted] == [Confirmed] * 2
    last = next(entry.event for entry in reversed(world.entries("b-3-1")) if isinstance(entry.event, DispatchGranted))
    assert last.policy_version == "tool:book@8"
    assert len(CALLS) == 8


def test_who_changed_what_and_why_is_on_record_and_two_who_saw_the_same_cannot_both_change_it(
    world: World, person: Person
) -> None:
    world.projector()
    assert person.does("policies", "list") == "No policy is set: what has a contract is allowed, but for inverses.\n"
    change(person, "tool:*", '{"observe": true}', "--by", "ben")
    done = change(person, "ceiling:booking.create", '{"surge_per_hour": 20, "surge_action": "deny"}', "--version", "0")
    assert done["value"] == [{"limit": 20, "per_s": 3600}]
    assert change(person, "ceiling:booking.create", '{"limit": 20, "per_s": 3600}')["changed"] is False
    overtaken = person.is_refused("policies", "set", "tool:*", "--remove", "--why", "x", "--yes", "--version", "0")
    assert "changed by somebody else" in overtaken
    change(person, "tool:*", "--remove")
    assert {one["key"]: (one["version"], one["value"]) for one in person.reads("policies", "list")} == {
        "ceiling:booking.create": (1, [{"limit": 20, "per_s": 3600}]),
        "tool:*": (2, None),
    }
    newest, oldest = person.reads("policies", "history", "tool:*")
    assert (oldest["who"], oldest["why"], oldest["old"], oldest["new"]) == ("ben", "incident 7", None, {"observe": True})
    assert (newest["who"], newest["old"], newest["new"], newest["version"]) == ("anna", {"observe": True}, None, 2)
    assert "none" in person.does("policies", "show", "tool:*")
    assert "there is no policy tool:*" in person.is_refused("policies", "set", "tool:*", "--remove", "--why", "x", "--yes")


def test_policies_are_folded_again_by_a_rebuild_and_nobody_decides_before(world: World, person: Person) -> None:
    service = world.projector()
    change(person, "tool:book", '{"disabled": true}')
    service.end()
    drop_the_view(world.view, topic_id=check_topic(world.log).topic_id)
    with connect(world.view) as connection:
        assert connection.execute("SELECT whole FROM policy_revision").fetchall() == [(False,)]
    rebuild(world.log, world.view)
    assert verify(world.log, world.view).equal
    world.projector()
    assert ask(world.ledger(), "b-1").reason is Refusal.POLICY_DENIED
    assert CALLS == []


def test_policies_of_another_tenant_are_neither_seen_nor_followed_nor_changed(world: World, person: Person) -> None:
    world.projector()
    change(person, "tool:book", '{"disabled": true}', "--tenant", "globex")
    assert person.reads("policies", "list") == []
    assert person.reads("policies", "history") == []
    assert "there is no policy" in person.is_refused("policies", "show", "tool:book")
    assert "there is no policy" in person.is_refused("policies", "set", "tool:book", "--remove", "--why", "x", "--yes")
    assert isinstance(ask(world.ledger(), "b-1"), Confirmed)
    assert isinstance(ask(world.ledger(tenant="globex"), "b-1"), Refused)
    assert CALLS == ["b-1"]


def test_observe_mode_refuses_nothing_and_records_what_would_have_been(world: World, person: Person) -> None:
    world.projector()
    change(person, "tool:book", '{"observe": true, "disabled": true}')
    ledger = world.ledger()
    assert isinstance(ask(ledger, "b-1"), Confirmed)
    assert isinstance(ask(ledger, "b-1"), Confirmed), "let through although it is confirmed already"
    assert isinstance(ask(ledger, "b-2", seat="lost"), Unknown)
    assert isinstance(ask(ledger, "b-2", seat="lost"), Unknown), "let through although its effect is in doubt"
    assert isinstance(ask(ledger, "b-3", seat="sold"), Rejected)
    assert CALLS == ["b-1", "b-1", "b-2", "b-2", "b-3"]
    decisions = [entry.event for entry in world.entries("b-1")]
    granted = [event for event in decisions if isinstance(event, DispatchGranted)]
    refused = [event for event in decisions if isinstance(event, DispatchRefused)]
    assert [event.observe for event in granted] == ["policy_denied"]
    assert [(event.reason, event.observe) for event in refused] == [(Refusal.ALREADY_CONFIRMED, True)]
    assert {event.policy_version for event in [*granted, *refused]} == {"tool:book@1"}
    assert world.operation("b-1").marks == ("duplicate_effect",), "the second effect is evidence"
    assert world.operation("b-2").state == "unknown"

    @without_contract("letter")
    def letter(to: str) -> dict[str, Any]:
        CALLS.append(to)
        return {"id": to}

    alone = ledger.perform(letter, operation_id="l-1", to="ann")
    assert isinstance(alone, Refused)
    assert alone.reason is Refusal.NO_CONTRACT
    change(person, "tool:letter", '{"observe": true}')
    assert isinstance(ledger.perform(letter, operation_id="l-2", to="ben"), Confirmed), "also without a contract"
    assert CALLS[-1] == "ben"
    assert (world.operation("l-2").state, world.operation("l-2").contract) == ("confirmed", None)
    person.does("policies", "set", "tool:book", '{"observe": false}', "--why", "the week is over", "--yes")
    report = until(lambda: person.reads("observe", "report"))
    assert [one["calls"] for one in report["would_refuse"] if one["reason"] == "no_contract"] == [1]
    report["would_refuse"] = [one for one in report["would_refuse"] if one["tool"] == "book"]
    rows = {(one["reason"], one["calls"], one["second_effects"], one["had_none"]) for one in report["would_refuse"]}
    assert rows == {("already_confirmed", 1, 1, 0), ("policy_denied", 3, 0, 1), ("unresolved", 1, 0, 0)}
    assert "second" in person.does("observe", "report")
    assert person.reads("observe", "report", "--tool", "other")["operations"] == 0
    assert person.reads("observe", "report", "--tenant", "globex")["operations"] == 0
    assert ask(ledger, "b-2", seat="lost").reason == "unresolved"


def test_of_two_equal_claims_at_once_observe_mode_lets_both_through_and_the_log_says_so(world: World, person: Person) -> None:
    world.projector()
    change(person, "tool:*", '{"observe": true}')
    results: list[Any] = []
    ledgers = [world.ledger(worker=f"w-{number}") for number in range(2)]
    threads = [threading.Thread(target=lambda at=one: results.append(ask(at, "b-9"))) for one in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(CALLS) == 2
    operation = world.operation("b-9")
    assert len(operation.attempts) == 1
    assert operation.marks == ("duplicate_effect",)
    assert {type(one) for one in results} == {Confirmed}
    said = [type(entry.event) for entry in world.entries("b-9")]
    assert said.count(ev.DispatchGranted) == said.count(ev.DispatchRefused) == 1


def test_what_the_reconciler_would_send_again_is_recorded_and_handed_to_a_person(world: World, person: Person) -> None:
    tools = ToolRegistry()

    @tools.effect(
        tool="refund",
        effect=Effect(kind="refund.create"),
        outcome_probe=Probe(tool="find_refund"),
        operation_key=OperationKey(argument="key"),
        stored_args=("order",),
        on_absent=OnAbsent.RETRY,
        max_attempts=3,
        lease=4.0,
        safe_window=0.2,
        first_check_after=0.2,
        max_interval=0.2,
    )
    def refund(order: str, key: str = "") -> dict[str, Any]:
        CALLS.append(key)
        raise TimeoutError("the answer was lost")

    @refund.probe
    def find_refund(request: ProbeRequest) -> Absent:
        return Absent()

    world.projector()
    change(person, "tool:*", '{"observe": true}')
    world.reconciler(tools)
    assert isinstance(world.ledger().perform(refund, operation_id="b-7", order="o-1"), Unknown)
    operation = world.until("b-7", "escalated")
    assert len(operation.attempts) == 1
    assert CALLS == ["b-7"], "nothing was sent again"
    refused = [entry.event for entry in world.entries("b-7") if isinstance(entry.event, DispatchRefused)]
    assert {(event.reason, event.observe) for event in refused} == {(Refusal.POLICY_DENIED, False)}
    (again,) = until(lambda: person.reads("observe", "report")["would_send_again"])
    assert (again["tool"], again["operations"]) == ("refund", ["b-7"])
