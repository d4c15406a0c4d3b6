"""What reconcilers read from the database and share through it: pages of what is due, providers' budgets, and the partitions."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from landed.adapters.postgres import (
    PostgresDueOperations,
    PostgresProviderBudgets,
    PostgresReconcilers,
    PostgresSettings,
    connect,
    migrate,
    open_pool,
)
from landed.adapters.postgres.rows import Place, operation_row, route_row
from landed.adapters.postgres.statements import statement
from landed.core.contract import Contract, Effect, Probe, contract_json
from landed.core.reconciliation import priority
from landed.core.state import Attempt, Operation, Route
from landed.core.vocabulary import GroupState, OnAbsent, Stakes, State
from landed.ports import DueOperation
from landed_services.work.sharing import Sharing, share_of

TENANT = "acme"


@pytest.fixture
def database(fresh_database: str) -> PostgresSettings:
    settings = PostgresSettings(url=fresh_database)
    migrate(settings)
    return settings


@pytest.fixture
def pool(database: PostgresSettings) -> Iterator[Any]:
    opened = open_pool(database)
    yield opened
    opened.close()


def operation(name: str, state: State = State.UNKNOWN, *, doubt_since_ms: int = 1_000, **terms: Any) -> Operation:
    contract = Contract(**{"tool": "refund", "effect": Effect(kind="refund"), "outcome_probe": Probe(tool="find"), **terms})
    attempt = Attempt(number=1, claim_id="c", granted_at_ms=0, lease_end_ms=500, state_before=State.PREPARED)
    return Operation(
        operation_id=name,
        state=state,
        version=3,
        tool=contract.tool,
        contract_text=contract_json(contract),
        attempts=(attempt,),
        doubt_since_ms=doubt_since_ms if state in (State.UNKNOWN, State.RECONCILING) else None,
        settled_at_ms=900 if state is State.NOT_FOUND else None,
    )


def put(database: PostgresSettings, *operations: Operation, tenant: str = TENANT, group: GroupState = GroupState.NONE) -> None:
    with connect(database) as connection:
        for number, one in enumerate(operations):
            route = Route(
                tenant_id=tenant, route=one.operation_id, group_state=group, version=1, operations={one.operation_id: one}
            )
            place = Place(number % 3, number, number, 0)
            connection.execute(statement("upsert_operation"), operation_row(route, one, place))
            if group is not GroupState.NONE:
                connection.execute(statement("upsert_route"), route_row(route, place))
        connection.commit()


def pages(due: PostgresDueOperations, *, limit: int, closed: tuple[str, ...] = ()) -> list[list[DueOperation]]:
    found: list[list[DueOperation]] = []
    after = None
    while page := due.due(now_ms=10_000_000, limit=limit, after=after, closed_tools=closed):
        found.append(list(page))
        after = page[-1].place
    return found


def names(found: list[list[DueOperation]]) -> list[str]:
    return [one.operation.operation_id for page in found for one in page]


# ---- pages --------------------------------------------------------------------------------------------------------------


def test_bounded_pages_tell_everything_that_is_due_once_in_the_order_of_the_core(database: PostgresSettings, pool: Any) -> None:
    stakes = list(Stakes)
    made = [
        operation(f"op-{number:03}", doubt_since_ms=1_000 + number * 37 % 11, stakes=stakes[number % len(stakes)])
        for number in range(60)
    ]
    put(database, *made)
    found = pages(PostgresDueOperations(database, pool, range(3)), limit=7)
    assert {len(page) for page in found} <= {7, 60 % 7}
    assert names(found) == [one.operation_id for one in sorted(made, key=lambda one: (priority(one), one.operation_id))]


def test_what_is_not_due_yet_and_what_is_somebody_elses_is_on_no_page(database: PostgresSettings, pool: Any) -> None:
    later = replace(operation("later"), next_check_at_ms=20_000_000)
    put(database, operation("mine"), later, operation("third"))
    put(database, operation("theirs"), tenant="other")
    assert names(pages(PostgresDueOperations(database, pool, [0, 1], tenant_ids=[TENANT]), limit=5)) == ["mine"]


def test_of_closed_tools_only_leases_that_ran_out_are_told(database: PostgresSettings, pool: Any) -> None:
    put(database, operation("looked-for"), operation("held", State.DISPATCHED), operation("other", tool="charge"))
    due = PostgresDueOperations(database, pool, range(3))
    assert sorted(names(pages(due, limit=5, closed=("refund",)))) == ["held", "other"]


@pytest.mark.parametrize("group", [GroupState.UNWINDING, GroupState.UNWOUND, GroupState.NEEDS_HUMAN])
def test_a_forward_call_proven_absent_of_a_group_that_is_undone_is_told_no_more(
    database: PostgresSettings, pool: Any, group: GroupState
) -> None:
    retried: dict[str, Any] = {"on_absent": OnAbsent.RETRY, "max_attempts": 3}
    put(database, operation("absent", State.NOT_FOUND, **retried), operation("doubtful"), group=group)
    put(database, operation("alone", State.NOT_FOUND, **retried))
    (page,) = pages(PostgresDueOperations(database, pool, range(3)), limit=5)
    assert {one.operation.operation_id: one.group_state for one in page} == {"doubtful": group, "alone": GroupState.NONE}


# ---- budgets ------------------------------------------------------------------------------------------------------------


def test_reconcilers_that_ask_at_the_same_time_get_one_budget_together(database: PostgresSettings, pool: Any) -> None:
    other = open_pool(database)
    began = time.monotonic()
    try:
        both = [PostgresProviderBudgets(database, one) for one in (pool, other)]

        def greedy(budget: PostgresProviderBudgets) -> int:
            return sum(budget.take("psp", wanted=3, per_second=40.0) for _ in range(120))

        with ThreadPoolExecutor(4) as threads:
            taken = sum(threads.map(greedy, both * 2))
    finally:
        other.close()
    seconds = time.monotonic() - began
    assert 40 <= taken <= 40 + 40.0 * seconds + 1, (taken, seconds)


def test_tokens_come_back_with_time_up_to_a_seconds_worth(database: PostgresSettings, pool: Any) -> None:
    budget = PostgresProviderBudgets(database, pool)
    assert budget.take("psp", wanted=100, per_second=20.0) == 20
    assert budget.take("psp", wanted=100, per_second=20.0) <= 2
    with connect(database) as connection:
        connection.execute("UPDATE provider_budgets SET refilled_at_ms = refilled_at_ms - 3600000")
        connection.commit()
    assert budget.take("psp", wanted=100, per_second=20.0) == 20
    assert budget.take("another", wanted=1, per_second=0.1) == 1


def test_a_provider_that_is_left_alone_gets_no_call_from_anybody_until_then(database: PostgresSettings, pool: Any) -> None:
    budget = PostgresProviderBudgets(database, pool)
    budget.take("psp", wanted=1, per_second=20.0)
    budget.pause("psp", seconds=30.0, per_second=20.0)
    assert budget.take("psp", wanted=1, per_second=20.0) == 0
    with connect(database) as connection:
        connection.execute("UPDATE provider_budgets SET refilled_at_ms = refilled_at_ms - 29000")
        connection.commit()
    assert budget.take("psp", wanted=1, per_second=20.0) == 0
    with connect(database) as connection:
        connection.execute("UPDATE provider_budgets SET refilled_at_ms = refilled_at_ms - 1100")
        connection.commit()
    assert budget.take("psp", wanted=1, per_second=20.0) == 1


# ---- partitions ---------------------------------------------------------------------------------------------------------


def test_live_reconcilers_have_every_partition_once() -> None:
    for count in range(1, 7):
        live = [f"r-{number}" for number in range(count)]
        shares = [list(share_of(name, live, 12)) for name in live]
        assert sorted(partition for share in shares for partition in share) == list(range(12))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_reconciler_that_falls_silent_is_replaced_and_one_that_leaves_at_once(database: PostgresSettings, pool: Any) -> None:
    known = PostgresReconcilers(database, pool)
    mine: dict[str, list[int]] = {}

    def joined(name: str) -> Sharing:
        def changed(partitions: Any) -> None:
            mine[name] = list(partitions)

        return Sharing(known, 6, changed=changed, turned_s=time.monotonic)

    first, second = joined("first"), joined("second")
    first.beat()
    second.beat()
    first.beat()
    assert sorted(mine["first"] + mine["second"]) == list(range(6))
    with connect(database) as connection:
        connection.execute("UPDATE reconcilers SET beat_at_ms = beat_at_ms - 4100 WHERE name = %s", (second.name,))
        connection.commit()
    first.beat()
    assert mine["first"] == list(range(6))
    second.beat()
    first.beat()
    assert len(mine["first"]) == 3
    known.leave(second.name)
    first.beat()
    assert mine["first"] == list(range(6))


def test_a_reconciler_whose_loop_stands_still_does_not_say_that_it_is_there(database: PostgresSettings, pool: Any) -> None:
    known = PostgresReconcilers(database, pool)
    with Sharing(known, 6, changed=lambda _: None, turned_s=lambda: time.monotonic() - 100.0) as stuck:
        time.sleep(1.3)
        with connect(database) as connection:
            row = connection.execute(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - beat_at_ms FROM reconcilers WHERE name = %s",
                (stuck.name,),
            ).fetchone()
    assert row is not None
    assert row[0] >= 1_200, "it said so although its loop stands still"
