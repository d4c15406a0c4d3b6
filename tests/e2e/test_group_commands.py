"""`landed show`, `landed plan`, `landed unwind` and `landed breakers` (semantics.md §8, §9), on the real broker and database."""

import json
from pathlib import Path
from typing import Any

from landed import Confirmed, Effect, Ledger, Refused, ToolRegistry, Unknown
from landed.core.contract import Compensation
from landed.core.events import BreakerChanged
from landed.core.vocabulary import ActionClass

from .conftest import World
from .people import Person, person, until

__all__ = ["person"]

registry = ToolRegistry()
WIDTH = 80


@registry.effect(tool="seat.cancel", effect=Effect(kind="seat.cancel"), lease=10.0, reference_field="id")
def cancel(reference: str) -> dict[str, Any]:
    return {"id": f"c_{reference}"}


@registry.effect(
    tool="seat.book",
    effect=Effect(kind="seat.book"),
    lease=10.0,
    reference_field="id",
    compensation=Compensation(tool="seat.cancel", required_fields=("reference",)),
)
def book(seat: str) -> dict[str, Any]:
    if seat == "lost":
        raise TimeoutError("the answer was lost")
    return {"id": f"s_{seat}"}


@registry.effect(
    tool="mail.send", effect=Effect(kind="mail.send"), lease=10.0, reference_field="id", action_class=ActionClass.IRREVERSIBLE
)
def send(to: str) -> dict[str, Any]:
    return {"id": f"m_{to}"}


def trip(ledger: Ledger, name: str, *seats: str) -> list[Any]:
    with ledger.group(name, workflow_type="trip") as group:
        return [group.perform(book, operation_id=f"{name}:{seat}", seat=seat) for seat in seats]


def within_a_terminal(text: str) -> list[str]:
    assert max(map(len, text.splitlines())) <= WIDTH, text
    return text.splitlines()


def test_a_group_is_shown_planned_and_undone_by_a_person(world: World, person: Person) -> None:
    world.projector()
    ledger = world.ledger()
    assert [type(one) for one in trip(ledger, "trip-17", "1a", "1b")] == [Confirmed] * 2
    with ledger.group("trip-17", workflow_type="trip") as group:
        assert isinstance(group.perform(send, operation_id="trip-17:mail", to="ann"), Confirmed)
    until(lambda: len(person.reads("show", "group", "trip-17")["operations"]) == 3)
    before = person.reads("plan", "trip-1")
    assert (before["state"], before["steps"][0]["operation_id"]) == ("open", "trip-17:mail")
    assert [one["operation_id"] for one in before["irreversible"]] == ["trip-17:mail"], "listed before anything starts"
    assert "nobody is there to be asked" in person.is_refused("unwind", "trip-17", "--reason", "card declined")
    assert person.reads("show", "group", "trip-17")["state"] == "open"

    done = person.reads("unwind", "trip-17", "--reason", "card declined", "--yes")
    assert done["state"] in ("unwinding", "needs_human")
    until(lambda: person.reads("show", "group", "trip-17")["operations"][2]["decides"] == "person (default)")
    shown = person.reads("show", "group", "trip-17")
    rows = [(one["operation_id"], one["exists"], one["undo"], one["decides"]) for one in shown["operations"]]
    assert rows == [
        ("trip-17:1a", "yes", "after trip-17:mail", "caller"),
        ("trip-17:1b", "yes", "after trip-17:mail", "caller"),
        ("trip-17:mail", "yes", "no: irreversible", "person (default)"),
    ]
    assert isinstance(group.perform(book, operation_id="trip-17:1c", seat="1c"), Refused)
    lines = within_a_terminal(person.does("show", "group", "trip-17"))
    assert any(line.split() == ["operation", "exists", "undo", "who", "decides", "next"] for line in lines)
    within_a_terminal(person.does("plan", "trip-17"))
    again = person.reads("unwind", "trip-17", "--reason", "card declined", "--yes")
    assert again["steps"] == person.reads("plan", "trip-17")["steps"], "repeating changes nothing"


def test_an_unknown_outcome_stops_the_plan_and_the_table_says_who_finds_out(world: World, person: Person) -> None:
    world.projector()
    ledger = world.ledger()
    assert [type(one) for one in trip(ledger, "trip-18", "2a", "lost")] == [Confirmed, Unknown]
    until(lambda: len(person.reads("show", "group", "trip-18")["operations"]) == 2)
    until(lambda: person.reads("show", "group", "trip-18")["operations"][1]["state"] != "dispatched")
    plan = person.reads("unwind", "trip-18", "--reason", "card declined", "--yes")
    assert plan["steps"] == []
    assert plan["next_step"].startswith("STOP. 1 effect(s)")
    shown = person.reads("show", "group", "trip-18")["operations"]
    assert [(one["exists"], one["undo"]) for one in shown] == [
        ("yes", "no: another outcome is unknown"),
        ("might", "no: its outcome is unknown"),
    ]
    assert shown[1]["decides"] in ("reconciler", "person (default)")


def test_inputs_of_a_file_go_with_the_request_and_a_bad_file_is_refused(world: World, person: Person, tmp_path: Path) -> None:
    world.projector()
    trip(world.ledger(), "trip-19", "3a")
    until(lambda: person.runs("show", "group", "trip-19")[0] == 0)
    given = tmp_path / "inputs.json"
    given.write_text("[1]")
    assert "--inputs" in person.is_refused("unwind", "trip-19", "--reason", "r", "--inputs", str(given), "--yes")
    given.write_text(json.dumps({"trip-19:3a": {"reference": "s_3a"}}))
    person.does("unwind", "trip-19", "--reason", "r", "--by", "ben", "--inputs", str(given), "--yes")
    asked = [one.event for one in world.entries() if type(one.event).__name__ == "UnwindRequested"]
    assert [(one.by, json.loads(one.inputs or "")) for one in asked] == [("ben", {"trip-19:3a": {"reference": "s_3a"}})]  # type: ignore[attr-defined]


def test_ids_may_be_cut_where_they_fit_only_one_and_belong_to_their_tenant(world: World, person: Person) -> None:
    world.projector()
    trip(world.ledger(), "trip-20", "4a")
    trip(world.ledger(), "trip-21", "4b")
    trip(world.ledger(tenant="other"), "hidden-1", "4c")
    until(lambda: person.runs("show", "operation", "trip-21:4b")[0] == 0)
    assert person.reads("show", "operation", "trip-20")["operation_id"] == "trip-20:4a"
    assert "fits several: trip-20, trip-21" in person.is_refused("show", "group", "trip-2")
    assert "no group of tenant 'acme' begins with 'hidden'" in person.is_refused("show", "group", "hidden")
    rows = person.reads("timeline", "trip-21", "--group")
    assert [one["event"] for one in rows][:3] == ["group_opened", "operation_prepared", "dispatch_granted"]
    assert "fits several" in person.is_refused("timeline", "trip-2")
    timeline = within_a_terminal(person.does("timeline", "trip-20"))
    assert any("outcome_confirmed" in line for line in timeline)
    followed = person.reads("tail", "--from", "1h", "--no-follow", "--operation", "trip-20", "--event", "outcome_confirmed")
    assert [one["operation_id"] for one in followed] == ["trip-20:4a"], "the log says the same, and nothing of another tenant"
    assert not person.reads("tail", "--from", "1h", "--no-follow", "--operation", "hidden")
    shown = within_a_terminal(person.does("show", "operation", "trip-20:4a"))
    assert shown[0] == "operation trip-20:4a: confirmed (Done)"


def test_a_call_by_hand_is_done_once_like_any_other_and_ends_with_what_came_of_it(world: World, person: Person) -> None:
    world.projector()
    book = ("perform", f"{__name__}:registry", "--tool", "seat.book", "--yes", "--operation")
    first = person.reads(*book, "hand-1", "--args", '{"seat": "5a"}')
    assert (first["result"], first["reference"], first["repeated"]) == ("confirmed", "s_5a", False)
    assert person.reads(*book, "hand-1", "--args", '{"seat": "5a"}')["repeated"]
    code, out, _ = person.runs(*book, "hand-1", "--args", '{"seat": "5b"}')
    assert (code, "refused (request_mismatch): nothing was called" in out) == (1, True)
    code, out, _ = person.runs(*book, "hand-2", "--args", '{"seat": "lost"}')
    assert (code, out.startswith("hand-2: unknown (TimeoutError)")) == (1, True)


def test_breakers_are_shown_with_the_fields_of_the_norm(world: World, person: Person) -> None:
    world.projector()
    person.reads("policies", "set", "ceiling:mail.send", '{"surge_per_hour": 1}', "--why", "w", "--yes")
    ledger = world.ledger()
    assert isinstance(ledger.perform(send, operation_id="m1", to="ann"), Confirmed)
    closed = person.reads("breakers", "list")[0]
    assert (closed["state"], closed["observed"], closed["threshold"], closed["resets_at"]) == ("closed", 1, 1, None)
    refused = ledger.perform(send, operation_id="m2", to="ben")
    assert isinstance(refused, Refused)
    said = json.loads(refused.detail["breaker"])
    shown = person.reads("breakers", "show", "mail.send")[0]
    assert {name: shown[name] for name in said} == said
    within_a_terminal(person.does("breakers", "list"))
    assert "there is no ceiling ceiling:dns.delete" in person.is_refused("breakers", "show", "dns.delete")


def test_what_got_through_before_a_breaker_opened_is_one_group_that_is_undone_as_one(world: World, person: Person) -> None:
    first = world.projector()
    ceiling = json.dumps({"limit": 4, "per_s": 3600, "contain": True})
    person.reads("policies", "set", "ceiling:seat.book", ceiling, "--why", "a runaway", "--yes")
    ledger = world.ledger()
    assert isinstance(trip(ledger, "trip-30", "9a")[0], Confirmed)
    told = [ledger.perform(book, operation_id=name, seat=name) for name in ("5a", "lost", "5b", "5c", "5d")]
    assert [type(one) for one in told] == [Confirmed, Unknown, Confirmed, Refused, Refused]

    def containments() -> list[BreakerChanged]:
        found = [one.event for one in world.entries() if isinstance(one.event, BreakerChanged)]
        return [one for one in found if one.containment is not None]

    until(lambda: containments())
    first.end()
    world.projector()
    assert isinstance(ledger.perform(book, operation_id="5e", seat="5e"), Refused), "the breaker is open still"
    (opened,) = containments()
    assert opened.containment == f"surge:seat.book:{opened.decided_at_ms}"
    assert [(one.operation_id, one.group_id) for one in opened.contained] == [
        ("5b", None),
        ("lost", None),
        ("5a", None),
        ("trip-30:9a", "trip-30"),
    ]
    assert person.reads("breakers", "show", "seat.book")[0]["containment"] == opened.containment
    assert any("surge:seat.book:" in line for line in within_a_terminal(person.does("breakers", "list")))
    until(lambda: len(person.reads("show", "group", "surge:")["operations"]) == 3)
    before = person.reads("plan", "surge:seat")
    assert [(one["order"], one["operation_id"]) for one in before["steps"]] == [(1, "5b"), (2, "5a")]
    assert [one["operation_id"] for one in before["unresolved"]] == ["lost"]
    assert person.reads("show", "group", "5a")["state"] == "open", "nobody undoes it by itself"
    assert "no group of tenant" in person.is_refused("plan", "surge:mail")

    assert "nobody is there to be asked" in person.is_refused("unwind", "surge:", "--reason", "a loop")
    done = person.reads("unwind", "surge:", "--reason", "a loop", "--by", "anna", "--yes")
    assert done["state"] == "unwinding"
    assert [person.reads("show", "group", one)["state"] for one in ("5a", "5b", "lost")] == ["unwinding"] * 3
    assert person.reads("show", "group", "trip-30")["state"] == "open", "a step of a group is undone with its group"
    assert person.reads("unwind", "surge:", "--reason", "again", "--yes")["steps"] == done["steps"]
    asked = [one.event for one in world.entries() if type(one.event).__name__ == "UnwindRequested"]
    assert sorted((one.route, one.by) for one in asked) == [("5a", "anna"), ("5b", "anna"), ("lost", "anna")]  # type: ignore[attr-defined]
    within_a_terminal(person.does("show", "group", "surge:"))
