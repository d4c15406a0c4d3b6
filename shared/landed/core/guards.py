"""Conditions of the transition table: each returns None when it holds, else the reason that is recorded with the refused event.

Pure: they see the route before the event, the operation, and the event at its place on the log, nothing else.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from landed.core import recovery
from landed.core.contract import milliseconds
from landed.core.events import Entry, OperationEscalated, OutcomeRejected
from landed.core.inverse import came_undone
from landed.core.state import Attempt, Operation, Route, choices_of, has_attempt_left, is_settled
from landed.core.vocabulary import (
    ADMITS_FORWARD,
    IN_DOUBT,
    UNWINDING_OR_AFTER,
    ActionClass,
    Choice,
    EscalationReason,
    ForwardOutcome,
    GroupState,
    Mark,
    OnAbsent,
    Source,
    State,
)

Guard = Callable[[Route, Operation, Entry], str | None]


def _event(entry: Entry) -> Any:
    # Every guard is named only in rows of the events that carry the fields it reads; the table test proves it.
    return entry.event


def _attempt(operation: Operation, number: int | None) -> Attempt | None:
    return next((attempt for attempt in operation.attempts if attempt.number == number), None)


# ---- intent and group -------------------------------------------------------------------------------------------------


def group_admits_intent(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A forward intent needs an open group, an inverse any group."""
    if operation.is_inverse or route.group_state in (GroupState.NONE, GroupState.OPEN):
        return None
    return "group_closed" if route.group_state is GroupState.CLOSED else "group_unwinding"


def same_request(route: Route, operation: Operation, entry: Entry) -> str | None:
    event = _event(entry)
    if event.request_hash == operation.request_hash:
        return None
    return "request_mismatch"


def group_admits_grant(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Forward: group open or closed. Inverse: group unwinding or after, and X as §8 says."""
    if not operation.is_inverse:
        return None if route.group_state in ADMITS_FORWARD else "group_unwinding"
    if route.group_state not in UNWINDING_OR_AFTER:
        return "group_not_unwinding"
    forward = route.forward_of(operation.operation_id)
    if forward is None or not inverse_is_safe(forward, operation.tool):
        return "compensation_unsafe"
    return None if other_inverse(route, operation.operation_id) is None else "other_inverse"


def other_inverse(route: Route, operation_id: str) -> Operation | None:
    """Another inverse of the same operation that happened or may have: the next of a list comes only after it failed."""
    forward = route.forward_of(operation_id)
    inverses = route.inverses_of(forward.operation_id) if forward is not None else ()
    may_have_happened = IN_DOUBT | {State.CONFIRMED, State.ESCALATED}
    return next((one for one in inverses if one.operation_id != operation_id and one.state in may_have_happened), None)


def inverse_is_safe(forward: Operation, tool: str | None) -> bool:
    """Whether the inverse *tool* of *forward* may be dispatched, judged by *forward* alone (§8)."""
    contract = forward.contract
    allowed = contract.safe_when(tool or "") if contract else frozenset[ForwardOutcome]()
    match forward.state:
        case State.COMPENSATING:
            return True  # a further attempt of the inverse
        case State.CONFIRMED:
            return not forward.kept
        case State.UNKNOWN | State.RECONCILING:
            return ForwardOutcome.UNKNOWN in allowed
        case State.REJECTED | State.NOT_FOUND:
            return ForwardOutcome.FAILED in allowed
        case _:
            return False


def group_unwinding(route: Route, operation: Operation, entry: Entry) -> str | None:
    return None if route.group_state in UNWINDING_OR_AFTER else "group_not_unwinding"


def group_not_unwinding(route: Route, operation: Operation, entry: Entry) -> str | None:
    return "group_unwinding" if route.group_state in UNWINDING_OR_AFTER else None


# ---- claims and attempts ----------------------------------------------------------------------------------------------


def claim_open(route: Route, operation: Operation, entry: Entry) -> str | None:
    """The first decision of a claim counts; a second, or one for a withdrawn claim, is refused (§2)."""
    claim_id = _event(entry).claim_id
    if claim_id in operation.withdrawn:
        return "claim_withdrawn"
    if any(answer.claim_id == claim_id for answer in operation.answers):
        return "claim_already_decided"
    return None


def next_attempt(route: Route, operation: Operation, entry: Entry) -> str | None:
    expected = operation.attempts[-1].number + 1 if operation.attempts else 1
    return None if _event(entry).attempt == expected else "attempt_not_next"


def no_late_effect(route: Route, operation: Operation, entry: Entry) -> str | None:
    """An undecided `late_effect` blocks dispatches: the effect may be there already (§3)."""
    return "late_effect" if has_open_late_effect(operation) else None


def has_open_late_effect(operation: Operation) -> bool:
    return operation.review is not None and Mark.LATE_EFFECT in operation.review.reasons


def attempt_left(route: Route, operation: Operation, entry: Entry) -> str | None:
    return None if has_attempt_left(operation) else "no_attempt_left"


def replay_permitted(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A call in doubt may be sent again only as §7 (Replay) says, judged at the log's time of the grant."""
    event = _event(entry)
    if not event.replay:
        return "unresolved"
    return replay_refusal(operation, now_ms=entry.at_ms, lease_ms=event.lease_ms)


def replay_refusal(operation: Operation, *, now_ms: int, lease_ms: int) -> str | None:
    """Why *operation*, in doubt, must not be sent again at *now_ms*; None when it may."""
    contract, last = operation.contract, operation.last
    if operation.final:
        return "final"
    if contract is None or last is None:
        return "no_contract"
    if contract.action_class not in (ActionClass.SAFE_REPLAY, ActionClass.DEDUPE_SUPPORTED):
        return "replay_not_declared"
    if operation.attempts_counted >= operation.attempts_allowed:
        return "no_attempt_left"
    if operation.last_probe_status is not None:
        return "effect_seen"
    if now_ms < last.lease_end_ms or now_ms < recovery.last_attempt_ended_ms(last) + contract.quiet_after_ms:
        return "safe_window"
    if contract.action_class is ActionClass.DEDUPE_SUPPORTED:
        key = contract.operation_key
        if key is None or not key.honoured:
            return "key_not_honoured"
        first = next(attempt for attempt in operation.attempts if not attempt.released)
        end_ms = now_ms + lease_ms + contract.longest_processing_ms
        if key.lifetime is not None and end_ms > first.granted_at_ms + milliseconds(key.lifetime):
            return "key_expired"
    return None


def names_last_claim(route: Route, operation: Operation, entry: Entry) -> str | None:
    last = operation.last
    return None if last is not None and not last.released and _event(entry).claim_id == last.claim_id else "not_holder"


def claim_undecided(route: Route, operation: Operation, entry: Entry) -> str | None:
    claim_id = _event(entry).claim_id
    if any(answer.claim_id == claim_id for answer in operation.answers):
        return "claim_already_decided"
    return "claim_withdrawn" if claim_id in operation.withdrawn else None


def nothing_answered(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A call that left an outcome or a reference was made: it cannot be taken back (§3)."""
    last = operation.last
    if last is None or last.answered or any(ref.attempt == last.number for ref in operation.references):
        return "outcome_on_record"
    return None


def escalated_for_doubt(route: Route, operation: Operation, entry: Entry) -> str | None:
    return None if operation.state is not State.ESCALATED or operation.escalated_for_doubt else "escalated_without_doubt"


def not_escalated_for_doubt(route: Route, operation: Operation, entry: Entry) -> str | None:
    return "escalated_for_doubt" if operation.escalated_for_doubt else None


def next_lease(route: Route, operation: Operation, entry: Entry) -> str | None:
    last = operation.last
    return None if last is not None and _event(entry).lease_number == last.lease_number + 1 else "lease_not_next"


def lease_running(route: Route, operation: Operation, entry: Entry) -> str | None:
    last = operation.last
    return None if last is not None and entry.at_ms < last.lease_end_ms else "lease_over"


def names_current_lease(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A lease that was renewed is another lease than the one the actor saw."""
    last, event = operation.last, _event(entry)
    if last is None or event.attempt != last.number or event.lease_number != last.lease_number:
        return "lease_renewed"
    return None


def lease_over(route: Route, operation: Operation, entry: Entry) -> str | None:
    last = operation.last
    return None if last is not None and entry.at_ms > last.lease_end_ms else "lease_not_over"


def attempt_rejected(operation: Operation, event: OutcomeRejected) -> int | None:
    """Number of the attempt that a rejection speaks of: as it says, else the one that brought the reference it names."""
    if event.attempt is not None or event.reference is None:
        return event.attempt
    return next((known.attempt for known in operation.references if known.value == event.reference), None)


def names_last_attempt(route: Route, operation: Operation, entry: Entry) -> str | None:
    last, event = operation.last, _event(entry)
    number = attempt_rejected(operation, event) if isinstance(event, OutcomeRejected) else event.attempt
    return None if last is not None and number == last.number else "not_last_attempt"


def names_earlier_attempt(route: Route, operation: Operation, entry: Entry) -> str | None:
    last, number = operation.last, _event(entry).attempt
    earlier = last is not None and _attempt(operation, number) is not None and number != last.number
    return None if earlier else "not_an_earlier_attempt"


def known_holder(route: Route, operation: Operation, entry: Entry) -> str | None:
    """The event comes from the claim that its attempt was granted to."""
    attempt = _attempt(operation, _event(entry).attempt)
    return None if attempt is not None and attempt.claim_id == _event(entry).claim_id else "not_holder"


# ---- evidence ---------------------------------------------------------------------------------------------------------


def brings_new_reference(route: Route, operation: Operation, entry: Entry) -> str | None:
    reference = _event(entry).reference
    new = reference is not None and all(known.value != reference for known in operation.references)
    return None if new else "no_new_reference"


def reference_on_record(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Evidence that repeats what is known; evidence without a reference repeats an effect that is confirmed already."""
    reference = _event(entry).reference
    if reference is None:
        return None
    return None if any(known.value == reference for known in operation.references) else "reference_not_on_record"


def names_reference_on_record(route: Route, operation: Operation, entry: Entry) -> str | None:
    reference = _event(entry).reference
    on_record = reference is not None and any(known.value == reference for known in operation.references)
    return None if on_record else "reference_not_on_record"


def newest_news(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Of what webhooks say about the same reference the newest by the provider's own time counts, whatever order they came in."""
    event = _event(entry)
    if event.source is not Source.WEBHOOK or event.provider_time_ms is None:
        return None
    newest = operation.news.get(event.reference or "")
    return None if newest is None or event.provider_time_ms >= newest else "older_news"


def no_reference_on_record(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A receipt or reference seen once never becomes an absence."""
    return "reference_on_record" if operation.references else None


def holder_or_settled(route: Route, operation: Operation, entry: Entry) -> str | None:
    """In `dispatched` only the holder of the lease may say that nothing happened."""
    event, last = _event(entry), operation.last
    if operation.state is not State.DISPATCHED:
        return None
    held = event.source is Source.WORKER and last is not None and event.claim_id == last.claim_id
    return None if held else "not_holder"


def no_other_open_attempt(route: Route, operation: Operation, entry: Entry) -> str | None:
    number = attempt_rejected(operation, _event(entry))
    others = any(attempt.open and attempt.number != number for attempt in operation.attempts)
    return "other_open_attempt" if others else None


def rejection_speaks_for_all(route: Route, operation: Operation, entry: Entry) -> str | None:
    """After a replay a rejection tells of all attempts only under a key that the provider honours (§3)."""
    last, contract = operation.last, operation.contract
    if last is None or not last.replay:
        return None
    return None if contract is not None and contract.key_honoured else "replayed_without_key"


def speaks_of_confirmed_effect(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Of the attempt or of the reference that was confirmed, not of one that was only accepted (§3)."""
    event = _event(entry)
    by_reference = any(known.confirmed and known.value == event.reference for known in operation.references)
    by_attempt = event.attempt is not None and event.attempt == operation.confirmed_attempt
    return None if by_reference or by_attempt else "another_attempt"


def absence_window_passed(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Absence means something only after the safe window since the last attempt ended, by the log's clock (§7)."""
    last, contract = operation.last, operation.contract
    if last is None or contract is None:
        return "no_contract"
    return None if entry.at_ms >= recovery.last_attempt_ended_ms(last) + contract.quiet_after_ms else "safe_window"


# ---- people -----------------------------------------------------------------------------------------------------------


def _reason_is(*reasons: EscalationReason) -> Guard:
    def guard(route: Route, operation: Operation, entry: Entry) -> str | None:
        event = entry.event
        return None if isinstance(event, OperationEscalated) and event.reason in reasons else "reason_not_allowed_in_state"

    guard.__name__ = "reason_is_" + "_or_".join(reasons)
    return guard


reason_is_doubt = _reason_is(
    EscalationReason.NO_PROBE, EscalationReason.PROBES_EXHAUSTED, EscalationReason.DEADLINE, EscalationReason.CONFLICT
)
reason_is_absent = _reason_is(EscalationReason.ABSENT)
reason_is_inverse_failed = _reason_is(EscalationReason.INVERSE_FAILED)
reason_is_blocked_inverse = _reason_is(EscalationReason.SKIPPED, EscalationReason.IRREVERSIBLE)


def speaks_of_last_or_no_attempt(route: Route, operation: Operation, entry: Entry) -> str | None:
    last = operation.last
    return None if _event(entry).attempt == (last.number if last else 0) else "not_last_attempt"


def not_kept(route: Route, operation: Operation, entry: Entry) -> str | None:
    return "kept" if operation.kept else None


def nothing_dispatched(route: Route, operation: Operation, entry: Entry) -> str | None:
    return "attempt_on_record" if any(not attempt.released for attempt in operation.attempts) else None


def names_open_task(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A decision names the task as the reviewer saw it: a closed task, or one with more reasons since, is another one (§10)."""
    task = operation.review
    return None if task is not None and _event(entry).review_id == task.review_id else "review_not_open"


def choice_offered(route: Route, operation: Operation, entry: Entry) -> str | None:
    task = operation.review
    if task is None or _event(entry).choice not in choices_of(task, operation):
        return "choice_not_offered"
    return None


def choice_acknowledges(route: Route, operation: Operation, entry: Entry) -> str | None:
    """What is erased or retired moves no more: a person can only take note of what arrived since."""
    return None if _event(entry).choice is Choice.ACKNOWLEDGED else "choice_not_offered"


def choice_is_safe(route: Route, operation: Operation, entry: Entry) -> str | None:
    """A choice that leads to another dispatch waits for the last lease, the safe window and, for an inverse, proof (§10)."""
    choice = _event(entry).choice
    if choice is Choice.COMPENSATING and inverse_in_doubt(route, operation) is not None:
        return "inverse_not_proven_absent"
    safe_from_ms = choice_safe_from_ms(route, operation, choice)
    return None if safe_from_ms is None or entry.at_ms >= safe_from_ms else "safe_window"


def inverse_in_doubt(route: Route, operation: Operation) -> Operation | None:
    """An inverse of *operation* that was dispatched and of which neither rejection, absence nor reversal is proven."""
    proven = (State.REJECTED, State.NOT_FOUND)
    inverses = route.inverses_of(operation.operation_id)
    in_doubt = (one for one in inverses if one.attempts_counted and one.state not in proven and not came_undone(one))
    return next(in_doubt, None)


def choice_safe_from_ms(route: Route, operation: Operation, choice: Choice) -> int | None:
    """From when *choice* may be taken: one that leads to another dispatch waits until nothing is under way; None: at any time."""
    if choice is Choice.NOT_FOUND:
        return _quiet_from_ms(operation)
    if choice is Choice.REJECTED and has_attempt_left(replace(operation, state=State.REJECTED)):
        return _quiet_from_ms(operation)
    if choice is Choice.COMPENSATING:
        quiet = [_quiet_from_ms(inverse) for inverse in route.inverses_of(operation.operation_id)]
        return max((one for one in quiet if one is not None), default=None)
    return None


def _quiet_from_ms(operation: Operation) -> int | None:
    contract = operation.contract
    last = next((attempt for attempt in reversed(operation.attempts) if not attempt.released), None)
    if last is None or contract is None:
        return None
    return max(last.lease_end_ms, recovery.last_attempt_ended_ms(last) + contract.quiet_after_ms)


_MAY_SETTLE = frozenset({State.CONFIRMED, State.REJECTED, State.CANCELLED, State.COMPENSATED, State.NOT_FOUND})


# ---- retention --------------------------------------------------------------------------------------------------------


def may_retire(route: Route, operation: Operation, entry: Entry) -> str | None:
    """Only settled operations without an open task are retired (erasure is always possible).

    Where no event overtook the retirement its owner saw this state or a later one: what is missing by now was tombstoned, and a
    log that an eraser left half empty must not revive the operation (§2).
    """
    event = _event(entry)
    if event.final_state not in _MAY_SETTLE:
        return "not_settled"
    if operation.version <= event.seen_version:
        return None
    if operation.review is not None:
        return "review_open"
    return None if is_settled(operation) else "not_settled"


def offers_retry(operation: Operation) -> bool:
    contract = operation.contract
    return contract is not None and contract.on_absent is OnAbsent.OFFER_RETRY
