"""The compensator on a ledger in memory: it performs what both allow, hands over what nothing here can, leaves the rest."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from landed import Absent, Confirmed, Found, Ledger, ProbeRequest, ToolRegistry
from landed.adapters.memory import MemoryLedger
from landed.adapters.postgres.unwinding import UnwindingGroup
from landed.adapters.system import SystemClock
from landed.core import events as ev
from landed.core.authorization import Rule, Rules
from landed.core.contract import Compensation, Effect, Requires
from landed.core.fold import empty_route, fold
from landed.core.policy import PolicyValue, policy_json, policy_route
from landed.core.state import Route
from landed.core.vocabulary import GroupState
from landed.sdk.parts import Parts
from landed.sdk.settings import Settings
from landed.wire.ids import with_event_id
from landed_services.compensator.inverses import InverseRunner
from landed_services.compensator.loop import Compensator

REQUIRES = Requires(read="state", condition="status open", wait=0.3)


class Stage:
    """One booking in a group that unwinds, and a compensator that the test turns."""

    def __init__(self, *, automatic: bool = True, known: bool = True, requires: Requires | None = None) -> None:
        self.memory = MemoryLedger()
        self.undone: list[str] = []
        self.shown: Route | None = None
        """What the view still shows, where it lags behind."""
        self.state: Found | Absent = Absent()
        team, here = ToolRegistry(), ToolRegistry()
        undo = Compensation(tool="unbook", required_fields=("id",), automatic=True, requires=requires)

        @team.effect(tool="book", effect=Effect(kind="b.create"), reference_field="id", receipt_fields=("id",), compensation=undo)
        def book() -> dict[str, Any]:
            return {"id": "r-1"}

        def unbook(id: str) -> dict[str, Any]:
            self.undone.append(id)
            return {"ok": True}

        if known:
            here.effect(tool="unbook", effect=Effect(kind="b.delete"))(unbook)
            here.requirement("state")(self.read)
        self.policy("compensation", Rules(rules=(Rule(id="service", principals=("compensator",)),)))
        if automatic:
            self.policy("automatic", ("unbook",))
        ledger = Ledger(Settings(bootstrap=None, tenant="acme", worker="agent"), self.memory, self.memory)
        group = ledger.group("trip", workflow_type="trip")
        assert isinstance(group.perform(book, operation_id="b-1"), Confirmed)
        group.unwind("later_step_failed")
        parts = Parts(Settings(bootstrap=None, tenant="nobody", worker="compensator:1"), self.memory, self.memory)
        self.runner = InverseRunner(here, parts)
        self.compensator = Compensator(self.memory, self, self.runner, here, SystemClock())

    def read(self, request: ProbeRequest) -> Any:
        assert (request.operation_id, request.references) == ("b-1", ("r-1",))
        return self.state

    def policy(self, key: str, value: PolicyValue) -> None:
        held = self.memory.route(policy_route(key), tenant="acme")
        event = ev.PolicyChanged(
            event_id="",
            tenant_id="acme",
            route=policy_route(key),
            actor="olga",
            seen_version=held.version,
            scope=key,
            new=policy_json(value),
            who="olga",
            why="test",
        )
        self.memory.append(with_event_id(event)).result()

    def page(self, *, limit: int, after: tuple[str, str] = ("", "")) -> list[UnwindingGroup]:
        tables = self.memory.tables
        if self.shown is not None:
            return [UnwindingGroup(self.shown, tables.policies("acme"))]
        return [
            UnwindingGroup(route, tables.policies(tenant_id))
            for (tenant_id, _), route in tables.routes.items()
            if route.group_state is GroupState.UNWINDING and (tenant_id, route.route) > after
        ][:limit]

    def turn(self, until: Callable[[], bool] = lambda: False, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            self.compensator.wake()
            self.compensator.tick()
            time.sleep(0.02)

    def group(self) -> str:
        return self.memory.route("trip", tenant="acme").group_state

    def handed_over(self) -> list[str]:
        events = [one for one in self.memory.events("b-1") if isinstance(one, ev.OperationEscalated)]
        return [msgspec.json.decode(one.evidence or "{}")["why"] for one in events]


def test_what_contract_and_tenant_allow_is_performed_once_under_the_principal_of_the_service() -> None:
    stage = Stage()
    stage.turn(lambda: stage.group() == "unwound")
    stage.turn(seconds=0.3)
    assert stage.undone == ["r-1"]
    (prepared,) = [one for one in stage.memory.events("compensate:b-1") if isinstance(one, ev.OperationPrepared)]
    assert prepared.stored_args == '{"id":"r-1"}', "whoever goes on sends the same arguments"


def test_an_inverse_is_not_claimed_again_while_the_view_lacks_what_came_of_its_claim() -> None:
    stage = Stage()
    stage.turn(lambda: bool(stage.undone))
    behind = empty_route("acme", "trip")
    for entry in stage.memory.entries():
        if entry.event.route == "trip":
            behind = fold(behind, entry).route
            if entry.event.operation_id == "compensate:b-1":
                break  # the claim shows, and neither the decision nor the outcome
    assert behind.operation("compensate:b-1").state == "prepared"
    stage.shown = behind
    stage.turn(seconds=0.3)
    claims = [one for one in stage.memory.events("compensate:b-1") if isinstance(one, ev.OperationPrepared)]
    assert len(claims) == 1


def test_what_the_tenant_does_not_allow_is_left_alone() -> None:
    stage = Stage(automatic=False)
    stage.turn(seconds=0.4)
    assert (stage.undone, stage.handed_over(), stage.group()) == ([], [], "unwinding")


def test_what_is_not_registered_here_goes_to_a_person_once() -> None:
    stage = Stage(known=False)
    stage.turn(lambda: stage.group() == "needs_human")
    stage.turn(seconds=0.3)
    assert (stage.undone, stage.handed_over()) == ([], ["the inverse is not registered here"])


@pytest.mark.parametrize("shown", [Absent(), Found(receipt={"status": "blocked"}, matched_on=("id",))])
def test_what_is_required_is_waited_for_and_then_a_person_has_it(shown: Found | Absent) -> None:
    stage = Stage(requires=REQUIRES)
    stage.state = shown
    stage.turn(lambda: stage.group() == "needs_human")
    assert (stage.undone, stage.handed_over()) == ([], ["its precondition does not hold"])


def test_an_inverse_is_performed_as_soon_as_what_it_requires_holds() -> None:
    stage = Stage(requires=Requires(read="state", condition="status open", wait=30.0))
    stage.turn(seconds=0.2)
    assert stage.undone == []
    stage.state = Found(receipt={"status": "open"}, matched_on=("id",))
    stage.turn(lambda: stage.group() == "unwound")
    assert stage.undone == ["r-1"]


def test_a_refused_inverse_is_not_asked_for_again_and_again() -> None:
    stage = Stage()
    stage.policy("compensation", Rules(rules=(Rule(id="freeze", effect="deny"),)))
    stage.turn(lambda: stage.group() == "needs_human")
    stage.turn(seconds=0.3)
    claims = [one for one in stage.memory.events("compensate:b-1") if isinstance(one, ev.OperationPrepared)]
    assert (stage.undone, len(claims)) == ([], 1)
    assert stage.handed_over() == ["unauthorized"]
