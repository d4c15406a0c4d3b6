"""What ceilings count and what is held, in the tables (semantics.md §5, §9): locks, windows, what is forgotten."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from landed.adapters.postgres import PostgresSettings, connect, migrate
from landed.adapters.postgres.statements import statement
from landed.core.policy import Ceiling, Policies
from landed.core.state import Operation
from landed.core.surge import Breaker, Used, breaker_json, room
from landed_services.projector.rooms import (
    Claimed,
    Rooms,
    Told,
    Window,
    breaker_event,
    breakers_to_tell,
    forget_grants,
    forget_resources,
    got_through,
    look_up,
    read_rooms,
)

NOW_MS = 10_000_000_000
HOURLY = Ceiling(limit=2, per_s=3600)
POLICIES = {"t": Policies(values={"ceiling:dns.delete": (HOURLY,)}, versions={"ceiling:dns.delete": 1})}
CLAIMED = Claimed("t", "g1", "dns.delete", ("zone:a",))
HOUR = Window(tenant_id="t", effect_type="dns.delete", route=None, per_s=3600, limit=2)


@pytest.fixture
def database(fresh_database: str) -> PostgresSettings:
    settings = PostgresSettings(url=fresh_database)
    migrate(settings)
    return settings


@pytest.fixture
def connection(database: PostgresSettings) -> Iterator[Any]:
    with connect(database) as made:
        yield made


def grant(connection: Any, name: str, *, at_ms: int = NOW_MS, tenant: str = "t", void: bool = False, **changes: Any) -> None:
    said = {"route": "g1", "effect_type": "dns.delete", "resource": None, **changes}
    row = (tenant, said["route"], name, f"c-{name}", 1, said["effect_type"], at_ms, void)
    connection.execute(statement("insert_grant"), row)
    if said["resource"] is not None:
        connection.execute(
            statement("insert_resource"), (tenant, said["resource"], said["route"], name, f"c-{name}", 1, at_ms, void)
        )


def test_who_decides_next_waits_for_the_commit_of_who_decides_and_sees_its_grants(database: PostgresSettings) -> None:
    with connect(database) as first, connect(database) as second, ThreadPoolExecutor(1) as pool:

        def next_one() -> Rooms:
            with second.transaction():
                return look_up(second, [CLAIMED], POLICIES, now_ms=NOW_MS)

        with first.transaction():
            assert look_up(first, [CLAIMED], POLICIES, now_ms=NOW_MS).used(HOUR).count == 0
            waiting = pool.submit(next_one)
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
            grant(first, "o1", resource="zone:a")
        found = waiting.result(10)
    assert found.used(HOUR).count == 1
    needs = Operation(operation_id="o2", effect_type="dns.delete", resources=("zone:a",))
    assert found.busy(tenant_id="t", route="g1", operation=needs, is_over=lambda *_: False) == {"zone:a": "o1"}


def test_nothing_is_locked_or_read_for_a_tenant_without_ceilings() -> None:
    assert look_up(None, [Claimed("other", "g1", "dns.delete", ())], POLICIES, now_ms=NOW_MS).tenants == frozenset()


def test_a_window_counts_grants_of_its_tenant_type_and_group_and_those_that_were_given_back(connection: Any) -> None:
    grant(connection, "o1", at_ms=NOW_MS - 3_600_000)
    grant(connection, "o2", at_ms=NOW_MS - 3_599_999)
    grant(connection, "o3", at_ms=NOW_MS - 5, void=True)
    grant(connection, "o4", route="g2")
    grant(connection, "o5", effect_type="mail.send")
    grant(connection, "o6", tenant="other")
    every, group = HOUR._replace(effect_type=None), HOUR._replace(route="g2")
    rooms = read_rooms(connection, [HOUR, every, group], now_ms=NOW_MS)
    assert [rooms.used(one).count for one in (HOUR, every, group)] == [3, 4, 1]
    assert rooms.used(HOUR).frees_ms == NOW_MS - 5, "the older of the last two"


def test_at_once_counts_what_is_neither_settled_nor_given_back(connection: Any) -> None:
    at_once = HOUR._replace(per_s=None)
    grant(connection, "o1")
    grant(connection, "o2", void=True)
    assert read_rooms(connection, [at_once], now_ms=NOW_MS).used(at_once).count == 1


@pytest.mark.parametrize(
    ("ceiling", "key", "names"),
    [
        (Ceiling(limit=2, per_s=3600, contain=True), "ceiling:dns.delete", ["o5", "o2", "o1"]),
        (Ceiling(limit=2, per_s=3600, contain=True), "ceiling:*", ["o6", "o5", "o2", "o1"]),
        (Ceiling(limit=2, at_once=True, contain=True), "ceiling:dns.delete", ["o5", "o2", "o1", "o0"]),
        (Ceiling(limit=2, per_s=3600), "ceiling:dns.delete", None),
        (Ceiling(limit=3, per_s=3600, contain=True), "ceiling:dns.delete", None),
    ],
)
def test_what_got_through_is_what_the_ceiling_that_opened_counted_and_nobody_gave_back(
    connection: Any, ceiling: Ceiling, key: str, names: list[str] | None
) -> None:
    grant(connection, "o0", at_ms=NOW_MS - 3_600_000)
    grant(connection, "o1", at_ms=NOW_MS - 3_599_999)
    grant(connection, "o2", at_ms=NOW_MS - 9)
    grant(connection, "o3", at_ms=NOW_MS - 8, void=True)
    grant(connection, "compensate:o4", at_ms=NOW_MS - 7)
    grant(connection, "o5", at_ms=NOW_MS - 6, route="g2")
    grant(connection, "o6", at_ms=NOW_MS - 5, route="g3", effect_type="mail.send")
    grant(connection, "o7", tenant="other")
    breaker = breaker_json(
        Breaker(effect_type="x", state="open", action="deny", resets_at=None, observed=3, threshold=2, reason="3 of 2")
    )
    one = Told(tenant_id="t", key=key, partition=0, route="g1", breaker=breaker, refused_at_ms=NOW_MS, told=None, told_open=False)
    policies = Policies(values={key: (ceiling,)}, versions={key: 1})
    found = got_through(one, policies, connection)
    assert (None if found is None else [each.operation_id for each in found]) == names
    event = breaker_event(one, policies, connection, now_ms=NOW_MS + 5)
    assert event is not None
    assert (event.containment is None, event.contained_count) == (names is None, len(names or ()))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ((HOURLY,), None),
        ((Ceiling(limit=1, per_s=3600),), None),
        ((Ceiling(limit=2, per_s=7200),), None),
        ((Ceiling(limit=3, per_s=3600),), "2 of 3 within 3600 s"),
        ((Ceiling(limit=2, per_s=5),), "0 of 2 within 5 s"),
        ((), "no ceiling"),
    ],
)
def test_the_log_is_told_that_a_breaker_closed_as_soon_as_its_ceiling_is_raised_not_only_when_it_would_have_reset(
    connection: Any, now: tuple[Ceiling, ...], reason: str | None
) -> None:
    """Else the next runaway under the new ceiling would open no breaker, and nothing of it would be contained."""
    key = "ceiling:dns.delete"
    for name in ("o1", "o2"):
        grant(connection, name, at_ms=NOW_MS - 60_000)
    full = room({key: (HOURLY,)}, lambda _, one: Used(count=2, frees_ms=NOW_MS - 60_000), effect_type="dns.delete")
    far_ms = 4_000_000_000_000  # the tables compare with the clock of the database
    row = ("t", key, 0, "g1", full.breaker, NOW_MS, far_ms)
    connection.execute(statement("breaker_opened"), row)
    connection.execute(statement("breaker_told"), (*row, full.breaker, True, NOW_MS))
    (one,) = breakers_to_tell(connection, [0])
    event = breaker_event(one, Policies(values={key: now} if now else {}, versions={key: 2}), connection, now_ms=NOW_MS + 5)
    said = None if event is None else msgspec.json.decode(event.new or "", type=Breaker)
    assert (None if said is None else (said.state, said.reason)) == (None if reason is None else ("closed", reason))


def test_what_no_window_reaches_back_to_is_forgotten_once_it_is_over(connection: Any) -> None:
    grant(connection, "underway", at_ms=NOW_MS - 10, resource="zone:a")
    grant(connection, "over", at_ms=NOW_MS - 10, void=True, resource="zone:b")
    grant(connection, "recent", at_ms=NOW_MS, void=True)
    grant(connection, "other type", at_ms=NOW_MS - 10, void=True, effect_type="mail.send")
    forget_grants(connection, "t", "dns.delete", before_ms=NOW_MS, most=0)
    assert connection.execute("SELECT count(*) FROM grants").fetchone() == (4,), "a few at a time"
    forget_grants(connection, "t", "dns.delete", before_ms=NOW_MS)
    forget_resources(connection, "t", before_ms=NOW_MS)
    assert {name for (name,) in connection.execute("SELECT operation_id FROM grants")} == {
        "underway",
        "recent",
        "other type",
    }
    assert {name for (name,) in connection.execute("SELECT operation_id FROM resources_taken")} == {"underway"}
