"""Properties of fold and decide over whole logs: what holds whatever the actors, the network and a hostile writer do."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.history import GROUP, T0, TENANT, contract, digest_of, entry, event
from tests.logs import OPERATIONS, Seeded, log_of
from tests.property.strategies import claims, logs, logs_of_two, wild_logs

from landed.core.decide import Facts, Granted, Refused, decide
from landed.core.events import (
    Claim,
    DispatchGranted,
    Entry,
    OperationErased,
    OutcomeConfirmed,
    OutcomeUnknown,
    Position,
    ReviewDecided,
)
from landed.core.fold import DUPLICATE_ID, empty_route, fold
from landed.core.recovery import derived_group_state
from landed.core.state import Operation, Route, is_settled, shown_outcome
from landed.core.vocabulary import UNWINDING_OR_AFTER, Mark, Refusal, State
from landed.core.wording import group_label, label, sentence


def examples(number: int) -> Callable[[Any], Any]:
    checks = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    return settings(max_examples=number, deadline=None, suppress_health_check=checks)


def folded(log: list[Entry], route: Route | None = None) -> Route:
    state = route or empty_route(TENANT, GROUP)
    for one in log:
        state = fold(state, one).route
    return state


# ---- the log cannot be argued with --------------------------------------------------------------------------------------


@examples(100)
@given(wild_logs(), claims())
def test_fold_and_decide_are_total(log: list[Entry], asked: tuple[str, Claim]) -> None:
    """Any events with any values, and any claim on what comes out, give an answer; so does everything that is shown."""
    state = empty_route(TENANT, GROUP)
    for one in log:
        said = fold(state, one)
        assert said.accepted or said.repeated or said.reason
        state = said.route
    name, made = asked
    for now_ms in (-(2**63), T0, 2**63 - 1):
        answer = decide(state, name, made, Facts(now_ms=now_ms, claimed_at_ms=now_ms, approval_needed=True))
        assert isinstance(answer, Granted | Refused)
        decide(state, name, replace(made, replay=True), Facts(now_ms=now_ms, claimed_at_ms=now_ms))
    for op in state.operations.values():
        assert label(op, state.group_state)
        assert sentence(op, state.group_state)
        shown_outcome(op)
        is_settled(op)
    assert group_label(state)


@examples(150)
@given(logs(), st.randoms(use_true_random=False))
def test_a_log_with_redeliveries_folds_like_the_log_without_them(log: list[Entry], chance: random.Random) -> None:
    whole, noisy = digest_of(folded(log)), list(log)
    for _ in range(chance.randint(1, 8)):
        number = chance.randrange(len(noisy))
        again = replace(noisy[number], at_ms=noisy[-1].at_ms + 10**6, position=Position(partition=0, offset=999))
        noisy.insert(chance.randint(number + 1, len(noisy)), again)
    assert digest_of(folded(noisy)) == whole


@examples(150)
@given(logs(), st.data())
def test_a_log_cut_anywhere_folds_like_the_whole(log: list[Entry], data: st.DataObject) -> None:
    """The state at the cut is written down and read back, as a projector does between two batches."""
    cut = data.draw(st.integers(0, len(log)))
    stored = msgspec.msgpack.encode(folded(log[:cut]))
    as_json = msgspec.json.encode(folded(log[:cut]))
    for read in (msgspec.msgpack.decode(stored, type=Route), msgspec.json.decode(as_json, type=Route)):
        assert digest_of(read) == stored
        assert digest_of(folded(log[cut:], read)) == digest_of(folded(log))


@examples(100)
@given(logs_of_two())
def test_independent_operations_do_not_see_each_other(parts: tuple[list[Entry], list[Entry], list[int]]) -> None:
    one, other, order = parts
    queues = [list(one), list(other)]
    mixed = folded([queues[which].pop(0) for which in order])
    assert mixed.operations.get("P") == folded(one).operations.get("P")
    assert mixed.operations.get("Q") == folded(other).operations.get("Q")


@examples(100)
@given(logs(), st.data())
def test_the_same_event_id_with_other_content_is_refused(log: list[Entry], data: st.DataObject) -> None:
    old = data.draw(st.sampled_from(log))
    state = folded(log)
    forged = replace(old, digest="another", at_ms=log[-1].at_ms + 1)
    said = fold(state, forged)
    assert (said.accepted, said.reason) == (False, DUPLICATE_ID)
    assert said.route == state


# ---- what one event may do ----------------------------------------------------------------------------------------------


def without_notes(route: Route) -> Route:
    """*route* without what is only the note that an event was seen."""
    operations = {
        name: replace(op, seen={})
        for name, op in route.operations.items()
        if replace(op, seen={}) != Operation(operation_id=name)
    }
    return replace(route, seen={}, operations=operations)


@examples(150)
@given(logs())
def test_a_refused_event_changes_nothing_and_an_accepted_one_counts_once(log: list[Entry]) -> None:
    state = empty_route(TENANT, GROUP)
    for one in log:
        said, name = fold(state, one), one.event.operation_id
        after = said.route
        if not said.accepted:
            assert without_notes(after) == without_notes(state)
        elif name is not None:
            assert after.operation(name).version == state.operation(name).version + 1
            others = {known for known, op in after.operations.items() if op != state.operations.get(known)}
            assert others <= set(said.touched)
            assert all(after.operation(known).version == state.operation(known).version for known in others - {name})
        else:
            assert after.version == state.version + 1
        if said.repeated:
            assert after == state
        state = after


@examples(150)
@given(logs())
def test_every_state_on_the_way_is_sound(log: list[Entry]) -> None:
    """A task where one is due, one holder, attempts that rise, a group that is a function of its operations."""
    state = empty_route(TENANT, GROUP)
    for one in log:
        state = fold(state, one).route
        if state.group_state in UNWINDING_OR_AFTER:
            assert state.group_state is derived_group_state(state)
        for op in state.operations.values():
            numbers = [attempt.number for attempt in op.attempts]
            assert numbers == list(range(1, len(numbers) + 1))
            assert op.review is None or (op.review.reasons and op.review.review_id == op.reviews)
            assert (op.escalated_for is not None) is (op.state is State.ESCALATED)
            if op.state is State.DISPATCHED:
                assert op.last is not None
                assert not op.last.released
            if op.state is State.ESCALATED and not op.is_inverse:
                assert op.review is not None
            decided = [answer.claim_id for answer in op.answers]
            assert len(decided) == len(set(decided)), "the first decision of a claim counts"
            assert (op.settled_at_ms is not None) is is_settled(op)


# ---- evidence -----------------------------------------------------------------------------------------------------------


@examples(100)
@given(logs())
def test_evidence_of_an_effect_is_never_lost(log: list[Entry]) -> None:
    """Its reference is on record for good, or the effect is confirmed, or a person is asked."""
    state, seen = empty_route(TENANT, GROUP), set()
    for one in log:
        said, effect = fold(state, one), one.event
        before, state = state, said.route
        if not isinstance(effect, OutcomeConfirmed | OutcomeUnknown) or effect.operation_id is None:
            pass
        elif said.accepted and effect.reference is not None:
            seen.add((effect.operation_id, effect.reference))
        elif said.accepted and isinstance(effect, OutcomeConfirmed):
            op = state.operation(effect.operation_id)
            there = (State.CONFIRMED, State.COMPENSATING, State.COMPENSATED, State.ESCALATED)
            assert op.state in there or op.review is not None
        elif isinstance(effect, OutcomeConfirmed) and not said.repeated and said.reason != DUPLICATE_ID:
            assert before.operation(effect.operation_id).state is State.NONE, "only news of an operation that nobody knows"
        for name, reference in seen:
            assert reference in {known.value for known in state.operation(name).references}


@examples(100)
@given(logs())
def test_a_reference_once_seen_never_becomes_an_absence(log: list[Entry]) -> None:
    """Only a person's word leads to `not_found` beside a reference; one that arrives later blocks the next dispatch."""
    state = empty_route(TENANT, GROUP)
    for one in log:
        before, state = state, fold(state, one).route
        for name, op in state.operations.items():
            was = before.operation(name)
            if op.state is State.NOT_FOUND and was.state is not State.NOT_FOUND and op.references:
                released = was.state is State.DISPATCHED and op.last is not None and op.last.released
                assert isinstance(one.event, ReviewDecided) or (released and was.references)
            if op.state is State.NOT_FOUND and was.state is State.NOT_FOUND and len(op.references) > len(was.references):
                assert Mark.LATE_EFFECT in op.marks


@examples(100)
@given(logs())
def test_a_second_dispatch_has_a_recorded_reason(log: list[Entry]) -> None:
    """Between two dispatches stand an absence, a rejection, a release, a reviewer's decision, or a permitted replay."""
    state, reason = empty_route(TENANT, GROUP), dict.fromkeys(OPERATIONS, True)
    for one in log:
        said = fold(state, one)
        name = one.event.operation_id
        if said.accepted and name in reason:
            moved = said.route.operation(name)
            match one.event:
                case DispatchGranted():
                    assert reason[name] or (
                        one.event.replay and state.operation(name).state in (State.UNKNOWN, State.RECONCILING)
                    )
                    reason[name] = False
                case ReviewDecided():
                    reason |= dict.fromkeys((name, f"compensate:{name}"), True)
                case _ if moved.state in (State.NOT_FOUND, State.REJECTED) or (moved.last is not None and moved.last.released):
                    reason[name] = True
        state = said.route


# ---- what decide grants and what the fold accepts -----------------------------------------------------------------------

DIFFERENCES: dict[Refusal, str] = {
    Refusal.CLAIM_EXPIRED: "§5: nobody waits",
    Refusal.INVALID_REQUEST: "§5: a lease of zero is over",
    Refusal.REQUEST_MISMATCH: "§1: refused in every state; a grant names a claim, not a request",
    Refusal.NO_CONTRACT: "§4: a consequential tool without a valid contract is refused",
    Refusal.REPLACED: "§1: the old one gets no further attempt",
    Refusal.RETRY_OFFERED: "§5: granted to a claim that says retry",
    Refusal.PREREQUISITE_UNCONFIRMED: "§5: one that leaves confirmed after the grant changes nothing",
    Refusal.FORWARD_IN_FLIGHT: "§5: judged by the clock of the decision",
    Refusal.UNRESOLVED: "§8: STOP of an inverse; a replay that the claim does not ask for",
    Refusal.NOT_DUE: "§8: the order of the plan",
    Refusal.COMPENSATION_DENIED: "§8: authorized when it runs",
    Refusal.OPEN_INTENT: "§1: equal intents under several ids",
}
"""Grants that the fold accepts and `decide` would not have made: the sentence that makes it the owner's decision alone."""


def grant_of(name: str, made: Claim, granted: Granted, number: int) -> DispatchGranted:
    body = {"claim_id": made.claim_id, "attempt": granted.attempt, "lease_ms": granted.lease_ms, "replay": granted.replay}
    said = event("dispatch_granted", name, event_id=f"decision-{number}", **body)
    assert isinstance(said, DispatchGranted)
    return said


@examples(150)
@given(logs(), claims(), st.sampled_from((0, 1, 5_000, 30_000, 10**7)))
def test_what_decide_grants_the_fold_accepts_when_nothing_comes_between(
    log: list[Entry], asked: tuple[str, Claim], pause_ms: int
) -> None:
    state, now_ms = folded(log), log[-1].at_ms + pause_ms
    name, made = asked
    op = state.operation(name)
    if made.claim_id in {answer.claim_id for answer in op.answers} | set(op.withdrawn):
        made = replace(made, claim_id="fresh")
    answer = decide(state, name, made, Facts(now_ms=now_ms, claimed_at_ms=now_ms, presented_contract=contract()))
    if isinstance(answer, Granted):
        said = fold(state, entry(grant_of(name, made, answer, 1), at_ms=now_ms))
        assert said.accepted, said.reason
        assert said.route.operation(name).state is State.DISPATCHED
        second = fold(said.route, entry(grant_of(name, made, answer, 2), at_ms=now_ms))
        assert not second.accepted, "one claim, one attempt"
        again = decide(said.route, name, replace(made, claim_id="other"), Facts(now_ms=now_ms, claimed_at_ms=now_ms))
        assert isinstance(again, Refused)
        assert again.reason is Refusal.IN_FLIGHT


@examples(150)
@given(logs(), claims(), st.booleans())
def test_what_the_fold_accepts_decide_had_granted_save_for_what_only_its_owner_can_know(
    log: list[Entry], asked: tuple[str, Claim], replay: bool
) -> None:
    state, now_ms = folded(log), log[-1].at_ms + 1
    name, made = asked
    op = state.operation(name)
    number = op.attempts[-1].number + 1 if op.attempts else 1
    granted = Granted(attempt=number, lease_ms=made.lease_ms, replay=replay)
    if not fold(state, entry(grant_of(name, made, granted, 1), at_ms=now_ms)).accepted:
        return
    claimed = replace(made, replay=replay)
    answer = decide(state, name, claimed, Facts(now_ms=now_ms, claimed_at_ms=now_ms))
    if isinstance(answer, Refused):
        assert answer.reason in DIFFERENCES


def test_the_listed_differences_exist() -> None:
    """A difference that never happens is no difference: seeded logs meet those that need no policy of their own."""
    met: set[Refusal] = set()
    for seed in range(3_000):
        log = log_of(Seeded(seed), 14)
        state, now_ms = folded(log), log[-1].at_ms + 1
        for name in OPERATIONS:
            op = state.operation(name)
            made = Claim(
                claim_id="fresh",
                request_hash=op.request_hash or "h1",
                worker="w",
                reply_to="s",
                lease_ms=1,
                asked_at_ms=0,
                answer_by_ms=1,
            )
            number = op.attempts[-1].number + 1 if op.attempts else 1
            said = entry(grant_of(name, made, Granted(attempt=number, lease_ms=1), 1), at_ms=now_ms)
            answer = decide(state, name, made, Facts(now_ms=now_ms, claimed_at_ms=now_ms))
            if fold(state, said).accepted and isinstance(answer, Refused):
                met.add(answer.reason)
    from_claims = {Refusal.CLAIM_EXPIRED, Refusal.INVALID_REQUEST, Refusal.REQUEST_MISMATCH}
    from_elsewhere = {Refusal.REPLACED, Refusal.COMPENSATION_DENIED}
    assert met >= set(DIFFERENCES) - from_claims - from_elsewhere


@examples(100)
@given(logs(), st.sampled_from(State), st.data())
def test_an_erased_operation_stays_as_it_is_whatever_follows(log: list[Entry], final: State, data: st.DataObject) -> None:
    """Also when the eraser stopped midway: the fold starts from the erasure, whatever is left before and comes after."""
    name = data.draw(st.sampled_from(OPERATIONS))
    left = log[: data.draw(st.integers(0, len(log)))]
    erased = event("operation_erased", name, event_id="erased", final_state=str(final))
    assert isinstance(erased, OperationErased)
    rest = [replace(one, event=replace(one.event, event_id=f"later-{one.event.event_id}")) for one in log]
    state = folded([*left, entry(erased, at_ms=T0)])
    for one in rest:
        if one.event.operation_id == name:
            state = fold(state, one).route
    assert state.operation(name).state is final
    assert state.operation(name).final
