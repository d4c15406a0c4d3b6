"""A lease is counted by its holder from before the log counts it, checked right before the call, renewed while the call runs."""

import time
from typing import Any

import pytest

from landed.adapters.memory import MemoryLedger
from landed.adapters.system import SystemClock
from landed.core import events as ev
from landed.core.identity import RequestError
from landed.core.vocabulary import Refusal, State
from landed.sdk.classify import Raised, Returned
from landed.sdk.intent import intent_for
from landed.sdk.results import Confirmed, Refused, Unknown
from landed.sdk.token import Execute

from .support import ByHand, Counted, Flaky, raising

ANSWER = Returned(answer={"id": "re_1", "amount": 5})


def begun(by: ByHand, operation_id: str = "op", **fields: Any) -> Execute:
    token = by.ledger.begin(intent_for(Counted(**fields).tool, {}, operation_id=operation_id))
    assert isinstance(token, Execute)
    return token


def renewals(memory: MemoryLedger) -> list[ev.LeaseRenewed]:
    return [event for event in memory.events("op") if isinstance(event, ev.LeaseRenewed)]


class SlowVerdict(Flaky):
    """The verdict is on its way for as long as the test says."""

    def __init__(self, memory: MemoryLedger) -> None:
        super().__init__(memory)
        self.clock = memory._clock
        self.seconds = 0.0

    def append(self, event: ev.Event) -> Any:
        acknowledged = super().append(event)
        if isinstance(event, ev.OperationPrepared):
            self.clock.advance(self.seconds)  # type: ignore[attr-defined]
        return acknowledged


@pytest.mark.parametrize(("took_s", "called"), [(9.999, True), (10.0, False), (60.0, False)])
def test_the_lease_counts_from_the_moment_the_claim_was_sent(took_s: float, called: bool) -> None:
    by = ByHand(SlowVerdict)
    by.backend.seconds = took_s
    refund = Counted(lease=10.0)
    result = by.ledger.perform(refund.tool, operation_id="op")
    assert refund.effects == (1 if called else 0)
    if not called:
        expected = Refused(operation_id="op", reason=Refusal.LEDGER_UNAVAILABLE, detail={"released": "lease_over"})
        assert result == expected
        assert by.memory.state("op").state is State.PREPARED
        assert by.memory.state("op").attempts_counted == 0


def test_a_grant_without_lease_time_left_is_given_back_by_start() -> None:
    by = ByHand()
    token = begun(by)
    by.clock.advance(10.0)
    refused = by.ledger.start(token)
    assert isinstance(refused, Refused)
    assert by.memory.state("op").state is State.PREPARED


def test_a_token_is_good_for_one_call() -> None:
    by = ByHand()
    token = begun(by)
    assert by.ledger.start(token) is None
    with pytest.raises(RequestError, match="token: is good for one call"):
        by.ledger.start(token)
    by.ledger.finish(token, ANSWER)
    with pytest.raises(RequestError):
        by.ledger.start(token)


def test_a_token_that_was_given_back_starts_nothing() -> None:
    by = ByHand()
    token = begun(by)
    by.ledger.suspend(token)
    with pytest.raises(RequestError):
        by.ledger.start(token)


def test_arguments_handed_to_start_must_be_those_that_were_claimed() -> None:
    by = ByHand()
    token = begun(by)
    refused = by.ledger.start(token, {"order_id": "17", "amount": 6})
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.REQUEST_MISMATCH
    assert by.memory.state("op").state is State.PREPARED
    again = begun(by)
    assert by.ledger.start(again, {"order_id": "17", "amount": 5}) is None


def test_a_lease_is_renewed_from_start_to_finish_and_not_before_or_after() -> None:
    by = ByHand()
    token = begun(by, lease=10.0)
    by.pass_time(4)
    assert renewals(by.memory) == []
    by.ledger.start(token)
    by.pass_time(60)
    numbers = [event.lease_number for event in renewals(by.memory)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert by.memory.refused() == {}
    assert isinstance(by.ledger.finish(token, ANSWER), Confirmed)
    count = len(renewals(by.memory))
    by.pass_time(60)
    assert len(renewals(by.memory)) == count


def test_nothing_is_renewed_once_perform_has_answered() -> None:
    by = ByHand()
    by.ledger.perform(Counted(raising(TimeoutError()), lease=10.0).tool, operation_id="op")
    by.pass_time(60)
    assert renewals(by.memory) == []


def test_a_lease_is_renewed_at_most_until_longest_processing() -> None:
    by = ByHand()
    token = begun(by, lease=10.0, longest_processing=25.0)
    by.ledger.start(token)
    by.pass_time(60)
    attempt = by.memory.state("op").attempts[0]
    assert attempt.lease_end_ms == attempt.granted_at_ms + 25_000
    assert by.memory.refused() == {}


def test_a_call_that_outlives_its_lease_is_unknown_to_its_caller_and_its_evidence_is_on_the_log() -> None:
    by = ByHand()
    token = begun(by, lease=10.0, longest_processing=15.0)
    by.ledger.start(token)
    by.pass_time(20)
    result = by.ledger.finish(token, ANSWER)
    assert isinstance(result, Unknown)
    assert (result.reason, result.reference) == ("lease_over", "re_1")
    assert by.memory.state("op").state is State.CONFIRMED


def test_a_renewal_that_is_not_acknowledged_extends_nothing_and_is_sent_again_as_the_same_event() -> None:
    by = ByHand(Flaky)
    by.backend.failing = {ev.LeaseRenewed}
    token = begun(by, lease=10.0)
    by.ledger.start(token)
    by.pass_time(7)
    by.backend.failing = set()
    by.pass_time(2)
    sent = renewals(by.memory)
    assert len({event.event_id for event in sent}) == len(sent) == 1
    # It counts from when it was first sent, five seconds into the lease.
    assert by.ledger.parts.protocol._held[token.claim_id][0].end_s == pytest.approx(15.0)


def test_a_lease_whose_renewals_never_arrive_is_over_in_time() -> None:
    by = ByHand(Flaky)
    by.backend.failing = {ev.LeaseRenewed}
    token = begun(by, lease=10.0)
    by.ledger.start(token)
    by.pass_time(11)
    result = by.ledger.finish(token, ANSWER)
    assert isinstance(result, Unknown)
    assert result.reason == "lease_over"


def test_a_renewal_that_the_log_took_too_late_extends_nothing() -> None:
    """The holder's clock is slow: on the log the lease was over already, so the fold refuses the renewal."""
    by = ByHand()
    token = begun(by, lease=10.0)
    by.ledger.start(token)
    lease = by.ledger.parts.protocol._held[token.claim_id][0]
    lease.log_end_ms = by.clock.now_ms()
    by.pass_time(5)
    assert lease.end_s == pytest.approx(10.0)


def test_finish_without_start_records_a_call_that_somebody_else_made() -> None:
    """A door that hands the call to a remote caller has no call of its own to start."""
    by = ByHand()
    token = begun(by)
    assert isinstance(by.ledger.finish(token, ANSWER), Confirmed)


def test_finish_classifies_as_perform_does() -> None:
    by = ByHand()
    token = begun(by)
    by.ledger.start(token)
    result = by.ledger.finish(token, Raised(error_class="ReadTimeout"))
    assert isinstance(result, Unknown)
    assert by.memory.state("op").state is State.UNKNOWN


def test_many_running_calls_share_one_background_thread() -> None:
    import threading

    from landed.sdk.ledger import Ledger

    with Ledger.on(MemoryLedger(), tenant="acme") as ledger:
        before = {thread for thread in threading.enumerate() if thread.name == "landed-background"}
        for number in range(50):
            token = ledger.begin(intent_for(Counted().tool, {}, operation_id=f"op-{number}"))
            assert isinstance(token, Execute)
            ledger.start(token)
        after = {thread for thread in threading.enumerate() if thread.name == "landed-background"}
        assert len(after - before) == 1
    assert not (after - before) & set(threading.enumerate())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has a clock of its own for this")
def test_the_clock_of_leases_counts_the_time_that_a_machine_sleeps() -> None:
    """A holder that slept past its lease must not find it as it was: the log's clock went on."""
    assert SystemClock().monotonic() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5.0)
