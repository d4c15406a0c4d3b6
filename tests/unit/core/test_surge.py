"""Ceilings: with ceiling N exactly N are granted in a window, and the breaker says when the next would be (semantics.md §9)."""

import json
from typing import Any

from landed.core.policy import Ceiling
from landed.core.state import Operation
from landed.core.surge import Counted, Grant, counted

NOW_MS = 10_000_000


def grants(number: int, *, at_ms: int = NOW_MS - 1_000, **changes: Any) -> list[Grant]:
    said = {"tenant_id": "t", "route": "g", "attempt": 1, "effect_type": "dns.delete", **changes}
    return [Grant(operation_id=f"o{index}", at_ms=at_ms + index, **said) for index in range(number)]


def count(ceiling: Ceiling, known: list[Grant], *, key: str = "ceiling:dns.delete", settled: bool = False) -> Counted:
    operation = Operation(operation_id="new", effect_type="dns.delete")
    ceilings = {key: (ceiling,)}
    return counted(ceilings, known, operation=operation, tenant_id="t", route="g", now_ms=NOW_MS, settled=lambda grant: settled)


def test_a_ceiling_of_twenty_takes_the_twentieth_and_refuses_the_twenty_first() -> None:
    hourly = Ceiling(limit=20, per_s=3600)
    found = count(hourly, grants(19))
    assert found.breaker is None
    assert [(one.observed, one.limit, one.window_s) for one in found.counts] == [(19, 20, 3600)]
    breaker = json.loads(count(hourly, grants(20)).breaker or "{}")
    assert breaker["observed"] == 21
    assert breaker["threshold"] == 20
    assert breaker["state"] == "open"


def test_a_breaker_resets_when_the_next_would_be_granted() -> None:
    """The oldest of the last `limit` grants leaves the window."""
    breaker = json.loads(count(Ceiling(limit=2, per_s=60), grants(3, at_ms=NOW_MS - 5_000)).breaker or "{}")
    assert breaker["resets_at"] == NOW_MS - 5_000 + 1 + 60_000


def test_what_left_the_window_uses_no_room() -> None:
    assert count(Ceiling(limit=1, per_s=60), grants(1, at_ms=NOW_MS - 60_000)).breaker is None
    assert count(Ceiling(limit=1, per_s=60), grants(1, at_ms=NOW_MS - 59_999)).breaker is not None


def test_at_once_counts_what_is_not_settled() -> None:
    at_once = Ceiling(limit=2, at_once=True)
    assert count(at_once, grants(2)).breaker is not None
    assert count(at_once, grants(2), settled=True).breaker is None


def test_other_tenants_types_and_groups_use_no_room_of_this_one() -> None:
    hourly = Ceiling(limit=1, per_s=3600)
    assert count(hourly, grants(1, tenant_id="other")).breaker is None
    assert count(hourly, grants(1, effect_type="mail.send")).breaker is None
    assert count(hourly, grants(1, effect_type="mail.send"), key="ceiling:*").breaker is not None
    assert count(Ceiling(limit=1, per_s=3600, scope="group"), grants(1, route="other")).breaker is None
    assert count(hourly, grants(1, route="other")).breaker is not None


def test_a_ceiling_that_only_observes_counts_and_refuses_nobody() -> None:
    found = count(Ceiling(limit=1, per_s=3600, action="observe"), grants(5))
    assert found.breaker is None
    assert found.counts[0].observed == 5


def test_a_ceiling_of_nothing_refuses_the_first_and_never_resets() -> None:
    breaker = json.loads(count(Ceiling(limit=0, per_s=60), []).breaker or "{}")
    assert (breaker["observed"], breaker["threshold"], breaker["resets_at"]) == (1, 0, None)


def test_grants_that_are_ahead_of_a_clock_that_went_back_still_count() -> None:
    assert count(Ceiling(limit=1, per_s=60), grants(1, at_ms=NOW_MS + 30_000)).breaker is not None


def test_of_two_ceilings_on_one_key_each_counts_and_the_one_without_room_refuses() -> None:
    both = {"ceiling:dns.delete": (Ceiling(limit=5, per_s=3600), Ceiling(limit=2, per_s=60))}
    known = grants(2, at_ms=NOW_MS - 70_000) + grants(2, at_ms=NOW_MS - 1_000, route="other")
    operation = Operation(operation_id="new", effect_type="dns.delete")
    found = counted(both, known, operation=operation, tenant_id="t", route="g", now_ms=NOW_MS, settled=lambda grant: False)
    assert [(one.limit, one.observed) for one in found.counts] == [(5, 4), (2, 2)]
    assert json.loads(found.breaker or "{}")["threshold"] == 2
