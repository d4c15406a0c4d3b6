"""Groups are undone by real compensators, on the real broker and database, at a provider that keeps records of every effect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from landed import Confirmed, Ledger, ToolRegistry
from landed.core import events as ev
from landed.core.authorization import Rule, Rules
from landed.testing.faulty_provider import FaultyProvider

from .conftest import World
from .trip import KINDS, trip

ROOT = Path(__file__).resolve().parents[2]
ANYBODY = Rules(rules=(Rule(id="anybody"),))
CANCELS = tuple(f"cancel_{kind}" for kind in KINDS)


@pytest.fixture
def provider() -> Iterator[FaultyProvider]:
    with FaultyProvider(honours_key=False) as made:
        yield made


def allowed(world: World) -> None:
    world.policy("compensation", ANYBODY)
    world.policy("automatic", CANCELS)


def booked(ledger: Ledger, registry: ToolRegistry, group: str, *kinds: str, **how: Any) -> None:
    work = ledger.group(group, workflow_type="trip")
    for kind in kinds:
        tool = registry.tool(f"book_{kind}")
        assert tool is not None
        assert isinstance(work.perform(tool, operation_id=f"{group}:{kind}", trip=group, **how), Confirmed)


def cancelled(provider: FaultyProvider) -> list[str]:
    """What the provider was told to undo, in order, each time that it was."""
    bookings = {one["id"]: one["operation_id"] for one in provider.effects}
    return [bookings[one["undoes"]] for one in provider.effects if "undoes" in one]


def test_a_plan_is_performed_in_reverse_order_each_inverse_once_by_two_compensators(
    world: World, provider: FaultyProvider
) -> None:
    registry = trip(provider.url)
    world.projector()
    allowed(world)
    ledger = world.ledger()
    booked(ledger, registry, "t1", *KINDS)
    world.compensator(registry)
    world.compensator(registry)
    ledger.group("t1", workflow_type="trip").unwind("card_declined")
    route = world.until_group("t1", "unwound")
    assert cancelled(provider) == ["t1:car", "t1:seat", "t1:hotel", "t1:flight"]
    assert {route.operation(f"t1:{kind}").state for kind in KINDS} == {"compensated"}
    ruled = [one.event for one in world.entries("compensate:t1:car") if isinstance(one.event, ev.CompensationAuthorized)]
    assert [(one.decision, one.policy_version) for one in ruled] == [("allow", "compensation@1")]
    assert '"principal"' not in ruled[0].context
