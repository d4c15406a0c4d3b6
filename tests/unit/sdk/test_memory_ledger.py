"""The in-memory ledger as log and view: its projector can stand still, fall back and fold anew; policies hold as on the log."""

from landed.adapters.memory import ManualClock, MemoryLedger
from landed.core.events import PolicyChanged
from landed.core.policy import Ceiling, policy_json, policy_route
from landed.sdk.ledger import Ledger
from landed.sdk.results import Confirmed, Refused
from landed.wire.ids import with_event_id

from .support import TENANT, Counted


def ceiling(memory: MemoryLedger, limit: int) -> None:
    key = "ceiling:refund.create"
    event = PolicyChanged(
        event_id="",
        tenant_id=TENANT,
        route=policy_route(key),
        actor="operator",
        scope=key,
        new=policy_json((Ceiling(limit=limit, per_s=3600),)),
        who="operator",
        why="a test",
    )
    memory.append(with_event_id(event)).result()


def test_while_its_projector_is_held_nobody_is_answered_and_nothing_is_called() -> None:
    memory, counted = MemoryLedger(ManualClock()), Counted()
    memory.hold()
    with Ledger.on(memory, tenant=TENANT, wait=0.05) as ledger:
        held = ledger.perform(counted.tool, operation_id="A")
        assert isinstance(held, Refused)
        memory.resume()
        assert isinstance(ledger.perform(counted.tool, operation_id="A"), Confirmed)
    assert counted.effects == 1


def test_an_older_view_reads_on_to_the_same_state_and_a_rebuild_gives_it_too() -> None:
    memory, counted = MemoryLedger(ManualClock()), Counted()
    with Ledger.on(memory, tenant=TENANT) as ledger:
        ledger.perform(counted.tool, operation_id="A")
        older = memory.tables.copy()
        ledger.perform(counted.tool, operation_id="B")
        ledger.perform(counted.tool, operation_id="A")
        routes, entries = dict(memory.tables.routes), memory.entries()
        memory.restore(older)
        assert memory.tables.routes == routes
        memory.rebuild()
        assert memory.tables.routes == routes
        memory.rebuild(before=2)
        assert memory.tables.routes == routes
        assert memory.entries() == entries


def test_of_more_claims_than_a_ceiling_exactly_as_many_are_granted() -> None:
    memory, counted = MemoryLedger(ManualClock()), Counted()
    ceiling(memory, 3)
    with Ledger.on(memory, tenant=TENANT) as ledger:
        results = [ledger.perform(counted.tool, operation_id=f"A{number}") for number in range(7)]
    assert counted.effects == 3
    refused = [one for one in results if isinstance(one, Refused)]
    assert [one.reason for one in refused] == ["surge_exceeded"] * 4
    assert '"observed":4' in refused[0].detail["breaker"]
