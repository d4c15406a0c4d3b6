"""Settling an operation in doubt: when to look, what a look proves, and which events say so. Pure; the reconciler runs it.

Source: docs/semantics.md §7.
"""

import msgspec

from landed.core import events as ev
from landed.core.contract import Contract, milliseconds
from landed.core.recovery import last_attempt_ended_ms
from landed.core.state import Attempt, Operation, ReviewTask, choices_of
from landed.core.vocabulary import (
    EffectStatus,
    EscalationReason,
    OnAbsent,
    ProbeResult,
    ReadKind,
    Source,
    State,
)

RECONCILER = "reconciler"
"""Actor of what is found out: reconcilers are one actor, so two of them that find the same append one event."""


# ---- what a probe answers ---------------------------------------------------------------------------------------------


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The provider has a record of the effect."""

    reference: str | None = None
    receipt: str | None = None
    """JSON, redacted."""
    matched_on: tuple[str, ...]
    """Fields of the record that are ours beyond doubt: `operation_id`, `reference`, …; compared with `minimum_evidence`."""
    status: EffectStatus = EffectStatus.SETTLED
    provider_time_ms: int | None = None
    removed_at_ms: int | None = None


class Absent(msgspec.Struct, frozen=True):
    """The provider has no such record."""


class Ambiguous(msgspec.Struct, frozen=True):
    """Records that might be ours; `reason` is shown to a person."""

    reason: str


class ProbeFailed(msgspec.Struct, frozen=True):
    """The look itself failed: nothing is known from it. `error` is a class or code, never content."""

    error: str


ProbeAnswer = Found | Absent | Ambiguous | ProbeFailed


# ---- what is due ------------------------------------------------------------------------------------------------------


def due_at_ms(operation: Operation) -> int | None:
    """When something is to be done about *operation* by itself; None while it waits for nobody or for a person.

    Milliseconds since the epoch, UTC.
    """
    contract, last = operation.contract, operation.last
    if last is None or operation.frozen_at or operation.final:
        return None
    if operation.state is State.DISPATCHED:
        return last.lease_end_ms + 1
    if contract is None:
        # Without terms there is nothing to look by: a person takes over at once.
        in_doubt = operation.state in (State.UNKNOWN, State.RECONCILING)
        return operation.doubt_since_ms or last_attempt_ended_ms(last) if in_doubt else None
    match operation.state:
        case State.UNKNOWN | State.RECONCILING:
            if operation.next_check_at_ms is not None:
                return operation.next_check_at_ms
            return (operation.doubt_since_ms or last_attempt_ended_ms(last)) + milliseconds(contract.first_check_after)
        case State.NOT_FOUND:
            return (
                operation.settled_at_ms or 0 if contract.on_absent is OnAbsent.ESCALATE and _left_to_people(operation) else None
            )
        case _:
            return None


def _left_to_people(operation: Operation) -> bool:
    # A reviewer who allowed one more attempt has seen the absence already.
    return not operation.attempts_by_review


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the provider is due: the *number*-th since the last grant."""

    attempt: int
    number: int


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """These events are to be appended, in this order."""

    events: tuple[ev.Event, ...]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    until_ms: int | None


def next_step(operation: Operation, *, tenant_id: str, route: str, now_ms: int, can_probe: bool) -> Probe | Append | Wait:
    """What to do about *operation* at *now_ms*.

    Args:
        can_probe: whether the declared probe is registered here; without one the operation goes to a person.
    """
    due, last = due_at_ms(operation), operation.last
    if due is None or last is None or now_ms < due:
        return Wait(until_ms=due)
    said = _Saying(tenant_id, route, operation)
    if operation.state is State.DISPATCHED:
        return Append(events=(said.lease_expired(last),))
    if operation.state is State.NOT_FOUND:
        return Append(events=(said.escalated(EscalationReason.ABSENT),))
    contract = operation.contract
    if contract is None or contract.outcome_probe is None or not can_probe:
        return Append(events=(said.escalated(EscalationReason.NO_PROBE),))
    if _past_deadline(operation, contract, now_ms):
        return Append(events=(said.escalated(EscalationReason.DEADLINE),))
    if operation.checks >= contract.max_checks:
        return Append(events=(said.escalated(EscalationReason.PROBES_EXHAUSTED),))
    return Probe(attempt=last.number, number=operation.checks + 1)


def judge(
    operation: Operation,
    answer: ProbeAnswer,
    *,
    tenant_id: str,
    route: str,
    asked_at_ms: int,
    jitter: float,
    clock_known: bool = True,
) -> tuple[ev.Event, ...]:
    """Events that say what the look at *asked_at_ms* showed and what follows from it, in order.

    Args:
        asked_at_ms: when the probe was sent, before it read anything, on the log's clock: an absence counts from there.
        jitter: 0 to 1, spreads the next look over up to a tenth more time.
        clock_known: False: *asked_at_ms* is of a clock never compared with the log's, so no window is known to have passed.
    """
    said = _Saying(tenant_id, route, operation)
    match answer:
        case Found():
            return _found(said, answer, asked_at_ms, jitter)
        case Absent():
            return _absent(said, asked_at_ms, jitter, clock_known=clock_known)
        case Ambiguous():
            seen = said.probed(ProbeResult.AMBIGUOUS, evidence=_evidence(reason=answer.reason))
            return seen, said.escalated(EscalationReason.CONFLICT, after=1)
        case ProbeFailed():
            return _go_on(said, ProbeResult.ERROR, asked_at_ms, jitter, evidence=_evidence(error=answer.error))


def _found(said: "_Saying", found: Found, asked_at_ms: int, jitter: float) -> tuple[ev.Event, ...]:
    known = {reference.value for reference in said.operation.references}
    enough = set(said.contract.minimum_evidence) <= set(found.matched_on)
    contradicts = bool(known) and found.reference is not None and found.reference not in known
    if not enough or contradicts:
        why = "below the minimum evidence" if not enough else "another reference than the receipt"
        return (
            said.probed(ProbeResult.FOUND, found=found, evidence=_evidence(conflict=why)),
            said.escalated(EscalationReason.CONFLICT, after=1),
        )
    match found.status:
        case EffectStatus.PENDING:
            return _go_on(said, ProbeResult.FOUND, asked_at_ms, jitter, found=found)
        case EffectStatus.FAILED:
            return said.probed(ProbeResult.FOUND, found=found), said.rejected(found)
        case EffectStatus.SETTLED | EffectStatus.REMOVED:
            return said.probed(ProbeResult.FOUND, found=found), said.confirmed(found, asked_at_ms)


def _absent(said: "_Saying", asked_at_ms: int, jitter: float, *, clock_known: bool) -> tuple[ev.Event, ...]:
    probe = said.contract.outcome_probe
    authoritative = probe is not None and probe.read_kind is ReadKind.AUTHORITATIVE
    if not authoritative or not clock_known or asked_at_ms < said.window_end_ms:
        return _go_on(said, ProbeResult.ABSENT, asked_at_ms, jitter)
    seen = said.probed(ProbeResult.ABSENT)
    if said.operation.references:
        return seen, said.escalated(EscalationReason.CONFLICT, after=1)
    if said.operation.last_probe_status == EffectStatus.PENDING:
        # The provider had accepted it a moment ago: a record that vanishes is no proof that it was never there.
        return seen, said.escalated(EscalationReason.CONFLICT, after=1)
    return seen, said.absence(asked_at_ms)


def _go_on(
    said: "_Saying",
    result: ProbeResult,
    asked_at_ms: int,
    jitter: float,
    *,
    found: Found | None = None,
    evidence: str | None = None,
) -> tuple[ev.Event, ...]:
    """Nothing is settled: look again later, or hand over when the bounds are reached."""
    operation, contract = said.operation, said.contract
    number = operation.checks + 1
    if number >= contract.max_checks:
        seen = said.probed(result, found=found, evidence=evidence)
        return seen, said.escalated(EscalationReason.PROBES_EXHAUSTED, after=1)
    wait_s = _backed_off_s(contract, number)
    next_ms = asked_at_ms + milliseconds(wait_s * (1 + jitter / 10))
    if number == contract.max_checks - 1:
        # The last look must be one that can prove absence.
        next_ms = max(next_ms, said.window_end_ms)
    deadline_ms = _deadline_ms(operation, contract)
    return (said.probed(result, found=found, evidence=evidence, next_check_at_ms=min(next_ms, max(deadline_ms, asked_at_ms))),)


def _backed_off_s(contract: Contract, looks: int) -> float:
    """Seconds to the next look after *looks* of them: `first_check_after` times `backoff` each time, up to `max_interval`."""
    wait_s = contract.first_check_after
    for _ in range(looks):
        wait_s *= contract.backoff
        if wait_s >= contract.max_interval:
            break
    return min(wait_s, contract.max_interval)


def _deadline_ms(operation: Operation, contract: Contract) -> int:
    return (operation.doubt_since_ms or 0) + milliseconds(contract.deadline)


def _past_deadline(operation: Operation, contract: Contract, now_ms: int) -> bool:
    return now_ms >= _deadline_ms(operation, contract)


def _evidence(**fields: str) -> str:
    return msgspec.json.encode(fields).decode()


class _Saying:
    """Makes the reconciler's events about one operation, without `event_id`."""

    def __init__(self, tenant_id: str, route: str, operation: Operation) -> None:
        if operation.last is None:
            raise ValueError(f"operation {operation.operation_id!r} was never dispatched")
        self.operation = operation
        self.attempt: Attempt = operation.last
        self._who = {
            "event_id": "",
            "tenant_id": tenant_id,
            "route": route,
            "operation_id": operation.operation_id,
            "actor": RECONCILER,
        }

    @property
    def contract(self) -> Contract:
        contract = self.operation.contract
        if contract is None:
            raise ValueError(f"operation {self.operation.operation_id!r} has no contract that can be read")
        return contract

    @property
    def again_at_ms(self) -> int:
        """When to look again should the outcome that is said beside a look never reach the log.

        A moment later, since the view may show the one event before the other; told by the operation alone, so that two
        reconcilers that find the same say the same.
        """
        return (due_at_ms(self.operation) or 0) + milliseconds(_backed_off_s(self.contract, self.operation.checks + 1))

    @property
    def window_end_ms(self) -> int:
        return last_attempt_ended_ms(self.attempt) + self.contract.quiet_after_ms

    def _envelope(self, after: int = 0) -> dict[str, object]:
        return {**self._who, "seen_version": self.operation.version + after}

    def lease_expired(self, last: Attempt) -> ev.LeaseExpired:
        return msgspec.convert(
            {
                **self._envelope(),
                "claim_id": last.claim_id,
                "attempt": last.number,
                "lease_number": last.lease_number,
                "lease_end_ms": last.lease_end_ms,
            },
            ev.LeaseExpired,
        )

    def probed(
        self,
        result: ProbeResult,
        *,
        found: Found | None = None,
        evidence: str | None = None,
        next_check_at_ms: int | None = None,
    ) -> ev.ProbeRecorded:
        probe = self.contract.outcome_probe
        return msgspec.convert(
            {
                **self._envelope(),
                "attempt": self.attempt.number,
                "number": self.operation.checks + 1,
                "read_kind": probe.read_kind if probe else ReadKind.AUTHORITATIVE,
                "result": result,
                "status": found.status if found else None,
                "reference": found.reference if found else None,
                "matched_on": list(found.matched_on) if found else [],
                "evidence": evidence if evidence is not None else (found.receipt if found else None),
                "next_check_at_ms": self.again_at_ms if next_check_at_ms is None else next_check_at_ms,
            },
            ev.ProbeRecorded,
        )

    def confirmed(self, found: Found, asked_at_ms: int) -> ev.OutcomeConfirmed:
        removed = found.status is EffectStatus.REMOVED
        return msgspec.convert(
            {
                **self._envelope(after=1),
                "attempt": None,
                "source": Source.PROBE,
                "reference": found.reference,
                "receipt": found.receipt,
                "matched_on": list(found.matched_on),
                "provider_time_ms": found.provider_time_ms,
                "removed_at_ms": (found.removed_at_ms or asked_at_ms) if removed else None,
            },
            ev.OutcomeConfirmed,
        )

    def rejected(self, found: Found) -> ev.OutcomeRejected:
        return msgspec.convert(
            {
                **self._envelope(after=1),
                "attempt": self.attempt.number,
                "reference": found.reference,
                "source": Source.PROBE,
                "error_code": "failed",
                "evidence": found.receipt,
                "provider_time_ms": found.provider_time_ms,
            },
            ev.OutcomeRejected,
        )

    def absence(self, asked_at_ms: int) -> ev.AbsenceEstablished:
        return msgspec.convert(
            {
                **self._envelope(after=1),
                "attempt": self.attempt.number,
                "probe_number": self.operation.checks + 1,
                "last_attempt_ended_at_ms": last_attempt_ended_ms(self.attempt),
                "safe_window_ms": self.contract.quiet_after_ms,
                "read_kind": ReadKind.AUTHORITATIVE,
            },
            ev.AbsenceEstablished,
        )

    def escalated(self, reason: EscalationReason, *, after: int = 0) -> ev.OperationEscalated:
        task = ReviewTask(review_id=0, opened_at_ms=0, reasons=(reason,))
        as_escalated = msgspec.structs.replace(self.operation, state=State.ESCALATED, escalated_for=reason)
        return msgspec.convert(
            {
                **self._envelope(after=after),
                "attempt": self.attempt.number,
                "reason": reason,
                "queue": self.operation.contract.queue if self.operation.contract else "default",
                "choices": list(choices_of(task, as_escalated)),
            },
            ev.OperationEscalated,
        )
