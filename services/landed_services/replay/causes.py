"""Which event a decision rests on: for each kind of decision the kinds of events that lead to it. Pure.

Source: docs/semantics.md §5 (refusals), §7 (reconciler), §8 (unwinding), §10 (people).
"""

from typing import Final

from landed.core import events as ev
from landed.core.vocabulary import Refusal

OUTCOMES: Final = ("outcome_confirmed", "outcome_rejected", "review_decided")
DOUBTS: Final = ("outcome_unknown", "lease_expired", "probe_recorded")

CAUSES: Final[dict[type[ev.Event], tuple[str, ...]]] = {
    ev.DispatchGranted: ("dispatch_requested", "operation_prepared"),
    ev.DispatchRefused: (),
    ev.LeaseExpired: ("lease_renewed", "dispatch_granted"),
    ev.AbsenceEstablished: ("probe_recorded",),
    ev.OperationEscalated: (*DOUBTS, "effect_reverted", "compensation_authorized", "absence_established", "outcome_rejected"),
    ev.ReviewDecided: ("operation_escalated", "effect_reverted", *OUTCOMES),
    ev.ApprovalDecided: ("approval_requested",),
    ev.OperationCancelled: ("group_unwinding", "operation_prepared"),
    ev.GroupUnwinding: ("unwind_requested",),
    ev.CompensationAuthorized: ("group_unwinding",),
}
"""Events that are decisions, each with what leads to it; the newest that was known counts."""

REFUSED_BY: Final[dict[Refusal, tuple[str, ...]]] = {
    Refusal.REQUEST_MISMATCH: ("operation_prepared",),
    Refusal.NO_CONTRACT: ("operation_prepared",),
    Refusal.IN_FLIGHT: ("lease_renewed", "dispatch_granted"),
    Refusal.UNRESOLVED: DOUBTS,
    Refusal.ALREADY_CONFIRMED: ("outcome_confirmed", "review_decided"),
    Refusal.NEEDS_HUMAN: ("operation_escalated", "effect_reverted"),
    Refusal.CANCELLED: ("operation_cancelled", "review_decided"),
    Refusal.COMPENSATED: ("review_decided", "outcome_confirmed"),
    Refusal.ALREADY_REJECTED: ("outcome_rejected", "review_decided"),
    Refusal.ATTEMPTS_EXHAUSTED: ("absence_established", "outcome_rejected", "dispatch_granted"),
    Refusal.RETRY_OFFERED: ("absence_established",),
    Refusal.GROUP_UNWINDING: ("group_unwinding",),
    Refusal.GROUP_CLOSED: ("group_closed",),
    Refusal.COMPENSATION_DENIED: ("compensation_authorized",),
    Refusal.APPROVAL_REQUIRED: ("approval_requested",),
    Refusal.APPROVAL_EXPIRED: ("approval_decided", "approval_requested"),
}
"""What a refusal rests on where that is an event of the operation or its group. Others rest on the claim itself, on a policy, a
ceiling, a resource, or another operation: their detail says which."""
