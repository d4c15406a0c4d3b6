"""Ceilings where claims are decided: what cannot be counted is refused, and what is granted takes room (semantics.md §5, §9)."""

import json
from typing import Any

import pytest

from landed.core import events as ev
from landed.core.policy import Ceiling, Policies
from landed.core.surge import Used
from landed.core.vocabulary import Refusal
from landed_services.projector.rooms import Rooms, Window

from .support import T0, Log, about, claim, prepared

KEY = "ceiling:refund.create"


def policies(**ceiling: Any) -> Policies:
    return Policies(values={KEY: (Ceiling(**ceiling),)}, versions={KEY: 1})


TWO = policies(limit=2, per_s=3600)


def rooms(count: int, *, limit: int = 2) -> Rooms:
    at = Window(tenant_id="acme", effect_type="refund.create", route=None, per_s=3600, limit=limit)
    return Rooms(used={at: Used(count=count, frees_ms=T0)})


def answers(*names: str, **how: Any) -> list[ev.Event]:
    made = Log().turn(*[prepared(name, claim(f"c-{name}")) for name in names], **how).made
    return [one.event for one in made if isinstance(one.event, ev.DispatchGranted | ev.DispatchRefused)]


def refusal(event: ev.Event) -> tuple[Refusal, str]:
    assert isinstance(event, ev.DispatchRefused)
    return event.reason, event.detail.get("unchecked", "")


def test_claims_of_one_turn_count_each_other() -> None:
    first, second = answers("op-1", "op-2", policies=TWO, rooms=rooms(1))
    assert isinstance(first, ev.DispatchGranted)
    assert [(one.observed, first.decided_at_ms) for one in first.ceilings] == [(1, T0 + 1_000)]
    assert isinstance(second, ev.DispatchRefused)
    assert second.reason is Refusal.SURGE_EXCEEDED
    breaker = json.loads(second.detail["breaker"])
    assert (breaker["observed"], breaker["resets_at"]) == (3, T0 + 3_600_000)


@pytest.mark.parametrize(
    ("how", "unchecked"),
    [
        ({"policies": TWO}, "what is used of the ceilings"),
        (
            {"policies": Policies(versions={KEY: 1}, unreadable=frozenset({KEY}))},
            f"policy {KEY} cannot be read by this release",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(how: dict[str, Any], unchecked: str) -> None:
    (answer,) = answers("op-1", **how)
    assert refusal(answer) == (Refusal.LEDGER_UNAVAILABLE, unchecked)


def test_a_further_attempt_is_not_counted_while_a_partition_catches_up() -> None:
    log = Log()
    log.come_back(log.turn(prepared("op-1", claim("c1")), policies=TWO, rooms=rooms(0)))
    log.view.next_turn()
    released = ev.DispatchReleased(**{**about("op-1"), "event_id": "r1", "claim_id": "c1", "attempt": 1, "why": "not sent"})
    again = prepared("op-1", claim("c2"), actor="agent-2")
    made = log.turn(released, again, policies=TWO, rooms=rooms(1), all_ready=False).made
    assert refusal(made[-1].event) == (Refusal.LEDGER_UNAVAILABLE, "grants of partitions that are catching up")


def test_a_grant_counts_and_the_ceiling_that_refuses_is_noted() -> None:
    log = Log()
    log.turn(prepared("op-1", claim("c1")), prepared("op-2", claim("c2")), policies=TWO, rooms=rooms(1))
    counting = log.view.changes.counting
    assert [row[2] for row in counting.grants.values()] == ["op-1"]
    assert [*counting.opened] == [("acme", KEY)]
    assert [one[:2] for one in counting.refusals] == [("acme", KEY)]
