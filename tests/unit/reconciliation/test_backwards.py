"""An inverse without a probe of its own is looked up by the forward one, read the other way round (docs/semantics.md §7)."""

import threading
import time
from typing import Any

import pytest

from landed import ProbeRequest, ToolRegistry
from landed.core import events as ev
from landed.core.backwards import forward_contract, looked_up_by, read_backwards
from landed.core.contract import Contract, Effect, Probe, contract_json
from landed.core.looks import judge
from landed.core.probe_answers import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.reconciliation import Append, step_now
from landed.core.reconciliation import Probe as Look
from landed.core.state import Attempt, Operation
from landed.core.vocabulary import EffectStatus, GroupState, ReadKind, State
from landed.ports.tables import DueOperation
from landed_services.reconciler.probes import Asked, ProbeRunner

NOW = 1_000_000
FORWARD = Contract(
    tool="book",
    effect=Effect(kind="book"),
    outcome_probe=Probe(tool="find", lag=5.0),
    minimum_evidence=("booking_id",),
    safe_window=30.0,
)
ENOUGH = ("booking_id",)


def operation(name: str, contract: Contract, state: State, *, ended_ms: int, **fields: Any) -> Operation:
    attempt = Attempt(
        number=1,
        claim_id="c",
        granted_at_ms=ended_ms - 10,
        lease_end_ms=ended_ms + 10_000,
        ended_at_ms=ended_ms,
        state_before=State.PREPARED,
    )
    return Operation(
        operation_id=name, state=state, tool=contract.tool, contract_text=contract_json(contract), attempts=(attempt,), **fields
    )


def forward(**fields: Any) -> Operation:
    return operation("b", FORWARD, State.COMPENSATING, ended_ms=NOW - 100_000, **{"confirmed_at_ms": NOW - 100_000, **fields})


def inverse(*, ended_ms: int = NOW - 60_000, **terms: Any) -> Operation:
    contract = Contract(tool="unbook", effect=Effect(kind="unbook"), safe_window=20.0, **terms)
    return operation("compensate:b", contract, State.RECONCILING, ended_ms=ended_ms)


def read(answer: ProbeAnswer, contract: Contract = FORWARD, **fields: Any) -> ProbeAnswer:
    return read_backwards(answer, forward(**fields), contract, asked_at_ms=NOW)


def types(answer: ProbeAnswer, *, ended_ms: int = NOW - 60_000) -> list[type[ev.Event]]:
    """What the look proves about the inverse."""
    lent = looked_up_by(inverse(ended_ms=ended_ms), FORWARD)
    return [type(one) for one in judge(lent, read(answer), tenant_id="t", route="g", asked_at_ms=NOW, jitter=0.0)]


@pytest.mark.parametrize("gone", [Absent(), Found(matched_on=ENOUGH, status=EffectStatus.REMOVED)])
def test_gone_or_removed_means_that_the_inverse_happened(gone: ProbeAnswer) -> None:
    assert types(gone) == [ev.ProbeRecorded, ev.OutcomeConfirmed]


def test_still_there_means_that_it_did_not_once_the_window_of_the_inverse_has_passed() -> None:
    there = Found(matched_on=ENOUGH)
    assert types(there) == [ev.ProbeRecorded, ev.AbsenceEstablished]
    assert types(there, ended_ms=NOW - 19_000) == [ev.ProbeRecorded]


@pytest.mark.parametrize("status", [EffectStatus.PENDING, EffectStatus.FAILED])
def test_what_shows_neither_the_effect_nor_its_removal_says_nothing(status: EffectStatus) -> None:
    assert isinstance(read(Found(matched_on=ENOUGH, status=status)), Ambiguous)
    assert isinstance(read(Found(matched_on=("name",))), Ambiguous)
    assert isinstance(read(Found(matched_on=("name",), status=EffectStatus.REMOVED)), Ambiguous)


def test_a_read_that_may_miss_what_is_there_does_not_say_that_it_is_gone() -> None:
    replica = Contract(
        **{
            **{n: getattr(FORWARD, n) for n in FORWARD.__struct_fields__},
            "outcome_probe": Probe(tool="find", read_kind=ReadKind.REPLICA),
        }
    )
    assert isinstance(read(Absent(), replica), ProbeFailed)
    assert isinstance(read(Absent(), confirmed_at_ms=NOW - 4_000), ProbeFailed), "within the lag of the read"
    never_seen = operation("b", FORWARD, State.COMPENSATING, ended_ms=NOW - 29_000)
    assert isinstance(read_backwards(Absent(), never_seen, FORWARD, asked_at_ms=NOW), ProbeFailed), "it may still take effect"
    assert isinstance(read_backwards(Absent(), never_seen, FORWARD, asked_at_ms=NOW + 1_000), Found)


def test_an_inverse_with_a_probe_of_its_own_is_looked_up_by_that_one() -> None:
    assert forward_contract(inverse(outcome_probe=Probe(tool="own")), forward()) is None
    assert forward_contract(inverse(), None) is None
    assert forward_contract(inverse(), forward()) == FORWARD


def test_a_look_is_due_about_an_inverse_that_only_the_forward_probe_can_find() -> None:
    def step(op: Operation) -> object:
        return step_now(op, tenant_id="t", route="g", now_ms=NOW, can_probe=True, group_state=GroupState.UNWINDING)

    assert isinstance(step(inverse()), Append), "without it, a person is asked"
    assert step(looked_up_by(inverse(), FORWARD)) == Look(attempt=1, number=1)


def test_inverses_that_borrow_a_probe_that_hangs_are_stuck_by_their_own_tool_and_not_started_again_and_again() -> None:
    registry, woken = ToolRegistry(), threading.Event()

    @registry.effect(tool="book", effect=Effect(kind="book"), outcome_probe=Probe(tool="find"))
    def book() -> None: ...

    @book.probe
    def find(request: ProbeRequest) -> Absent:
        woken.wait(30)
        return Absent()

    probes = ProbeRunner(registry, time_limit_s=0.05, at_once=1)
    due = DueOperation(tenant_id="t", route="g", group_id="g", operation=inverse(), forward=forward(), due_at_ms=NOW)
    try:
        assert probes.start(Asked(due, NOW, clock_known=True))
        deadline = time.monotonic() + 30
        while not (found := probes.take()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert found[0].answer == ProbeFailed("timeout")
        assert (probes.is_stuck("unbook"), probes.is_stuck("book")) == (True, False)
    finally:
        woken.set()
        probes.close()
