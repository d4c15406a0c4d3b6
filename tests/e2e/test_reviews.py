"""Review tasks and their decisions (semantics.md §10), on the real broker and database."""

import threading
from typing import Any

import msgspec
import pytest

from landed import Effect, Escalated, Probe, ToolRegistry, Unknown
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.events import ReviewDecided
from landed.core.vocabulary import Choice, EscalationReason, Source, Stakes
from landed.wire.ids import with_event_id
from landed_services.people import reviews as people
from landed_services.people.errors import DecisionRefused
from landed_services.queries.operations import named
from landed_services.queries.statements import told

from .conftest import TENANT, World
from .people import Person, person, until

__all__ = ["person"]

SECRET_THOUGHT = "the user sounds gullible, so I will"
registry = ToolRegistry()


@registry.effect(
    tool="pay.refund",
    effect=Effect(kind="refund.create"),
    stakes=Stakes.MONEY,
    stored_args=("order",),
    free_text_args=("note",),
    outcome_probe=Probe(tool="pay.find"),
    safe_window=1.0,
    lease=5.0,
    max_attempts=2,
    on_absent="retry",
    queue="payments",
    reference_pattern=r"re_\d+",
)
def refund(order: str, note: str, operation: str) -> dict[str, Any]:
    raise TimeoutError("the answer was lost")


class Desk:
    """What happens to operations before people see them, and two reviewers with the same task before them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = KafkaEventLog(world.log)

    def in_doubt(self, name: str, *, tenant: str = TENANT, reason: EscalationReason = EscalationReason.NO_PROBE) -> None:
        """An operation whose answer was lost, handed over to people."""
        ledger = self.world.ledger(tenant=tenant)
        result = ledger.perform(refund, operation_id=name, order="o-1", note=SECRET_THOUGHT, operation=name)
        assert isinstance(result, Unknown)
        self.append(
            ev.OperationEscalated,
            name,
            tenant=tenant,
            attempt=1,
            reason=reason,
            queue="payments",
            choices=[],
            evidence='{"seen": "two similar refunds"}',
        )

    def append(self, kind: type[ev.Event], name: str, *, tenant: str = TENANT, **fields: Any) -> None:
        envelope = {"event_id": "", "tenant_id": tenant, "route": name, "operation_id": name, "actor": "reconciler"}
        event = with_event_id(msgspec.convert({**envelope, **msgspec.to_builtins(fields)}, kind))
        place = self.log.append(event).result(20).position
        with connect(self.world.view) as connection:
            until(
                lambda: connection.execute(
                    "SELECT accepted FROM events WHERE partition = %s AND log_offset = %s", (place.partition, place.offset)
                ).fetchone()
            )

    def decides(self, name: str, review_id: int, choice: Choice, by: str) -> people.Decided:
        with connect(self.world.view) as connection:
            (known,) = named(connection, TENANT, name)
            return people.decide(self.log, connection, known, review_id, choice, reviewer=by, reason="looked")


@pytest.fixture
def desk(world: World) -> Any:
    world.projector()
    made = Desk(world)
    yield made
    made.log.close()


def decide(person: Person, name: str, choice: str, *words: str) -> Any:
    return person.reads("reviews", "decide", name, choice, "--reason", "seen at the provider", "--yes", *words)


def test_a_task_shows_everything_needed_to_decide_it_and_nothing_that_was_not_declared(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-1")
    desk.world.ledger().record_statement("r-1", "succeeded", "a" * 64)
    (listed,) = person.reads("reviews", "list")
    assert (listed["id"], listed["queue"], listed["reasons"], listed["stakes"]) == ("r-1#1", "payments", ["no_probe"], "money")
    assert listed["age_s"] >= 0
    until(lambda: person.reads("reviews", "show", "r-1")["claimed_states"])
    shown = person.reads("reviews", "show", "r-1")
    assert shown["review"]["told"] == "succeeded"
    assert shown["request"]["stored_args"] == {"order": "o-1"}
    assert [offer["choice"] for offer in shown["offers"]] == ["confirmed", "rejected", "not_found", "unknown", "cancelled"]
    assert [piece["says"] for piece in shown["evidence"]] == ['{"seen": "two similar refunds"}']
    assert [row["event"] for row in shown["timeline"]][-2:] == ["operation_escalated", "agent_statement"]
    lines = person.does("reviews", "show", "r-1").splitlines()
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines), "but for a word that nobody may break"
    text = " ".join(" ".join(lines).split())
    for words in ("Needs review", "the ledger says otherwise", "two similar refunds", "Choices:", "reviews decide r-1#1"):
        assert words in text
    everything = person.does("reviews", "show", "r-1", "-o", "json") + text
    assert "gullible" not in everything
    with connect(desk.world.view) as connection:
        (one,) = told(connection, TENANT, only_disagreements=True)
        assert (one.operation_id, one.disagreements, one.disagrees_now) == ("r-1", 1, True)
        assert told(connection, "globex") == []


def test_a_decision_is_on_the_log_with_reviewer_and_reason_and_closes_the_task(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-2")
    done = decide(person, "r-2#1", "confirmed", "--reference", "re_77")
    assert done["state"] == "confirmed"
    decision = next(entry.event for entry in desk.world.entries("r-2") if isinstance(entry.event, ReviewDecided))
    assert (decision.reviewer, decision.reason, decision.reference) == ("anna", "seen at the provider", "re_77")
    assert person.reads("reviews", "list") == []
    assert person.does("reviews", "list") == "No review task is open.\n"
    again = person.is_refused("reviews", "decide", "r-2#1", "rejected", "--reason", "no", "--yes")
    assert "r-2#1 is closed: anna decided confirmed" in again
    result = desk.world.ledger().perform(refund, operation_id="r-2", order="o-1", note="", operation="r-2")
    assert result.reference == "re_77"  # type: ignore[union-attr]


def test_of_two_reviewers_one_decides_and_the_other_is_told_who_was_faster(desk: Desk) -> None:
    desk.in_doubt("r-3")
    outcomes: list[Any] = []
    start = threading.Barrier(2)

    def reviewer(name: str, choice: Choice) -> None:
        start.wait()
        try:
            outcomes.append(desk.decides("r-3", 1, choice, name))
        except DecisionRefused as refused:
            outcomes.append(str(refused))

    threads = [
        threading.Thread(target=reviewer, args=("anna", Choice.CONFIRMED)),
        threading.Thread(target=reviewer, args=("ben", Choice.CANCELLED)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    (won,) = [one for one in outcomes if isinstance(one, people.Decided)]
    (lost,) = [one for one in outcomes if isinstance(one, str)]
    decided = [row for row in desk.world.rows("r-3") if row.event == "review_decided" and row.accepted]
    assert len(decided) == 1
    faster = "anna" if won.choice is Choice.CONFIRMED else "ben"
    assert f"r-3#1 is closed: {faster} decided {won.choice}" in lost
    assert desk.world.operation("r-3").state == won.choice


def test_a_choice_about_an_older_task_is_refused_and_says_what_was_added(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-4")
    decide(person, "r-4#1", "confirmed", "--reference", "re_1")
    desk.append(ev.EffectReverted, "r-4", source=Source.WEBHOOK, reference="re_1")
    assert person.reads("reviews", "list")[0]["id"] == "r-4#2"
    desk.append(ev.OutcomeConfirmed, "r-4", source=Source.WEBHOOK, reference="re_2")
    assert person.reads("reviews", "list")[0]["id"] == "r-4#3"
    older = person.is_refused("reviews", "decide", "r-4#2", "kept", "--reason", "x", "--yes")
    assert "an older one: since then duplicate_effect was added" in older
    assert "does not exist" in person.is_refused("reviews", "decide", "r-4#9", "kept", "--reason", "x", "--yes")
    assert "with its number" in person.is_refused("reviews", "decide", "r-4", "kept", "--reason", "x", "--yes")
    assert decide(person, "r-4#3", "kept")["state"] == "confirmed"


def test_choices_are_those_of_the_reason_and_one_that_calls_again_waits_for_the_window(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-5")
    assert "does not offer kept; it offers confirmed" in person.is_refused(
        "reviews", "decide", "r-5#1", "kept", "--reason", "x", "--yes"
    )
    early = person.is_refused("reviews", "decide", "r-5#1", "not_found", "--reason", "x", "--yes")
    assert "only once nothing can be under way: from 20" in early
    (waits,) = [one for one in person.reads("reviews", "show", "r-5")["offers"] if one["choice"] == "not_found"]
    assert waits["from_ms"] > 0
    until(lambda: not [one for one in person.reads("reviews", "show", "r-5")["offers"] if one["from_ms"]])
    assert decide(person, "r-5#1", "not_found")["state"] == "not_found"


def test_news_that_settles_the_operation_closes_the_task_by_itself(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-6")
    desk.append(ev.OutcomeConfirmed, "r-6", source=Source.WEBHOOK, reference="re_9", matched_on=["operation_id"])
    assert person.reads("reviews", "list") == []
    closed = person.is_refused("reviews", "decide", "r-6#1", "rejected", "--reason", "x", "--yes")
    assert "news settled the operation" in closed
    assert "it is confirmed" in closed


def test_a_queue_is_filtered_by_owner_age_and_reason_and_named_by_a_unique_beginning(desk: Desk, person: Person) -> None:
    desk.in_doubt("refund-17")
    desk.in_doubt("refund-18", reason=EscalationReason.CONFLICT)

    def names(*words: str) -> list[str]:
        return [one["operation_id"] for one in person.reads("reviews", "list", *words)]

    assert names() == ["refund-17", "refund-18"]
    assert names("--queue", "payments", "--reason", "conflict") == ["refund-18"]
    assert names("--queue", "travel") == []
    assert names("--older-than", "3600") == []
    assert names("--limit", "1") == ["refund-17"]
    lines = person.does("reviews", "list", "-o", "jsonl").splitlines()
    assert [msgspec.json.decode(line)["id"] for line in lines] == ["refund-17#1", "refund-18#1"]
    assert "fits several: refund-17, refund-18" in person.is_refused("reviews", "show", "refund")
    assert decide(person, "refund-18#1", "cancelled")["operation_id"] == "refund-18"
    assert decide(person, "ref#1", "cancelled")["operation_id"] == "refund-17"


def test_without_yes_and_without_a_terminal_nothing_is_decided(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-7")
    assert "say --yes" in person.is_refused("reviews", "decide", "r-7#1", "cancelled", "--reason", "x")
    assert desk.world.operation("r-7").state == "escalated"


def test_reviews_of_another_tenant_are_neither_seen_nor_decided(desk: Desk, person: Person) -> None:
    desk.in_doubt("r-8", tenant="globex")
    assert person.reads("reviews", "list") == []
    assert "no operation of tenant 'acme'" in person.is_refused("reviews", "show", "r-8")
    assert "no operation of tenant 'acme'" in person.is_refused(
        "reviews", "decide", "r-8#1", "cancelled", "--reason", "x", "--yes"
    )
    assert person.reads("reviews", "list", "--tenant", "globex")[0]["id"] == "r-8#1"
    result = desk.world.ledger(tenant="globex").perform(refund, operation_id="r-8", order="o-1", note="", operation="r-8")
    assert isinstance(result, Escalated)
