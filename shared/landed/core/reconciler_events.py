"""The events that a reconciler appends about one operation. Pure; without `event_id`, which follows from the content.

Two reconcilers that find the same say the same, so that it is one event: nothing here depends on who says it.
"""

from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.contract import Contract, milliseconds
from landed.core.due import backed_off_s, due_at_ms
from landed.core.probe_answers import Found
from landed.core.recovery import last_attempt_ended_ms
from landed.core.state import Attempt, Operation, ReviewTask, choices_of
from landed.core.vocabulary import EffectStatus, EscalationReason, ProbeResult, ReadKind, Source, State

RECONCILER: Final = "reconciler"
"""Actor of what is found out: reconcilers are one actor, so two of them that find the same append one event."""


class Saying:
    """Makes the reconciler's events about one operation, without `event_id`."""

    def __init__(self, tenant_id: str, route: str, operation: Operation) -> None:
        if operation.last is None:
            raise ValueError(f"operation {operation.operation_id!r} was never dispatched")
        self.operation = operation
        self.attempt: Attempt = operation.last
        self._who: dict[str, Any] = {
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
        return (due_at_ms(self.operation) or 0) + milliseconds(backed_off_s(self.contract, self.operation.checks + 1))

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
        return ev.ProbeRecorded(
            **self._who,
            seen_version=self.operation.version,
            attempt=self.attempt.number,
            number=self.operation.checks + 1,
            read_kind=probe.read_kind if probe else ReadKind.AUTHORITATIVE,
            result=result,
            status=found.status if found else None,
            reference=found.reference if found else None,
            matched_on=list(found.matched_on) if found else [],
            evidence=evidence if evidence is not None else (found.receipt if found else None),
            next_check_at_ms=self.again_at_ms if next_check_at_ms is None else next_check_at_ms,
        )

    def confirmed(self, found: Found, asked_at_ms: int) -> ev.OutcomeConfirmed:
        removed = found.status is EffectStatus.REMOVED
        return ev.OutcomeConfirmed(
            **self._who,
            seen_version=self.operation.version + 1,
            attempt=None,
            source=Source.PROBE,
            reference=found.reference,
            receipt=found.receipt,
            matched_on=list(found.matched_on),
            provider_time_ms=found.provider_time_ms,
            removed_at_ms=(found.removed_at_ms or asked_at_ms) if removed else None,
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

    def escalated(
        self, reason: EscalationReason, *, why: str, seen: ProbeResult | None = None, after: int = 0, **facts: str | int
    ) -> ev.OperationEscalated:
        """Hands the operation over, with what was tried and seen: only words, numbers and references that are on record.

        Args:
            why: what automation stopped for, in words of this code.
            seen: result of a look that is said beside it, and is not folded yet.
            after: events that are said before this one.
        """
        task = ReviewTask(review_id=0, opened_at_ms=0, reasons=(reason,))
        as_escalated = msgspec.structs.replace(self.operation, state=State.ESCALATED, escalated_for=reason)
        return msgspec.convert(
            {
                **self._envelope(after=after),
                "attempt": self.attempt.number,
                "reason": reason,
                "queue": self.operation.contract.queue if self.operation.contract else "default",
                "choices": list(choices_of(task, as_escalated)),
                "evidence": evidence(why=why, **self._facts(seen), **facts),
            },
            ev.OperationEscalated,
        )

    def _facts(self, seen: ProbeResult | None) -> dict[str, str | int]:
        operation, contract = self.operation, self.operation.contract
        facts: dict[str, str | int] = {
            "attempts": operation.attempts_counted,
            "last_attempt_ended_at_ms": last_attempt_ended_ms(self.attempt),
            "looks": operation.checks + (seen is not None),
        }
        if seen is not None:
            facts["last_look"] = seen
        if contract is not None:
            facts["action_class"] = contract.action_class
            facts["safe_window_ms"] = contract.quiet_after_ms
        if operation.references:
            facts["reference"] = operation.references[-1].value
        return facts


def evidence(**fields: str | int) -> str:
    """JSON of *fields*, for the log."""
    return msgspec.json.encode(fields).decode()
