"""How much the ledger asks of a provider by itself: a budget of its own, places of its own, and silence where it is asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from landed import ContractError, Found, ProbeRequest
from landed.adapters.memory import ManualClock
from landed.core import events as ev
from landed.core.vocabulary import Stakes
from landed.sdk.providers import Providers
from landed_services.work.budgets import Budgets, BudgetsInMemory

from .world import World

Make = Callable[..., World]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[World] = []

    def world(look: Callable[[ProbeRequest], Any], **options: Any) -> World:
        made.append(World(look, **options))
        return made[-1]

    yield world
    for one in made:
        one.close()


def found(request: ProbeRequest) -> Any:
    return Found(reference=f"re_{request.operation_id}", matched_on=("operation_id",))


def budgets(**provider: Any) -> tuple[Budgets, ManualClock]:
    providers, clock = Providers(), ManualClock()
    providers.add("psp", tools=["refund", "charge"], **provider)
    return Budgets(providers, None, clock), clock


def begun(of: Budgets, tool: str = "refund") -> int:
    """Calls that are begun and over at once, until there is no token."""
    number = 0
    while of.begin(tool):
        of.end(tool)
        number += 1
    return number


def test_in_each_second_no_more_is_begun_than_the_budget_has() -> None:
    of, clock = budgets(per_second=10.0)
    first = begun(of)
    total = first
    for _ in range(100):
        clock.advance(0.1)
        total += begun(of)
    assert total <= 10 + 10 * 10.0
    assert total >= 95


def test_tools_of_one_provider_share_its_budget() -> None:
    of, _ = budgets(per_second=2.0)
    begun(of)
    assert not of.begin("charge")
    assert of.begin("another")


def test_of_one_provider_no_more_run_at_the_same_time_than_it_has_places() -> None:
    of, _ = budgets(per_second=None, at_once=2)
    assert [of.begin("refund"), of.begin("charge"), of.begin("refund")] == [True, True, False]
    assert of.closed(["refund", "another"]) == ["refund"]
    of.end("charge")
    assert of.begin("refund")


def test_a_provider_that_asks_for_silence_gets_it_and_longer_each_time() -> None:
    of, clock = budgets(per_second=100.0)
    silences = []
    for _ in range(4):
        silence_s = 0.0
        while not of.begin("refund"):
            clock.advance(0.25)
            silence_s += 0.25
        of.end("refund", throttled_s=0.0)
        silences.append(silence_s)
    assert silences == [0.0, 1.0, 2.0, 4.0]


def test_what_one_reconciler_is_told_all_of_them_heed() -> None:
    providers, clock = Providers(), ManualClock()
    shared = BudgetsInMemory(clock)
    one, other = (Budgets(providers, shared, clock) for _ in range(2))
    assert one.begin("refund")
    one.end("refund", throttled_s=10.0)
    clock.advance(9.0)
    assert not other.begin("refund")
    clock.advance(1.5)
    assert other.begin("refund")


def test_it_is_left_alone_for_as_long_as_it_says() -> None:
    of, clock = budgets(per_second=100.0)
    assert of.begin("refund")
    of.end("refund", throttled_s=30.0)
    clock.advance(29.0)
    assert not of.begin("refund")
    clock.advance(2.0)
    assert of.begin("refund")


@pytest.mark.parametrize(
    ("name", "given"),
    [("per_second", {"per_second": 0.0}), ("per_second", {"per_second": float("nan")}), ("at_once", {"at_once": 0})],
)
def test_a_budget_that_is_none_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match=name):
        Providers().add("psp", tools=["refund"], **given)


def test_a_tool_has_one_provider() -> None:
    providers = Providers()
    providers.add("psp", tools=["refund"])
    with pytest.raises(ContractError, match="has a provider already"):
        providers.add("other", tools=["refund"])


# ---- in the loop --------------------------------------------------------------------------------------------------------


def test_a_provider_without_budget_left_holds_up_no_other_and_no_lease(make: Make) -> None:
    world = make(found, at_once=8, batch=4)
    world.registry.providers.add("slow", tools=["refund"], per_second=1.0)
    refund = world.tool("refund", stakes=Stakes.MONEY)
    for number in range(20):
        world.begun(refund, f"slow-{number:02}")
    world.begun(world.tool("note"), "quick")
    world.pass_time(2.5)
    world.until("quick", "confirmed", step_s=0.05)
    assert sum(name.startswith("slow") for name in world.looks) <= 4
    assert {world.operation(f"slow-{number:02}").state for number in range(20)} <= {"unknown", "confirmed"}


def test_throttled_looks_are_recorded_and_followed_by_silence(make: Make) -> None:
    class TooMany(Exception):
        status = 429
        retry_after = 5

    def look(request: ProbeRequest) -> Any:
        if len(world.looks) == 1:
            raise TooMany
        return found(request)

    world = make(look)
    tool = world.tool()
    world.begun(tool, "op")
    world.begun(tool, "other")
    world.pass_time(2.5)
    while not world.looks:
        world.work(seconds=0.02)
        world.pass_time(0.05)
    looked = len(world.looks)
    for _ in range(40):
        world.work(seconds=0.01)
        world.pass_time(0.1)
    assert len(world.looks) <= looked + 3, "only what was under way"
    world.until("op", "confirmed")
    looks = [one for one in world.memory.events("op") if isinstance(one, ev.ProbeRecorded)]
    assert looks[-1].result == "found"


def test_what_has_most_at_stake_is_looked_up_first(make: Make) -> None:
    world = make(found, at_once=1)
    for name, stakes in [("a", Stakes.NONE), ("b", Stakes.COMMUNICATION), ("c", Stakes.PERMISSION), ("d", Stakes.MONEY)]:
        world.begun(world.tool(f"tool-{name}", stakes=stakes), name)
    world.pass_time(2.5)
    world.work()
    world.pass_time(1.0)
    for _ in range(100):
        world.work(seconds=0.01)
        world.pass_time(0.05)
    assert world.looks == ["d", "c", "b", "a"]


def test_of_equal_stakes_the_one_with_least_time_left_is_looked_up_first(make: Make) -> None:
    world = make(found, at_once=1)
    for name, deadline in [("a", 900.0), ("b", 300.0), ("c", 600.0)]:
        world.begun(world.tool(f"tool-{name}", deadline=deadline), name)
    world.pass_time(2.5)
    world.work()
    world.pass_time(1.0)
    for _ in range(100):
        world.work(seconds=0.01)
        world.pass_time(0.05)
    assert world.looks == ["b", "c", "a"]
