"""The reconciler gets stuck on nothing: not on a clock, a probe, a record, a log or a view that fails (docs/semantics.md §7)."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from landed import Absent, Ambiguous, Found, ProbeRequest
from landed.core import events as ev
from landed.core.vocabulary import BytesLeft, OnAbsent
from landed.ports import AppendFailed, NothingAppended
from landed.wire.ids import with_event_id

from .world import TENANT, World, hanging

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
    return Found(reference="re_1", matched_on=("operation_id",))


def absent(request: ProbeRequest) -> Any:
    return Absent()


# ---- clocks -------------------------------------------------------------------------------------------------------------


def test_a_lease_is_expired_also_by_a_reconciler_whose_clock_runs_ahead_of_the_log(make: Make) -> None:
    """The log refuses what is said too early; said again in time, it must count."""
    world = make(found)
    world.begun(world.tool(), "op")
    world.reconcilers_clock.advance(30)
    world.work()
    assert world.operation("op").state == "dispatched", "the lease runs still, on the log's clock"
    assert world.until("op", "confirmed", timeout_s=5).references[0].value == "re_1"
    assert world.names("op").count("lease_expired") <= 3, "the log is not flooded with what it refuses"


def test_a_lease_is_expired_also_after_another_reconciler_said_so_too_early(make: Make) -> None:
    world = make(found)
    world.begun(world.tool(), "op")
    hasty = make(found, on=world)
    hasty.reconcilers_clock.advance(30)
    hasty.work()
    assert world.names("op")[-1] == "lease_expired"
    assert world.operation("op").state == "dispatched"
    world.until("op", "confirmed")


def test_absence_counts_from_the_clock_of_the_log(make: Make) -> None:
    """A clock that runs ahead makes no look inside the safe window one after it, however late it gets to the log."""
    world = make(absent)
    world.begun(world.tool(on_absent=OnAbsent.OFFER_RETRY, max_attempts=2, first_check_after=1.0), "op")
    world.pass_time(2.5)
    world.until("op", "reconciling", step_s=0.1)
    restarted = make(absent, on=world)
    restarted.reconcilers_clock.advance(60)
    world.log.slow = []
    restarted.work(seconds=0.3)
    assert len(world.log.slow) == 1, "it looked inside the window"
    world.pass_time(60)
    world.log.arrive()
    assert world.operation("op").state == "reconciling"
    world.until("op", "not_found")


# ---- probes that hang, and probes that lie ------------------------------------------------------------------------------


def test_probes_that_hang_hold_up_neither_others_nor_the_loop(make: Make) -> None:
    woken = threading.Event()
    world = make(hanging(woken, "slow"), at_once=2, limit_s=1.0)
    slow, quick = world.tool("slow"), world.tool("quick")
    for number in range(6):
        world.begun(slow, f"slow-{number}")
    world.begun(quick, "z-quick")
    world.pass_time(2.5)
    began = time.monotonic()
    world.reconciler.tick()
    world.reconciler.tick()
    assert time.monotonic() - began < 0.9, "a tick waited for a probe"
    try:
        world.until("z-quick", "confirmed", step_s=0.05)
    finally:
        woken.set()


def test_a_look_that_never_began_is_no_check(make: Make) -> None:
    """Else an operation is handed to a person as looked for in vain, and nobody ever looked."""
    woken = threading.Event()
    world = make(hanging(woken, "slow"), at_once=1, limit_s=0.2)
    slow = world.tool("slow", max_checks=2)
    for number in range(4):
        world.begun(slow, f"slow-{number}")
    world.pass_time(2.5)
    try:
        world.work(seconds=1.0)
        for number in range(4):
            name = f"slow-{number}"
            assert world.names(name).count("probe_recorded") <= world.looks.count(name), name
    finally:
        woken.set()


def test_a_process_ends_although_a_probe_hangs() -> None:
    program = """
        import threading, time
        from tests.unit.reconciliation.world import World, hanging
        world = World(hanging(threading.Event(), "slow"), limit_s=0.1)
        world.begun(world.tool(), "slow")
        world.pass_time(2.5)
        world.work()
        world.pass_time(0.5)
        world.work(seconds=0.3)
        assert set(world.looks) == {"slow"}
        world.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], timeout=15, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "answer",
    [
        Found(reference="re_1", matched_on=("operation_id",), status="succeeded"),  # type: ignore[arg-type]
        Found(reference="re_1", matched_on="operation_id"),  # type: ignore[arg-type]
        Found(reference="re_1", matched_on=(1,)),  # type: ignore[arg-type]
        Found(reference="re_1", matched_on=("operation_id", "\ud800")),
        Ambiguous(7),  # type: ignore[arg-type]
    ],
    ids=["status", "matched_on text", "matched_on number", "matched_on surrogate", "reason"],
)
def test_an_answer_with_a_field_of_a_wrong_kind_proves_nothing_and_holds_up_nothing(make: Make, answer: Any) -> None:
    def look(request: ProbeRequest) -> Any:
        return answer if request.operation_id == "a-odd" else found(request)

    world = make(look)
    tool = world.tool(max_checks=3)
    world.begun(tool, "a-odd")
    world.begun(tool, "b")
    world.pass_time(2.5)
    world.until("b", "confirmed")
    assert world.until("a-odd", "escalated").escalated_for == "probes_exhausted"


@pytest.mark.parametrize("reason", ["x" * 1_000_000, "a\ud800b\x00c"], ids=["huge", "unprintable"])
def test_an_ambiguous_answer_goes_to_a_person_whatever_its_reason(make: Make, reason: str) -> None:
    world = make(lambda request: Ambiguous(reason))
    world.begun(world.tool(), "op")
    assert world.until("op", "escalated").escalated_for == "conflict"


# ---- records that are not as expected -----------------------------------------------------------------------------------


def test_stored_arguments_that_are_no_json_hold_up_nothing(make: Make) -> None:
    world = make(found)
    tool = world.tool(max_checks=2)
    token = world.begun(tool, "b")
    prepared = next(one for one in world.memory.events("b") if isinstance(one, ev.OperationPrepared))
    assert prepared.claim is not None
    claim = replace(prepared.claim, claim_id="other")
    odd = replace(prepared, operation_id="a-odd", route="a-odd", stored_args="{no json", claim=claim)
    world.memory.append(with_event_id(odd))
    assert world.operation("a-odd").state == "dispatched"
    world.pass_time(2.5)
    world.until("b", "confirmed")
    assert world.until("a-odd", "escalated").escalated_for == "probes_exhausted"
    assert token.attempt == 1


@pytest.mark.parametrize(
    "bounds",
    [
        {"backoff": 1e300, "max_interval": 0.1},
        {"first_check_after": 1e306},
        {"deadline": 1e308},
        {"backoff": 2.0, "max_interval": 0.01, "max_checks": 2_000},
    ],
    ids=["backoff", "first_check_after", "deadline", "many checks"],
)
def test_bounds_of_any_size_are_bounds(make: Make, bounds: dict[str, float]) -> None:
    world = make(absent)
    world.begun(world.tool("odd", on_absent=OnAbsent.OFFER_RETRY, max_attempts=2, **bounds), "a-odd")
    world.begun(world.tool("even", on_absent=OnAbsent.OFFER_RETRY, max_attempts=2), "b")
    world.until("b", "not_found")


def test_an_operation_whose_contract_cannot_be_read_goes_to_a_person(make: Make) -> None:
    """As after a step back to an earlier release, which does not know a field of the contract."""
    world = make(found)
    tool = world.tool()
    world.begun(tool, "b")
    prepared = next(one for one in world.memory.events("b") if isinstance(one, ev.OperationPrepared))
    odd = replace(prepared, operation_id="odd", route="odd", contract='{"tool":"refund","a_later_field":1}', claim=None)
    world.memory.append(with_event_id(odd))
    granted = next(one for one in world.memory.events("b") if isinstance(one, ev.DispatchGranted))
    world.memory.append(with_event_id(replace(granted, operation_id="odd", route="odd")))
    assert world.operation("odd").state == "dispatched"
    assert world.until("odd", "escalated").escalated_for == "no_probe"


# ---- a log or a view that fails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AppendFailed("timed out"), NothingAppended("too large")], ids=["unknown", "refused"])
def test_what_cannot_be_appended_is_tried_again_without_spinning(make: Make, error: AppendFailed) -> None:
    world = make(found)
    world.begun(world.tool(), "op")
    world.pass_time(2.5)
    world.log.error = error
    appended = 0

    class Counting:
        def append(self, event: ev.Event) -> Any:
            nonlocal appended
            appended += 1
            return world.log.append(event)

        def close(self, timeout_s: float) -> None: ...

    world.reconciler._log = Counting()
    world.work(seconds=0.3)
    assert appended <= 2, "it spins"
    world.log.error = None
    world.until("op", "confirmed")


def test_a_log_that_is_silent_holds_up_no_tick(make: Make) -> None:
    world = make(found)
    tool = world.tool()
    for number in range(20):
        world.begun(tool, f"op-{number}")
    world.pass_time(2.5)
    world.log.silent = True
    began = time.monotonic()
    world.work(seconds=0.1, ticks=5)
    assert time.monotonic() - began < 5.0


def test_the_provider_is_not_asked_over_and_over_while_the_view_stands_still(make: Make) -> None:
    """A projector that is down shows nothing new; the bounds of the contract hold all the same."""
    world = make(absent)
    world.begun(world.tool(first_check_after=4.0, backoff=2.0, max_interval=600.0), "op")
    world.pass_time(2.5)
    world.work()
    world.pass_time(4.5)
    world.due.stale()
    for _ in range(120):
        world.work(seconds=0.0)
        world.pass_time(0.5)
    assert 1 <= len(world.looks) <= 6, "a look every few seconds for a minute"


# ---- what is appended ---------------------------------------------------------------------------------------------------


def test_what_is_found_about_an_operation_of_a_group_is_said_in_its_group(make: Make) -> None:
    world = make(found)
    world.begun(world.tool(), "trip:hotel", group_id="trip")
    world.until("trip:hotel", "confirmed")
    said = [one for one in world.memory.events("trip:hotel") if one.actor == "reconciler"]
    assert [ev.TYPE_OF[type(one)] for one in said] == ["lease_expired", "probe_recorded", "outcome_confirmed"]
    assert {(one.tenant_id, one.route, one.group_id) for one in said} == {(TENANT, "trip", "trip")}
    assert world.memory.refused() == {}


def test_a_receipt_that_arrives_during_the_look_wins_over_absence(make: Make) -> None:
    """The holder's answer came between the look and what it is recorded as."""
    world = make(absent)
    token = world.begun(world.tool(on_absent=OnAbsent.OFFER_RETRY, max_attempts=2), "op")

    def look(request: ProbeRequest) -> Any:
        late = ev.OutcomeUnknown(
            event_id="",
            tenant_id=TENANT,
            route="op",
            operation_id="op",
            actor="w",
            claim_id=token.claim_id,
            attempt=1,
            error_class="verifying",
            bytes_left=BytesLeft.YES,
            reference="re_1",
        )
        if len(world.looks) == 1:
            world.memory.append(with_event_id(late))
        return Absent()

    world._look = look
    world.pass_time(30)
    assert world.until("op", "escalated").escalated_for == "conflict"
    assert "absence_established" not in [
        ev.TYPE_OF[type(one.event)] for one in world.memory.entries() if one.position.offset not in world.memory.refused()
    ]
