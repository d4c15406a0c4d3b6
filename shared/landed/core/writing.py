"""What each event writes into its operation, besides the state that the table gives.

Source: docs/semantics.md §3, §10.
"""

from typing import Any, Final, assert_never

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.approvals import undecidable
from landed.core.guards import attempt_rejected
from landed.core.state import Approval, Attempt, Authorization, ClaimAnswer, Operation, Reference, Route, is_settled
from landed.core.statements import disagrees
from landed.core.tasks import escalated, without_doubt_task
from landed.core.transitions import Row, To
from landed.core.vocabulary import IN_DOUBT, Choice, EscalationReason, ProbeResult, Source, State


def _state(operation: Operation, row: Row) -> State:
    return row.to if isinstance(row.to, State) else operation.state


def write(route: Route, operation: Operation, entry: ev.Entry, row: Row) -> Operation:
    event, at_ms = entry.event, entry.at_ms
    match event:
        case ev.OperationPrepared():
            if row.to is To.KEEP:
                return operation if event.claim is None else _asked(route, operation)
            return _prepared(route, operation, event, at_ms)
        case ev.DispatchRequested():
            return _asked(route, operation)
        case ev.DispatchGranted():
            return _granted(route, operation, event, at_ms)
        case ev.DispatchRefused():
            answer = ClaimAnswer(claim_id=event.claim_id, reason=event.reason)
            return replace(operation, answers=(*operation.answers, answer))
        case ev.DispatchReleased():
            return _released(operation, event, row)
        case ev.LeaseRenewed():
            return _renewed(operation, event, at_ms)
        case ev.LeaseExpired():
            return replace(operation, state=_state(operation, row))
        case ev.OutcomeConfirmed():
            return _confirmed(operation, event, row, at_ms)
        case ev.OutcomeRejected():
            return _rejected(operation, event, row, at_ms)
        case ev.OutcomeUnknown():
            return _unknown(operation, event, row, at_ms)
        case ev.ProbeRecorded():
            return probed(operation, event) if row.to is State.RECONCILING else operation
        case ev.AbsenceEstablished():
            return _absent(operation, row)
        case ev.OperationEscalated():
            if row.to is To.KEEP:
                return operation
            return escalated(operation, event.reason, at_ms, event.queue)
        case ev.EffectReverted():
            return escalated(operation, EscalationReason.EFFECT_REVERTED, at_ms)
        case ev.OperationCancelled():
            return replace(operation, state=_state(operation, row))
        case ev.ReviewDecided():
            return replace(operation, review=None) if row.to is To.KEEP else _decided(operation, event, at_ms)
        case ev.ApprovalRequested():
            return _approval_asked(operation, event)
        case ev.ApprovalDecided():
            return _approved(operation, event, at_ms)
        case ev.CompensationAuthorized():
            ruled = Authorization(decision=event.decision, reason=event.reason, policy_version=event.policy_version)
            return replace(operation, authorization=ruled)
        case ev.WebhookReceived():
            return _news_of(operation, event)
        case ev.AgentStatement():
            disagreements = operation.disagreements + disagrees(event.claimed_state, operation)
            told = (*operation.claimed_states, event.claimed_state)
            return replace(operation, claimed_states=told, disagreements=disagreements)
        case ev.OperationErased() | ev.OperationRetired():
            return replace(operation, state=event.final_state, final=True, stored_args=None, receipt=None)
        case _:
            return operation


def _prepared(route: Route, operation: Operation, event: ev.OperationPrepared, at_ms: int) -> Operation:
    prepared = replace(
        operation,
        state=State.PREPARED,
        tool=event.tool,
        request_hash=event.request_hash,
        argument_digests=event.argument_digests,
        stored_args=event.stored_args,
        contract_text=event.contract,
        contract_digest=event.contract_digest,
        effect_type=event.effect_type,
        compensation=tuple(event.compensation),
        depends_on=None if event.depends_on is None else tuple(event.depends_on),
        step=event.step,
        replaces=event.replaces,
        resources=tuple(event.resources),
        dry_run=event.dry_run,
        prepared_at_ms=at_ms,
    )
    return prepared if event.claim is None else _asked(route, prepared)


def _asked(route: Route, operation: Operation) -> Operation:
    """At its first claim an operation without `depends_on` takes the confirmed steps of its group as prerequisites (§8)."""
    if operation.attempts or operation.answers or operation.depends_on is not None or operation.is_inverse:
        return operation
    confirmed = tuple(
        op.operation_id
        for op in route.operations.values()
        if op.state is State.CONFIRMED and not op.is_inverse and op.operation_id != operation.operation_id
    )
    return operation if confirmed == operation.confirmed_before else replace(operation, confirmed_before=confirmed)


def _granted(route: Route, operation: Operation, event: ev.DispatchGranted, at_ms: int) -> Operation:
    attempt = Attempt(
        number=event.attempt,
        claim_id=event.claim_id,
        granted_at_ms=at_ms,
        lease_end_ms=at_ms + event.lease_ms,
        state_before=operation.state,
        replay=event.replay,
        observe=event.observe,
        approval_id=event.approval_id,
        resources=tuple(event.resources),
        policy_version=event.policy_version,
    )
    return replace(
        operation,
        state=State.DISPATCHED,
        attempts=(*operation.attempts, attempt),
        answers=(*operation.answers, ClaimAnswer(claim_id=event.claim_id, attempt=event.attempt)),
        checks=0,
        last_probe_status=None,
        next_check_at_ms=None,
        error_code=None,
        # After `effect_reverted` a person may have it tried again: what is confirmed then is another effect than the old one.
        receipt=None,
        confirmed_at_ms=None,
        confirmed_attempt=None,
        removed_at_ms=None,
        no_op=False,
        kept=False,
    )


def _change_attempt(operation: Operation, number: int | None, **changes: Any) -> Operation:
    if number is None:
        return operation
    # One number, one attempt: only the next one is granted.
    for at, attempt in enumerate(operation.attempts):
        if attempt.number == number:
            attempts = (*operation.attempts[:at], replace(attempt, **changes), *operation.attempts[at + 1 :])
            return replace(operation, attempts=attempts)
    return operation


def _released(operation: Operation, event: ev.DispatchReleased, row: Row) -> Operation:
    last = operation.last
    withdrawn = replace(operation, withdrawn=(*operation.withdrawn, event.claim_id))
    if row.to is not To.BEFORE_GRANT or last is None:
        return withdrawn
    back = _change_attempt(withdrawn, last.number, released=True, open=False)
    if back.state is State.ESCALATED:
        back = without_doubt_task(back)
    return replace(back, state=last.state_before, next_check_at_ms=None)


def _renewed(operation: Operation, event: ev.LeaseRenewed, at_ms: int) -> Operation:
    last, contract = operation.last, operation.contract
    if last is None:
        return operation
    end_ms = at_ms + event.lease_ms
    if contract is not None and contract.longest_processing > 0:
        # Renewed at most until `longest_processing` after the grant.
        end_ms = min(end_ms, last.granted_at_ms + contract.longest_processing_ms)
    # Never shortened: the holder may count the longer one still.
    end_ms = max(last.lease_end_ms, end_ms)
    return _change_attempt(operation, last.number, lease_end_ms=end_ms, lease_number=event.lease_number)


def _with_reference(operation: Operation, value: str | None, attempt: int | None, *, confirmed: bool) -> Operation:
    if value is None:
        return operation
    if not operation.references:
        return replace(operation, references=(Reference(value=value, attempt=attempt, confirmed=confirmed),))
    kept = tuple(ref for ref in operation.references if ref.value != value)
    old = next((ref for ref in operation.references if ref.value == value), None)
    reference = Reference(
        value=value,
        attempt=attempt if attempt is not None else (old.attempt if old else None),
        confirmed=confirmed or (old is not None and old.confirmed),
    )
    return operation if reference == old else replace(operation, references=(*kept, reference))


def _confirmed(operation: Operation, event: ev.OutcomeConfirmed, row: Row, at_ms: int) -> Operation:
    moved = _with_reference(operation, event.reference, event.attempt, confirmed=True)
    if event.source is Source.WORKER:
        # Only the word of the holder itself says that the call of this attempt is over.
        moved = _change_attempt(moved, event.attempt, open=False, answered=True, ended_at_ms=at_ms)
    if row.mark is not None:
        return moved
    receipt = event.receipt if moved.receipt is None else moved.receipt
    removed_at_ms = event.removed_at_ms if moved.removed_at_ms is None else moved.removed_at_ms
    if row.to is not State.CONFIRMED:
        return replace(moved, receipt=receipt, removed_at_ms=removed_at_ms)
    moved = replace(
        moved,
        receipt=receipt,
        removed_at_ms=removed_at_ms,
        state=State.CONFIRMED,
        confirmed_at_ms=at_ms,
        confirmed_attempt=event.attempt if event.attempt is not None else (moved.last.number if moved.last else None),
        no_op=event.no_op,
        next_check_at_ms=None,
        error_code=None,
    )
    return without_doubt_task(moved)


def _rejected(operation: Operation, event: ev.OutcomeRejected, row: Row, at_ms: int) -> Operation:
    ended: dict[str, Any] = {"open": False, "answered": True}
    if event.source is Source.WORKER:
        ended["ended_at_ms"] = at_ms
    moved = _change_attempt(operation, attempt_rejected(operation, event), **ended)
    if row.to is not State.REJECTED:
        return moved
    moved = replace(moved, state=State.REJECTED, error_code=event.error_code, next_check_at_ms=None)
    return without_doubt_task(moved)


def _unknown(operation: Operation, event: ev.OutcomeUnknown, row: Row, at_ms: int) -> Operation:
    moved = _with_reference(operation, event.reference, event.attempt, confirmed=False)
    attempt = next((a for a in moved.attempts if a.number == event.attempt), None)
    if attempt is not None and attempt.ended_at_ms is None:
        moved = _change_attempt(moved, event.attempt, answered=True, ended_at_ms=at_ms)
    if row.to is State.UNKNOWN:
        settles_ms = event.settles_after_ms
        moved = replace(moved, state=State.UNKNOWN, error_code=event.error_class)
        # What was accepted is looked at when it is to be settled, as its caller was told.
        moved = moved if settles_ms is None else replace(moved, next_check_at_ms=at_ms + max(0, settles_ms))
    return moved


def probed(operation: Operation, event: ev.ProbeRecorded) -> Operation:
    """*operation*, in doubt, after the look that *event* tells of."""
    status = operation.last_probe_status
    if event.result is ProbeResult.FOUND:
        status = str(event.status or "found")
    elif event.result is ProbeResult.ABSENT:
        status = None
    contract = operation.contract
    if event.result is ProbeResult.FOUND and contract and set(contract.minimum_evidence) <= set(event.matched_on):
        # Seen with enough evidence to be ours: it may be pending still, but it never becomes an absence.
        operation = _with_reference(operation, event.reference, event.attempt, confirmed=False)
    return replace(
        operation,
        state=State.RECONCILING,
        # The same look told by two reconcilers is one look: else they would reach `max_checks` in half the time.
        checks=max(operation.checks, min(event.number, operation.checks + 1)),
        last_probe_status=status,
        next_check_at_ms=event.next_check_at_ms,
    )


def _absent(operation: Operation, row: Row) -> Operation:
    if row.to is not State.NOT_FOUND:
        return operation
    closed = tuple(replace(attempt, open=False) for attempt in operation.attempts)
    return replace(operation, state=State.NOT_FOUND, attempts=closed, next_check_at_ms=None)


def _news_of(operation: Operation, event: ev.WebhookReceived) -> Operation:
    about, at_ms = event.reference or "", event.provider_time_ms
    if at_ms is None or at_ms <= operation.news.get(about, at_ms - 1):
        return operation
    return replace(operation, news={**operation.news, about: at_ms})


def _approval_asked(operation: Operation, event: ev.ApprovalRequested) -> Operation:
    if any(one.approval_id == event.approval_id for one in operation.approvals):
        return operation
    asked = Approval(
        approval_id=event.approval_id,
        request_hash=event.request_hash,
        expires_at_ms=event.expires_at_ms,
        requested_by=event.requested_by,
        four_eyes=event.four_eyes,
    )
    return replace(operation, approvals=(*operation.approvals, asked))


def _approved(operation: Operation, event: ev.ApprovalDecided, at_ms: int) -> Operation:
    """The first decision counts, in time, about this very request; any other is kept and changes nothing (§5)."""
    asked = next((one for one in operation.approvals if one.approval_id == event.approval_id), None)
    if asked is None or undecidable(asked, request_hash=event.request_hash, approver=event.approver, at_ms=at_ms) is not None:
        return operation
    decided = replace(
        asked,
        expires_at_ms=event.expires_at_ms,
        decision=event.decision,
        approver=event.approver,
        policy_version=event.policy_version,
    )
    return replace(operation, approvals=tuple(decided if one is asked else one for one in operation.approvals))


def _decided(operation: Operation, event: ev.ReviewDecided, at_ms: int) -> Operation:
    """What the reviewer chose (§10); one decision answers the whole task."""
    was = operation.state
    moved = replace(operation, review=None)
    if was is not State.ESCALATED:
        if event.choice is Choice.CONFIRMED and was is State.REJECTED:
            return by_a_person(moved, event, at_ms)
        return moved
    moved = replace(moved, escalated_for=None, next_check_at_ms=None)
    match event.choice:
        case Choice.CONFIRMED:
            return by_a_person(moved, event, at_ms)
        case Choice.REJECTED:
            return replace(moved, state=State.REJECTED)
        case Choice.NOT_FOUND:
            return replace(moved, state=State.NOT_FOUND, attempts_by_review=moved.attempts_counted + 1)
        case Choice.UNKNOWN:
            # Count and time of the looks begin anew.
            return replace(moved, state=State.UNKNOWN, checks=0, doubt_since_ms=at_ms)
        case Choice.CANCELLED:
            return replace(moved, state=State.CANCELLED)
        case Choice.KEPT:
            return replace(moved, state=State.CONFIRMED, kept=True)
        case Choice.COMPENSATED:
            return replace(moved, state=State.COMPENSATED)
        case Choice.COMPENSATING:
            return replace(moved, state=State.COMPENSATING, undo_approved_by=event.reviewer)
        case Choice.ACKNOWLEDGED:
            return moved
        case _:
            assert_never(event.choice)


def by_a_person(operation: Operation, event: ev.ReviewDecided, at_ms: int) -> Operation:
    """Confirmed by a reviewer: shown with its time, contradicted by a rejection of the last attempt, as any confirmation is."""
    moved = _with_reference(operation, event.reference, None, confirmed=True)
    last = moved.last.number if moved.last else None
    return replace(moved, state=State.CONFIRMED, confirmed_at_ms=at_ms, confirmed_attempt=last, error_code=None)


def settled(operation: Operation, before: Operation, at_ms: int) -> Operation:
    """Keeps the clock of doubt and of settlement."""
    changes = clocks(operation, before, at_ms)
    return replace(operation, **changes) if changes else operation


_KEEPS_A_CLOCK_OF_DOUBT: Final = IN_DOUBT - {State.DISPATCHED}


def clocks(operation: Operation, before: Operation, at_ms: int) -> dict[str, Any]:
    """What `settled` changes."""
    changes: dict[str, Any] = {}
    doubtful = operation.state in _KEEPS_A_CLOCK_OF_DOUBT
    if doubtful and operation.doubt_since_ms is None:
        changes["doubt_since_ms"] = at_ms
    elif not doubtful and operation.doubt_since_ms is not None and operation.state is not State.ESCALATED:
        changes["doubt_since_ms"] = None
    settled = is_settled(operation)
    if settled and (operation.settled_at_ms is None or operation.state is not before.state):
        changes["settled_at_ms"] = at_ms
    elif not settled and operation.settled_at_ms is not None:
        changes["settled_at_ms"] = None
    return changes
