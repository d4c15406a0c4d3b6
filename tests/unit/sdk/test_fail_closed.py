"""A ledger that cannot be asked lets nothing be called; a ledger that cannot record lets nothing be claimed as done."""

import logging
import threading
import time
from typing import Any

import pytest

from landed.core import events as ev
from landed.core.vocabulary import Refusal, State
from landed.ports import AppendFailed, NothingAppended
from landed.sdk.errors import LedgerUnavailable, NotSent
from landed.sdk.ledger import Ledger
from landed.sdk.results import Confirmed, Refused, Rejected, Unknown

from .support import Counted, Flaky, Unreachable, raising, settings

LOGS = {
    "never acknowledges": Unreachable(),
    "times out": Unreachable(AppendFailed("timed out")),
    "refuses before sending": Unreachable(NothingAppended("no broker")),
    "raises": Unreachable(NothingAppended("no broker"), at_once=True),
    "raises something of its own": Unreachable(OSError("no route"), at_once=True),
}


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_without_a_verdict_the_tool_is_not_called_and_the_claim_is_withdrawn(log: Unreachable) -> None:
    log.sent.clear()
    refund = Counted()
    with Ledger(settings(wait=0.2, keep_trying=0.5), log, log) as ledger:
        started = time.monotonic()
        result = ledger.perform(refund.tool, operation_id="op")
        assert time.monotonic() - started < 2
        ledger.close(0.0)
    assert isinstance(result, Refused)
    assert (result.reason, refund.effects) == (Refusal.LEDGER_UNAVAILABLE, 0)
    claimed, released = log.sent[:2]
    assert isinstance(claimed, ev.OperationPrepared)
    assert isinstance(released, ev.DispatchReleased)
    assert claimed.claim is not None
    assert (released.claim_id, released.attempt) == (claimed.claim.claim_id, None)


def test_every_caller_is_answered_within_its_wait() -> None:
    log = Unreachable()
    refund = Counted()
    results: list[Any] = []
    with Ledger(settings(wait=0.5), log, log) as ledger:
        started = time.monotonic()
        threads = [
            threading.Thread(target=lambda n=n: results.append(ledger.perform(refund.tool, operation_id=f"op-{n}")))
            for n in range(100)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert time.monotonic() - started < 10
        ledger.close(0.0)
    assert {type(result) for result in results} == {Refused}
    assert len(results) == 100
    assert refund.effects == 0


def test_a_wait_can_be_given_for_one_call() -> None:
    log = Unreachable()
    with Ledger(settings(wait=60.0), log, log) as ledger:
        started = time.monotonic()
        ledger.perform(Counted().tool, operation_id="op", wait=0.1)
        assert time.monotonic() - started < 5
        ledger.close(0.0)
    claimed = log.sent[0]
    assert isinstance(claimed, ev.OperationPrepared)
    assert claimed.claim is not None
    assert claimed.claim.answer_by_ms - claimed.claim.asked_at_ms == 100


def test_a_grant_whose_verdict_got_lost_is_taken_back_and_the_next_caller_is_granted() -> None:
    """The claim reached the log and was granted; only the way back failed. Nothing was called, and the ledger says so."""
    flaky = Flaky()

    class Deaf(Flaky):
        def expect(self, claim_id: str) -> Any:
            return Unreachable().expect(claim_id)

    deaf = Deaf(flaky.memory)
    refund = Counted()
    with Ledger(settings(), deaf, deaf) as ledger:
        refused = ledger.perform(refund.tool, operation_id="op")
    state = flaky.memory.state("op")
    assert isinstance(refused, Refused)
    assert (state.state, len(state.attempts), state.attempts_counted) == (State.PREPARED, 1, 0)
    with Ledger(settings(), flaky, flaky) as ledger:
        result = ledger.perform(refund.tool, operation_id="op")
    assert isinstance(result, Confirmed)
    assert refund.effects == 1


def test_an_acknowledgement_that_failed_is_no_answer_since_the_claim_may_be_on_the_log() -> None:
    """The broker timed out towards the writer and took the record all the same; its verdict still counts."""
    flaky = Flaky()

    class Late(Flaky):
        def append(self, event: ev.Event) -> Any:
            acknowledged = super().append(event)
            return (
                Unreachable(AppendFailed("timed out")).append(event) if isinstance(event, ev.OperationPrepared) else acknowledged
            )

        def expect(self, claim_id: str) -> Any:
            late: Any = Unreachable().expect(claim_id)
            at_once = super().expect(claim_id)
            threading.Timer(0.2, lambda: late.set_result(at_once.result(0))).start()
            return late

    log = Late(flaky.memory)
    with Ledger(settings(wait=10.0), log, log) as ledger:
        assert isinstance(ledger.perform(Counted().tool, operation_id="op"), Confirmed)


@pytest.mark.parametrize("act", [None, raising(NotSent())], ids=["a success", "a proven failure"])
def test_an_outcome_that_is_not_acknowledged_is_never_claimed_and_is_tried_on(act: Any) -> None:
    """The caller is told `Unknown`, since nobody else can see the outcome yet; the ledger goes on appending the same event."""
    flaky = Flaky()
    flaky.failing = {ev.OutcomeConfirmed, ev.OutcomeRejected}
    refund = Counted(act)
    with Ledger(settings(record_wait=0.1), flaky, flaky) as ledger:
        result = ledger.perform(refund.tool, operation_id="op")
        assert isinstance(result, Unknown)
        assert (result.reason, result.reference) == ("not_recorded", None if act else "re_1")
        assert flaky.memory.state("op").state is State.DISPATCHED
        flaky.failing = set()
        deadline = time.monotonic() + 10
        while flaky.memory.state("op").state is State.DISPATCHED:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        again = ledger.perform(refund.tool, operation_id="op")
    assert isinstance(again, Rejected if act else Confirmed)
    assert again.repeated
    assert refund.effects == 1


def test_an_outcome_acknowledged_twice_is_one_event() -> None:
    """An append that timed out may be on the log: the repeat has the same id, and the fold counts it once."""
    flaky = Flaky()

    class Twice(Flaky):
        def append(self, event: ev.Event) -> Any:
            first = super().append(event)
            if isinstance(event, ev.OutcomeConfirmed) and not self.lost:
                self.lost = {ev.Heartbeat}
                return Unreachable(AppendFailed("timed out")).append(event)
            return first

    log = Twice(flaky.memory)
    with Ledger(settings(record_wait=5.0), log, log) as ledger:
        result = ledger.perform(Counted().tool, operation_id="op")
    assert isinstance(result, Confirmed)
    outcomes = [event for event in flaky.memory.events("op") if isinstance(event, ev.OutcomeConfirmed)]
    assert len(outcomes) == 2
    assert len({event.event_id for event in outcomes}) == 1
    assert flaky.memory.state("op").version == 3


def test_an_event_that_is_given_up_is_logged_as_an_error_with_its_operation(caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky()
    flaky.failing = {ev.OutcomeConfirmed}
    with caplog.at_level(logging.ERROR), Ledger(settings(record_wait=0.1, keep_trying=0.3), flaky, flaky) as ledger:
        ledger.perform(Counted().tool, operation_id="op")
        deadline = time.monotonic() + 10
        while not caplog.records:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    record = caplog.records[0].__dict__
    assert (record["action"], record["event"], record["operation_id"]) == ("append_given_up", "outcome_confirmed", "op")


def test_an_event_that_is_still_not_acknowledged_at_the_end_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky()
    flaky.failing = {ev.OutcomeConfirmed}
    with caplog.at_level(logging.ERROR):
        ledger = Ledger(settings(record_wait=0.05), flaky, flaky)
        ledger.perform(Counted().tool, operation_id="op")
        ledger.close(0.1)
    told = [(one.__dict__["action"], one.__dict__.get("event"), one.__dict__.get("operation_id")) for one in caplog.records]
    assert told == [("append_given_up", "outcome_confirmed", "op")]


def test_an_outcome_that_comes_after_the_end_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Of a call that was left running in its thread, say."""
    log = Unreachable(NothingAppended("the log is closed"))
    ledger = Ledger(settings(), log, log)
    ledger.close(0.1)
    with caplog.at_level(logging.ERROR):
        late = ledger.parts.outbox.post(ledger.parts.group_event(ev.GroupClosed, "trip", by="w"))
    assert isinstance(late.exception(timeout=1), AppendFailed)
    assert [one.__dict__["action"] for one in caplog.records] == ["append_given_up"]


def test_closing_and_unwinding_a_group_say_when_the_ledger_does_not_answer() -> None:
    log = Unreachable()
    with Ledger(settings(record_wait=0.1), log, log) as ledger:
        group = ledger.group("trip-7", workflow_type="trip")
        with pytest.raises(LedgerUnavailable, match=r"not acknowledged within 0\.1 s"):
            group.close()
        with pytest.raises(LedgerUnavailable):
            group.unwind("later_step_failed")
        ledger.close(0.0)


def test_closing_waits_for_what_is_still_to_be_acknowledged() -> None:
    flaky = Flaky()
    flaky.failing = {ev.OutcomeConfirmed}
    ledger = Ledger(settings(record_wait=0.05), flaky, flaky)
    ledger.perform(Counted().tool, operation_id="op")
    threading.Timer(0.2, flaky.failing.clear).start()
    ledger.close(10.0)
    assert flaky.memory.state("op").state is State.CONFIRMED
