"""A request that is sent again: claimed, called and recorded as any other, by the real loop on the ledger in memory."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from landed import Absent, Access, Found, ProbeRequest, ToolError
from landed.core import events as ev
from landed.core.contract import Effect, OperationKey
from landed.core.identity import request_hash
from landed.core.policy import policy_route
from landed.core.state import Operation
from landed.core.vocabulary import ActionClass, OnAbsent
from landed.wire.ids import with_event_id

from .world import BOUNDS, TENANT, World

RETRY: dict[str, Any] = {"on_absent": OnAbsent.RETRY, "max_attempts": 3, "reference_field": "id"}
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


def absent(request: ProbeRequest) -> Any:
    return Absent()


def story(world: World, name: str = "op") -> list[str]:
    """Accepted events of *name*, without the looks."""
    refused = world.memory.refused()
    entries = [one for one in world.memory.entries() if one.event.operation_id == name and one.position.offset not in refused]
    return [kind for one in entries if (kind := ev.TYPE_OF[type(one.event)]) != "probe_recorded"]


def test_after_proven_absence_the_same_request_is_claimed_and_sent_once_more(make: Make) -> None:
    world = make(absent)
    world.begun(world.tool(**RETRY), "op")
    operation = world.until("op", "confirmed")
    assert world.calls == ["op"], "the tool was not called under the operation's own id"
    assert story(world) == [
        "operation_prepared",
        "dispatch_granted",
        "lease_expired",
        "absence_established",
        "dispatch_requested",
        "dispatch_granted",
        "outcome_confirmed",
    ]
    claim = next(one.claim for one in world.memory.events("op") if isinstance(one, ev.DispatchRequested))
    assert (claim.replay, claim.replay_reason, claim.request_hash) == (True, "absent", operation.request_hash)
    assert [one.number for one in operation.attempts] == [1, 2]
    confirmed = next(one for one in world.memory.events("op") if isinstance(one, ev.OutcomeConfirmed))
    assert (confirmed.source, confirmed.attempt, confirmed.reference) == ("worker", 2, "re_1")


def test_what_the_call_comes_to_is_classified_as_any_other_call(make: Make) -> None:
    world = make(absent)

    def declined() -> Any:
        raise ToolError("card_declined")

    world.answer = declined
    world.begun(world.tool(**RETRY, no_effect_errors=("card_declined",)), "op")
    assert world.until("op", "rejected").error_code == "card_declined"
    assert len(world.calls) == 1


def test_a_lost_answer_of_the_second_call_is_looked_up_again_and_attempts_are_bounded(make: Make) -> None:
    world = make(absent)

    def lost() -> Any:
        raise TimeoutError

    world.answer = lost
    world.begun(world.tool(**RETRY), "op")
    until_settled(world, "not_found")
    assert len(world.calls) == 2, "three attempts with the first one"
    assert world.operation("op").settled_at_ms is not None


def until_settled(world: World, state: str) -> Operation:
    """The operation once it is in *state* with nothing more to come by itself."""
    for _ in range(400):
        operation = world.operation("op")
        if operation.state == state and operation.settled_at_ms is not None:
            return operation
        world.work(seconds=0.01)
        world.pass_time(0.5)
    raise AssertionError((world.operation("op").state, world.names("op")))


def test_an_async_tool_is_called_as_well(make: Make) -> None:
    world = make(absent)
    called = []

    @world.registry.effect(
        tool="refund.async", effect=Effect(kind="refund.create"), outcome_probe="find", stored_args=("order",), **BOUNDS, **RETRY
    )
    async def refund(order: str = "7") -> dict[str, str]:
        called.append(order)
        return {"id": "re_1"}

    refund.probe(absent)
    world.begun(refund, "op")
    world.until("op", "confirmed")
    assert called == ["7"]


def test_the_key_is_filled_with_the_operation_id_again(make: Make) -> None:
    world = make(absent)
    keys = []

    @world.registry.effect(
        tool="refund.keyed",
        effect=Effect(kind="refund.create"),
        action_class=ActionClass.DEDUPE_SUPPORTED,
        operation_key=OperationKey(argument="key"),
        stored_args=("order",),
        max_attempts=2,
        reference_field="id",
        **BOUNDS,
    )
    def refund(order: str, key: str) -> dict[str, str]:
        keys.append((order, key))
        return {"id": "re_1"}

    world.begun(refund, "op")
    operation = world.until("op", "confirmed")
    assert keys == [("7", "op")]
    claim = next(one.claim for one in world.memory.events("op") if isinstance(one, ev.DispatchRequested))
    assert claim.replay_reason == "dedupe_supported"
    assert operation.attempts[1].replay is True
    assert "probe_recorded" not in world.names("op"), "nothing looks it up"


def test_with_neither_key_nor_lookup_nothing_is_sent_again(make: Make) -> None:
    world = make(absent)

    @world.registry.effect(tool="mail.send", effect=Effect(kind="mail.send"), stored_args=("order",), max_attempts=5, **BOUNDS)
    def send(order: str) -> None:
        raise AssertionError("it was sent again")

    world.begun(send, "op")
    assert world.until("op", "escalated").escalated_for == "no_probe"


def test_a_request_that_is_not_kept_whole_is_not_guessed(make: Make) -> None:
    world = make(absent)

    @world.registry.effect(
        tool="refund.partly", effect=Effect(kind="refund.create"), outcome_probe="find", stored_args=("order",), **BOUNDS, **RETRY
    )
    def refund(order: str, note: str = "none") -> dict[str, str]:
        raise AssertionError("it was sent with arguments that nobody gave")

    refund.probe(absent)
    world.begun(refund, "op")
    assert world.until("op", "escalated").escalated_for == "absent"
    told = next(one for one in world.memory.events("op") if isinstance(one, ev.OperationEscalated))
    assert '"replay":"arguments_not_stored"' in (told.evidence or "")


def test_stored_arguments_that_are_not_those_of_the_request_are_not_sent(make: Make) -> None:
    """As where somebody could write to the log what the tool is to be called with."""
    world = make(absent)
    tool = world.tool(**RETRY)
    world.begun(tool, "op")
    prepared = next(one for one in world.memory.events("op") if isinstance(one, ev.OperationPrepared))
    forged = with_event_id(
        ev.OperationPrepared(
            **{
                **{name: getattr(prepared, name) for name in prepared.__struct_fields__},
                "operation_id": "forged",
                "route": "forged",
                "request_hash": request_hash(tool.contract, {"order": "7"}),
                "stored_args": '{"order":"8"}',
                "claim": None,
            }
        )
    )
    world.memory.append(forged)
    granted = next(one for one in world.memory.events("op") if isinstance(one, ev.DispatchGranted))
    fields = {name: getattr(granted, name) for name in granted.__struct_fields__}
    world.memory.append(with_event_id(ev.DispatchGranted(**{**fields, "operation_id": "forged", "route": "forged"})))
    assert world.until("forged", "escalated").escalated_for == "absent"
    assert "forged" not in world.calls
    assert "dispatch_requested" not in world.names("forged"), "it was claimed with a request that is not its own"


def test_a_replay_that_nobody_authorizes_is_not_claimed_and_goes_to_a_person(make: Make) -> None:
    world = make(absent)
    asked: list[Access] = []

    @world.registry.providers.authorize
    def allowed(access: Access) -> bool:
        asked.append(access)
        return access.action == "probe"

    world.registry.providers.add("psp", tools=["refund"])
    world.begun(world.tool(**RETRY), "op")
    assert world.until("op", "escalated").escalated_for == "absent"
    assert world.calls == []
    assert "dispatch_requested" not in world.names("op")
    access = asked[-1]
    assert (access.tenant_id, access.action, access.tool, access.provider) == (TENANT, "replay", "refund", "psp")
    assert access.operation_id == "op"


def test_a_claim_that_was_refused_for_good_is_not_made_again_while_the_view_lacks_what_was_said_of_it(make: Make) -> None:
    world = make(absent)
    held = ev.PolicyChanged(
        event_id="",
        tenant_id=TENANT,
        route=policy_route("tool:*"),
        actor="olga",
        seen_version=0,
        scope="tool:*",
        old=None,
        new='{"observe":true}',
        who="olga",
        why="first week",
    )
    world.memory.append(with_event_id(held)).result()
    world.begun(world.tool(**RETRY), "op")
    world.log.slow = []
    for _ in range(400):
        world.work(seconds=0.01)
        if any(isinstance(event, ev.OperationEscalated) for event, _ in world.log.slow or ()):
            break
        if world.log.slow:
            world.log.arrive()
            world.log.slow = []
        world.pass_time(0.5)
    # The refused claim shows and the escalation does not: another version, and no news.
    world.due.stale()
    world.log.arrive()
    for _ in range(5):
        world.work(seconds=0.02)
        world.pass_time(0.3)
    assert story(world).count("dispatch_refused") == 1
    assert story(world)[-1] == "operation_escalated"
    assert world.calls == []


@pytest.mark.parametrize("policy", ["denies", "raises"])
def test_a_look_that_nobody_authorizes_is_not_made_is_recorded_and_bounded(make: Make, policy: str) -> None:
    world = make(absent)

    @world.registry.providers.authorize
    def allowed(access: Access) -> bool:
        if policy == "raises":
            raise RuntimeError("no policy")
        return False

    world.begun(world.tool(max_checks=2), "op")
    assert world.until("op", "escalated").escalated_for == "probes_exhausted"
    assert world.looks == []
    looks = [one for one in world.memory.events("op") if isinstance(one, ev.ProbeRecorded)]
    assert [one.evidence for one in looks] == ['{"error":"not_authorized"}'] * 2


def test_a_forward_call_of_a_group_that_is_undone_is_not_sent_again(make: Make) -> None:
    world = make(absent)
    world.begun(world.tool(**RETRY), "trip:hotel", group_id="trip")
    undone = ev.UnwindRequested(
        event_id="", tenant_id=TENANT, route="trip", group_id="trip", actor="anna", reason="cancelled", by="anna"
    )
    world.memory.append(with_event_id(undone))
    assert world.memory.route("trip", tenant=TENANT).group_state == "unwinding"
    world.until("trip:hotel", "not_found")
    for _ in range(20):
        world.work(seconds=0.01)
        world.pass_time(1.0)
    assert world.operation("trip:hotel").state == "not_found"
    assert world.calls == []
    assert "dispatch_requested" not in world.names("trip:hotel")


def test_a_call_that_hangs_costs_its_place_and_no_other_operation(make: Make) -> None:
    world, woken = make(absent), threading.Event()

    def look(request: ProbeRequest) -> Any:
        found = Found(reference="re_1", matched_on=("operation_id",))
        return Absent() if request.operation_id.startswith("slow") and "slow" not in world.calls else found

    def hang() -> Any:
        woken.wait(30)
        return {"id": "re_1"}

    world._look, world.answer = look, hang
    world.begun(world.tool(**RETRY), "slow")
    try:
        while not world.calls:
            world.work(seconds=0.02)
            world.pass_time(0.5)
        world.begun(world.tool("quick"), "quick")
        world.until("quick", "confirmed")
    finally:
        woken.set()


def test_two_reconcilers_send_it_once(make: Make) -> None:
    world = make(absent)
    world.begun(world.tool(**RETRY), "op")
    other = make(absent, on=world)
    for _ in range(60):
        if world.operation("op").state == "confirmed":
            break
        for one in (world, other):
            one.work(seconds=0.02)
        world.pass_time(0.5)
        other.reconcilers_clock.advance(0.5)
    assert world.operation("op").state == "confirmed"
    assert world.calls == ["op"]
