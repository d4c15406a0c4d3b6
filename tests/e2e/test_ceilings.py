"""Surge ceilings and resources (semantics.md §5, §9), on the real broker and database."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from landed import Confirmed, Effect, Ledger, Refused, Result, ToolRegistry, Unknown
from landed.adapters.postgres import connect
from landed.core.events import BreakerChanged, DispatchGranted
from landed.core.vocabulary import Refusal
from landed_services.metrics import Metrics
from landed_services.projector.loop import Projector
from landed_services.projector.rebuilding import rebuild
from landed_services.projector.verifying import verify

from .conftest import Service, World
from .people import Person, person, until

__all__ = ["person"]

registry = ToolRegistry()


@registry.effect(tool="dns.delete", effect=Effect(kind="dns.delete"), lease=20.0, reference_field="id")
def delete(name: str) -> dict[str, Any]:
    if name.startswith("lost"):
        raise TimeoutError("the answer was lost")
    return {"id": f"d_{name}"}


@registry.effect(tool="mail.send", effect=Effect(kind="mail.send"), lease=20.0, reference_field="id")
def send(name: str) -> dict[str, Any]:
    return {"id": f"m_{name}"}


@registry.effect(tool="seat.book", effect=Effect(kind="seat.book"), lease=20.0, reference_field="id", resources=("seat:{seat}",))
def book(seat: str, who: str) -> dict[str, Any]:
    if who.startswith("lost"):
        raise TimeoutError("the answer was lost")
    return {"id": f"s_{who}"}


def remove(ledger: Ledger, name: str, **options: Any) -> Result:
    return ledger.perform(delete, operation_id=name, name=name, **options)


def set_ceiling(person: Person, key: str, value: dict[str, Any]) -> None:
    person.reads("policies", "set", key, json.dumps(value), "--why", "incident 7", "--yes")


def surged(results: list[Result]) -> list[Refused]:
    return [one for one in results if isinstance(one, Refused) and one.reason is Refusal.SURGE_EXCEEDED]


@contextmanager
def none_running(world: World, *services: Service) -> Iterator[None]:
    for one in services:
        one.end()
    yield
    world.projector()


def test_with_a_ceiling_of_five_five_are_granted_across_projectors_and_partitions(world: World, person: Person) -> None:
    world.projector()
    world.projector()
    set_ceiling(person, "ceiling:dns.delete", {"surge_per_hour": 5})
    ledgers = [world.ledger(), world.ledger(worker="worker-2")]
    with ThreadPoolExecutor(24) as pool:
        results = list(pool.map(lambda number: remove(ledgers[number % 2], f"d{number}"), range(24)))
    refused = surged(results)
    assert sum(isinstance(one, Confirmed) for one in results) == 5
    assert len(refused) == 19
    said = json.loads(refused[0].detail["breaker"])
    assert said.keys() == {"effect_type", "state", "action", "resets_at", "observed", "threshold", "reason"}
    first = min(one.event.decided_at_ms or 0 for one in world.entries() if isinstance(one.event, DispatchGranted))
    assert {one.detail["breaker"] for one in refused} == {json.dumps(said, separators=(",", ":"))}
    assert said == {
        "effect_type": "dns.delete",
        "state": "open",
        "action": "deny",
        "resets_at": first + 3_600_000,
        "observed": 6,
        "threshold": 5,
        "reason": "6 of 5 within 3600 s",
    }
    other = ledgers[0].perform(send, operation_id="m1", name="m1")
    assert isinstance(other, Confirmed), "another effect type goes on"
    observed = [
        one.event.ceilings[0].observed for one in world.entries() if isinstance(one.event, DispatchGranted) and one.event.ceilings
    ]
    assert sorted(observed) == [0, 1, 2, 3, 4]


def test_a_ceiling_that_is_set_in_a_runaway_counts_what_went_before_and_so_does_a_rebuild(world: World, person: Person) -> None:
    service = world.projector()
    ledger = world.ledger()
    assert not surged([remove(ledger, "d1"), remove(ledger, "lost-1"), ledger.perform(send, operation_id="m1", name="m1")])
    assert isinstance(ledger.perform(book, operation_id="s1", seat="1a", who="anna"), Confirmed)
    set_ceiling(person, "ceiling:*", {"limit": 4, "per_s": 3600})
    assert len(surged([remove(ledger, "d2")])) == 1
    until(lambda: [one for one in world.entries() if isinstance(one.event, BreakerChanged)])
    rows = "SELECT tenant_id, route, operation_id, claim_id, attempt, effect_type, decided_at_ms, void FROM grants ORDER BY 1, 2"
    with connect(world.view) as connection:
        before = connection.execute(rows).fetchall()
    assert len(before) == 4
    with none_running(world, service):
        rebuild(world.log, world.view)
        with connect(world.view) as connection:
            assert connection.execute(rows).fetchall() == before
    assert len(surged([remove(ledger, "d3")])) == 1
    assert verify(world.log, world.view).equal
    for change in (
        "DELETE FROM grants WHERE operation_id = 'd1'",
        "UPDATE grants SET void = true WHERE operation_id = 'lost-1'",
        "INSERT INTO grants SELECT tenant_id, route, operation_id, 'nobody', 9, 'x', 1, true FROM grants WHERE operation_id='m1'",
        "DELETE FROM resources_taken",
        "UPDATE breakers SET told = '{}'",
    ):
        with connect(world.view) as connection:
            connection.execute(change)
    found = verify(world.log, world.view).differences
    assert sorted((one.table, one.operation_id, one.field.split(": ")[-1].split()[0]) for one in found) == [
        ("breakers", None, "told"),
        ("grants", "d1", "claim"),
        ("grants", "lost-1", "void"),
        ("grants", "m1", "claim"),
        ("resources_taken", "s1", "claim"),
    ]


def test_the_window_slides(world: World, person: Person) -> None:
    world.projector()
    set_ceiling(person, "ceiling:dns.delete", {"limit": 2, "per_s": 6})
    ledger = world.ledger()
    assert isinstance(remove(ledger, "d1"), Confirmed)
    time.sleep(3.0)  # as far from either end of the window as it can be
    assert isinstance(remove(ledger, "d2"), Confirmed)
    refused = surged([remove(ledger, "d3")])
    resets_ms = json.loads(refused[0].detail["breaker"])["resets_at"]
    with connect(world.view) as connection:
        row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()
    time.sleep(max(0.0, (resets_ms - (row[0] if row else 0)) / 1000 + 0.05))
    assert isinstance(remove(ledger, "d3"), Confirmed), "one left the window"
    assert len(surged([remove(ledger, "d4")])) == 1, "and only one"


def test_the_log_is_told_when_a_breaker_opens_and_when_it_closes(world: World, person: Person) -> None:
    metrics = Metrics()
    service = Service(Projector(world.log, world.view, metrics=metrics).run)
    set_ceiling(person, "ceiling:dns.delete", {"limit": 1, "per_s": 4})
    ledger = world.ledger()
    remove(ledger, "d1")
    assert len(surged([remove(ledger, "d2")])) == 1

    def told() -> list[BreakerChanged]:
        return [one.event for one in world.entries() if isinstance(one.event, BreakerChanged)]

    until(lambda: len(told()) >= 2)
    opened, closed = told()
    assert (opened.route, opened.old, closed.old) == ("policy:ceiling:dns.delete", None, opened.new)
    assert json.loads(opened.new or "{}")["state"] == "open"
    assert json.loads(closed.new or "{}")["state"] == "closed"
    assert (closed.decided_at_ms or 0) >= json.loads(opened.new or "{}")["resets_at"]
    assert isinstance(remove(ledger, "d2"), Confirmed)
    service.end()
    labels = {"layer": "effect_type", "tenant": "acme", "workflow_type": ""}
    refused = {**labels, "tool": "dns.delete", "provider": "dns.delete", "policy_version": ""}
    assert metrics.registry.get_sample_value("landed_surge_refusals_total", refused) == 1
    openings = {**labels, "tool": "", "provider": "", "policy_version": "ceiling:dns.delete@1"}
    assert metrics.registry.get_sample_value("landed_breaker_openings_total", openings) == 1


def test_a_ceiling_that_observes_records_and_refuses_nobody(world: World, person: Person) -> None:
    world.projector()
    set_ceiling(person, "ceiling:dns.delete", {"surge_per_hour": 1, "surge_action": "observe"})
    ledger = world.ledger()
    assert [type(remove(ledger, f"d{number}")) for number in range(3)] == [Confirmed] * 3
    counts = [one.event.ceilings[0].observed for one in world.entries() if isinstance(one.event, DispatchGranted)]
    assert sorted(counts) == [0, 1, 2]


def test_at_once_counts_what_is_not_settled_and_a_refused_claim_uses_no_room(world: World, person: Person) -> None:
    world.projector()
    set_ceiling(person, "ceiling:dns.delete", {"limit": 2, "at_once": True})
    ledger = world.ledger()
    assert [type(remove(ledger, name)) for name in ("d1", "d2", "lost-1", "lost-2")] == [Confirmed, Confirmed, Unknown, Unknown]
    refused = surged([remove(ledger, "d3"), remove(ledger, "d4")])
    assert [json.loads(one.detail["breaker"])["observed"] for one in refused] == [3, 3]


def test_a_resource_is_busy_until_the_operation_that_took_it_is_settled(world: World) -> None:
    world.projector()
    ledger = world.ledger()

    def ask(seat: str, who: str) -> Result:
        return ledger.perform(book, operation_id=f"{seat}-{who}", seat=seat, who=who)

    assert isinstance(ask("1a", "anna"), Confirmed)
    until(lambda: isinstance(ask("1a", "ben"), Confirmed))
    assert isinstance(ask("1b", "lost"), Unknown)
    busy = ask("1b", "carla")
    assert isinstance(busy, Refused)
    assert (busy.reason, busy.detail["resource"], busy.detail["holder"]) == (Refusal.RESOURCE_BUSY, "seat:1b", "1b-lost")
    assert isinstance(ask("1c", "carla"), Confirmed)
