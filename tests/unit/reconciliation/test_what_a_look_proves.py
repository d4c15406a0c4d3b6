"""What a look at the provider proves, when the next one is due, and when automation stops (docs/semantics.md §7)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.contract import Contract, Effect, contract_json
from landed.core.contract import Probe as ProbeOf
from landed.core.fold import empty_route, fold
from landed.core.reconciliation import (
    Absent,
    Ambiguous,
    Append,
    Found,
    Probe,
    ProbeAnswer,
    ProbeFailed,
    Wait,
    due_at_ms,
    judge,
    next_step,
)
from landed.core.state import Operation, Route
from landed.core.vocabulary import BytesLeft, EffectStatus, OnAbsent, ReadKind, Source, State

CONTRACT = Contract(
    tool="pay.refund",
    effect=Effect(kind="refund"),
    outcome_probe=ProbeOf(tool="pay.find"),
    lease=10.0,
    longest_processing=20.0,
    safe_window=30.0,
    first_check_after=1.0,
    backoff=2.0,
    max_interval=8.0,
    max_checks=5,
    deadline=600.0,
    max_attempts=2,
    on_absent=OnAbsent.RETRY,
)
ENDED_MS = 5_000
"""When the only attempt ended in `unknown`; its window ends 30 s later."""


class Story:
    """A route that events are appended to, a millisecond apart unless said otherwise."""

    def __init__(self, contract: Contract = CONTRACT) -> None:
        self.route: Route = empty_route("acme", "op")
        self.offset = 0
        self.at_ms = 0
        self.add(
            ev.OperationPrepared,
            tool=contract.tool,
            request_hash="h",
            argument_digests={},
            contract=contract_json(contract),
            contract_digest="d",
            effect_type="refund",
            compensation=[],
        )
        self.add(
            ev.DispatchGranted,
            claim_id="c",
            attempt=1,
            lease_ms=10_000,
            claim_position=ev.Position(partition=0, offset=0),
        )

    def add(self, kind: Callable[..., ev.Event], **fields: object) -> bool:
        envelope = {"event_id": str(self.offset), "tenant_id": "acme", "route": "op", "operation_id": "op", "actor": "test"}
        return self.append(kind(**{**envelope, **fields}))

    def append(self, event: ev.Event) -> bool:
        entry = ev.Entry(
            event=event, position=ev.Position(partition=0, offset=self.offset), at_ms=self.at_ms, digest=str(self.offset)
        )
        self.offset += 1
        self.at_ms += 1
        folded = fold(self.route, replace(entry, event=replace(event, event_id=str(self.offset))))
        self.route = folded.route
        return folded.accepted

    def append_as_it_is(self, event: ev.Event) -> bool:
        """Appends *event* under its own id; the log's time is `at_ms` and stands still."""
        entry = ev.Entry(
            event=event, position=ev.Position(partition=0, offset=self.offset), at_ms=self.at_ms, digest=event.event_id
        )
        self.offset += 1
        folded = fold(self.route, entry)
        self.route = folded.route
        return folded.accepted

    def unknown(self, *, at_ms: int = ENDED_MS, reference: str | None = None) -> "Story":
        self.at_ms = at_ms
        self.add(ev.OutcomeUnknown, claim_id="c", attempt=1, error_class="timeout", bytes_left=BytesLeft.YES, reference=reference)
        return self

    @property
    def op(self) -> Operation:
        return self.route.operation("op")

    def look(self, answer: ProbeAnswer, *, at_ms: int) -> tuple[ev.Event, ...]:
        events = judge(self.op, answer, tenant_id="acme", route="op", asked_at_ms=at_ms, jitter=0.0)
        self.at_ms = at_ms + 5
        for event in events:
            assert self.append(event), event
        return events


def step(op: Operation, *, now_ms: int, can_probe: bool = True) -> Probe | Append | Wait:
    return next_step(op, tenant_id="acme", route="op", now_ms=now_ms, can_probe=can_probe)


def names(events: tuple[ev.Event, ...]) -> list[str]:
    return [ev.TYPE_OF[type(event)] for event in events]


def found(**fields: object) -> Found:
    return Found(**{"reference": "re_1", "matched_on": ("operation_id",), **fields})  # type: ignore[arg-type]


# ---- when ---------------------------------------------------------------------------------------------------------------


def test_a_lease_is_expired_only_after_its_end() -> None:
    story = Story()
    end_ms = story.op.last.lease_end_ms  # type: ignore[union-attr]
    assert step(story.op, now_ms=end_ms) == Wait(until_ms=end_ms + 1)
    due = step(story.op, now_ms=end_ms + 1)
    assert isinstance(due, Append)
    assert names(due.events) == ["lease_expired"]
    story.at_ms = end_ms + 1
    assert story.append(due.events[0])
    assert story.op.state is State.UNKNOWN


def test_the_first_look_comes_after_first_check_after() -> None:
    op = Story().unknown().op
    assert step(op, now_ms=ENDED_MS + 999) == Wait(until_ms=ENDED_MS + 1000)
    assert step(op, now_ms=ENDED_MS + 1000) == Probe(attempt=1, number=1)


def test_looks_back_off_up_to_the_maximum_interval() -> None:
    story, at_ms, waits = Story().unknown(), ENDED_MS + 1000, []
    for _ in range(3):
        story.look(ProbeFailed("timeout"), at_ms=at_ms)
        due = due_at_ms(story.op)
        assert due is not None
        waits.append(due - at_ms)
        at_ms = due
    assert waits == [2000, 4000, 8000]


def test_jitter_spreads_the_next_look_by_at_most_a_tenth() -> None:
    op = Story().unknown().op
    at = [
        judge(op, ProbeFailed("x"), tenant_id="acme", route="op", asked_at_ms=0, jitter=jitter)[0].next_check_at_ms  # type: ignore[attr-defined]
        for jitter in (0.0, 1.0)
    ]
    assert at == [2000, 2200]


def test_the_last_allowed_look_waits_for_the_safe_window() -> None:
    contract = replace(CONTRACT, max_checks=2)
    story = Story(contract).unknown()
    story.look(Absent(), at_ms=ENDED_MS + 1000)
    assert due_at_ms(story.op) == ENDED_MS + 30_000
    assert names(story.look(Absent(), at_ms=ENDED_MS + 30_000)) == ["probe_recorded", "absence_established"]


def test_settled_operations_are_never_due() -> None:
    story = Story().unknown()
    story.look(found(), at_ms=ENDED_MS + 1000)
    assert story.op.state is State.CONFIRMED
    assert due_at_ms(story.op) is None


# ---- what it proves -----------------------------------------------------------------------------------------------------


def test_a_record_under_our_id_confirms_with_its_reference_and_evidence() -> None:
    story = Story().unknown()
    events = story.look(found(receipt='{"id":"re_1"}'), at_ms=ENDED_MS + 1000)
    assert names(events) == ["probe_recorded", "outcome_confirmed"]
    assert story.op.state is State.CONFIRMED
    assert story.op.receipt == '{"id":"re_1"}'
    confirmed = events[1]
    assert isinstance(confirmed, ev.OutcomeConfirmed)
    assert (confirmed.source, confirmed.matched_on) == (Source.PROBE, ["operation_id"])


def test_a_similar_record_is_no_proof_and_goes_to_a_person() -> None:
    story = Story().unknown()
    events = story.look(found(matched_on=("amount", "customer")), at_ms=ENDED_MS + 1000)
    assert names(events) == ["probe_recorded", "operation_escalated"]
    assert story.op.state is State.ESCALATED
    assert story.op.escalated_for == "conflict"
    assert not story.op.references, "a record that is not proven to be ours left its reference"


def test_a_record_with_another_reference_than_the_receipt_is_a_conflict() -> None:
    story = Story().unknown(reference="re_0")
    assert names(story.look(found(reference="re_9"), at_ms=ENDED_MS + 1000))[-1] == "operation_escalated"
    assert story.op.escalated_for == "conflict"


def test_an_ambiguous_answer_is_a_conflict() -> None:
    story = Story().unknown()
    story.look(Ambiguous("two candidates"), at_ms=ENDED_MS + 1000)
    assert story.op.escalated_for == "conflict"


def test_absence_before_the_safe_window_proves_nothing() -> None:
    story = Story().unknown()
    assert names(story.look(Absent(), at_ms=ENDED_MS + 29_999)) == ["probe_recorded"]
    assert story.op.state is State.RECONCILING


def test_absence_after_the_safe_window_is_proof() -> None:
    story = Story().unknown()
    assert names(story.look(Absent(), at_ms=ENDED_MS + 30_000)) == ["probe_recorded", "absence_established"]
    assert story.op.state is State.NOT_FOUND


def test_the_safe_window_is_never_shorter_than_the_longest_processing() -> None:
    story = Story(replace(CONTRACT, safe_window=1.0, longest_processing=20.0)).unknown()
    assert names(story.look(Absent(), at_ms=ENDED_MS + 19_999)) == ["probe_recorded"]


def test_the_window_of_a_lease_that_ran_out_counts_from_its_end() -> None:
    story = Story()
    end_ms = story.op.last.lease_end_ms  # type: ignore[union-attr]
    story.at_ms = end_ms + 1
    due = step(story.op, now_ms=end_ms + 1)
    assert isinstance(due, Append)
    story.append(due.events[0])
    assert names(story.look(Absent(), at_ms=end_ms + 29_999)) == ["probe_recorded"]
    assert names(story.look(Absent(), at_ms=end_ms + 30_000)) == ["probe_recorded", "absence_established"]


@pytest.mark.parametrize("kind", [ReadKind.REPLICA, ReadKind.CACHE, ReadKind.SEARCH_INDEX])
def test_a_read_that_may_lag_never_proves_absence(kind: ReadKind) -> None:
    story = Story(replace(CONTRACT, outcome_probe=ProbeOf(tool="pay.find", read_kind=kind))).unknown()
    assert names(story.look(Absent(), at_ms=ENDED_MS + 500_000)) == ["probe_recorded"]
    assert story.op.state is State.RECONCILING


def test_a_reference_seen_once_never_becomes_an_absence() -> None:
    story = Story().unknown(reference="re_0")
    assert names(story.look(Absent(), at_ms=ENDED_MS + 40_000))[-1] == "operation_escalated"
    assert story.op.escalated_for == "conflict"


def test_pending_is_followed_and_rules_out_absence() -> None:
    story = Story().unknown()
    assert names(story.look(found(status=EffectStatus.PENDING), at_ms=ENDED_MS + 1000)) == ["probe_recorded"]
    assert story.op.state is State.RECONCILING
    assert names(story.look(Absent(), at_ms=ENDED_MS + 40_000))[-1] == "operation_escalated"


def test_a_failed_record_of_ours_is_a_rejection() -> None:
    story = Story().unknown()
    assert names(story.look(found(status=EffectStatus.FAILED), at_ms=ENDED_MS + 1000)) == ["probe_recorded", "outcome_rejected"]
    assert story.op.state is State.REJECTED


def test_a_removed_effect_is_confirmed_as_removed() -> None:
    story = Story().unknown()
    story.look(found(status=EffectStatus.REMOVED, removed_at_ms=77), at_ms=ENDED_MS + 1000)
    assert (story.op.state, story.op.removed_at_ms) == (State.CONFIRMED, 77)


# ---- when automation stops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("can_probe", [True, False])
def test_without_a_probe_a_person_decides_and_reads_that_none_is_declared(can_probe: bool) -> None:
    story = Story(replace(CONTRACT, outcome_probe=None, on_absent=OnAbsent.ESCALATE)).unknown()
    due = step(story.op, now_ms=ENDED_MS + 1000, can_probe=can_probe)
    assert isinstance(due, Append)
    assert due.events[0].reason == "no_probe"  # type: ignore[attr-defined]
    assert '"why":"nothing looks it up"' in due.events[0].evidence  # type: ignore[attr-defined]


def test_a_probe_that_is_not_registered_here_is_no_probe() -> None:
    due = step(Story().unknown().op, now_ms=ENDED_MS + 1000, can_probe=False)
    assert isinstance(due, Append)
    assert due.events[0].reason == "no_probe"  # type: ignore[attr-defined]
    assert '"why":"its probe is not registered"' in due.events[0].evidence  # type: ignore[attr-defined]


def test_probes_are_bounded_in_number() -> None:
    story, at_ms, looks = Story().unknown(), ENDED_MS + 1000, 0
    while story.op.state is not State.ESCALATED:
        due = step(story.op, now_ms=at_ms)
        assert isinstance(due, Probe)
        looks += 1
        story.look(ProbeFailed("timeout"), at_ms=at_ms)
        at_ms = due_at_ms(story.op) or at_ms
    assert (looks, story.op.escalated_for) == (CONTRACT.max_checks, "probes_exhausted")


def test_probes_are_bounded_in_time() -> None:
    story = Story().unknown()
    due = step(story.op, now_ms=ENDED_MS + 600_000)
    assert isinstance(due, Append)
    assert due.events[0].reason == "deadline"  # type: ignore[attr-defined]


def test_proven_absence_goes_to_a_person_where_the_contract_says_escalate() -> None:
    story = Story(replace(CONTRACT, on_absent=OnAbsent.ESCALATE)).unknown()
    story.look(Absent(), at_ms=ENDED_MS + 30_000)
    due = step(story.op, now_ms=story.at_ms)
    assert isinstance(due, Append)
    assert story.append(due.events[0])
    assert (story.op.state, story.op.escalated_for) == (State.ESCALATED, "absent")


def test_a_retry_that_is_offered_is_left_to_the_caller() -> None:
    story = Story(replace(CONTRACT, on_absent=OnAbsent.OFFER_RETRY)).unknown()
    story.look(Absent(), at_ms=ENDED_MS + 30_000)
    assert due_at_ms(story.op) is None


def test_between_a_look_and_its_outcome_nobody_looks_again_at_once() -> None:
    """The view may show the look before the outcome; should the outcome never come, the operation is due again."""
    story = Story().unknown()
    seen, outcome = judge(story.op, found(), tenant_id="acme", route="op", asked_at_ms=ENDED_MS + 1000, jitter=0.0)
    assert story.append(seen)
    assert due_at_ms(story.op) == ENDED_MS + 1000 + 2000
    assert story.append(outcome)
    assert due_at_ms(story.op) is None


def test_one_look_told_by_two_reconcilers_counts_once() -> None:
    story = Story().unknown()
    first, second = (
        judge(story.op, ProbeFailed("timeout"), tenant_id="acme", route="op", asked_at_ms=at, jitter=0.0)[0]
        for at in (ENDED_MS + 1000, ENDED_MS + 1100)
    )
    assert story.append(first)
    assert story.append(second)
    assert story.op.checks == 1
    story.look(ProbeFailed("timeout"), at_ms=ENDED_MS + 4000)
    assert story.op.checks == 2


def test_what_two_reconcilers_find_alike_is_one_event() -> None:
    from landed.wire.ids import derive_event_id

    op = Story().unknown().op
    first, second = (
        judge(op, found(), tenant_id="acme", route="op", asked_at_ms=at, jitter=j) for at, j in ((9_000, 0.1), (9_100, 0.9))
    )
    assert [derive_event_id(event) for event in first] == [derive_event_id(event) for event in second]
