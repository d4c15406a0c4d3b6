"""An inverse that comes to people does so with the task of what it undoes: that is told of, also if nobody looked meanwhile."""

from typing import Any

import pytest
from tests.receiving import receiving

from landed import Confirmed, Probe, ToolRegistry, Unknown, effect
from landed.core.contract import Compensation, Effect
from landed.core.vocabulary import Choice

from .conftest import World
from .staged import ANYBODY
from .test_notifications import Told, decided, receiver_at, until


@effect(
    tool="room.book",
    effect=Effect(kind="room.book", reversible=True),
    reference_field="id",
    receipt_fields=("id",),
    compensation=Compensation(tool="room.cancel", required_fields=("id",)),
)
def book(room: str) -> dict[str, str]:
    return {"id": f"b_{room}"}


@effect(tool="room.cancel", effect=Effect(kind="room.cancel"), outcome_probe=Probe(tool="room.find"), first_check_after=0.0)
def cancel(id: str) -> Any:
    raise TimeoutError("the answer was lost")


@pytest.fixture
def told(world: World) -> Told:
    world.__class__ = Told
    assert isinstance(world, Told)
    return world


def undone_in_vain(told: Told, name: str) -> None:
    """Booked, and its inverse is in doubt: nothing here looks it up."""
    group = told.ledger().group(name, workflow_type="stay")
    assert isinstance(group.perform(book, operation_id=name, room=name), Confirmed)
    group.unwind("later_step_failed")
    told.until_group(name, "unwinding")
    assert isinstance(group.perform(cancel, operation_id=f"compensate:{name}", id=f"b_{name}"), Unknown)
    assert told.until_group(name, "needs_human").operation(name).review is not None


def test_an_inverse_that_came_to_people_is_told_of_as_what_it_undoes_open_or_settled_while_nobody_looked(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    told.policy("compensation", ANYBODY)
    with receiving() as server:
        told.tell(receiver_at(server)).end()
        undone_in_vain(told, "missed")
        told.append(decided("missed", choice=Choice.KEPT))
        told.until_group("missed", "unwound")
        undone_in_vain(told, "open")
        told.tell(receiver_at(server))
        until(lambda: len(server.deliveries) >= 2)
        until(lambda: {one.state for one in told.notifications()} == {"delivered"})
        assert {(one.kind, one.operation_id) for one in told.notifications()} == {
            ("review_settled", "missed"),
            ("review_opened", "open"),
        }
        told.append(decided("open", choice=Choice.KEPT))
        until(lambda: len(server.of("review_settled")) == 2)
        assert {one.operation_id for one in told.notifications()} == {"missed", "open"}
