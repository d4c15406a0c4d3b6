"""What a refusing verdict means to the caller: what the state already answers becomes that answer, the rest is `Refused`."""

from collections.abc import Mapping
from typing import Final

from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal
from landed.sdk.outcomes import decoded
from landed.sdk.results import Confirmed, Escalated, Refused, Rejected, Result, Unknown

_ABOUT_OTHERS: Final = frozenset({"replaces", "operations"})
"""Detail of `unresolved` about the operation that this one replaces, or about those that stop an inverse: a refusal."""


def result_of(verdict: Verdict) -> Result:
    """The result of a claim that was not granted."""
    detail, operation_id = verdict.detail, verdict.operation_id
    match verdict.reason:
        case Refusal.ALREADY_CONFIRMED:
            return Confirmed(
                operation_id=operation_id,
                receipt=decoded(detail.get("receipt")),
                reference=detail.get("reference"),
                at_ms=_ms(detail, "at_ms") or verdict.at_ms,
                repeated=True,
                removed_at_ms=_ms(detail, "removed_at_ms"),
            )
        case Refusal.ALREADY_REJECTED:
            reason = detail.get("error_code", "rejected")
            return Rejected(operation_id=operation_id, reason=reason, at_ms=_ms(detail, "at_ms"), repeated=True)
        case Refusal.IN_FLIGHT:
            return Unknown(operation_id=operation_id, reason="in_flight", next_check_at_ms=_ms(detail, "lease_end_ms"))
        case Refusal.UNRESOLVED if _ABOUT_OTHERS.isdisjoint(detail):
            # Whatever the state is by now: a doubt may be settled between the decision and its answer, and the tool was called.
            return Unknown(operation_id=operation_id, reason="unresolved", next_check_at_ms=_ms(detail, "next_check_at_ms"))
        case Refusal.NEEDS_HUMAN:
            review = _ms(detail, "review_id")
            reason = detail.get("reasons", "needs_human")
            return Escalated(operation_id=operation_id, reason=reason, review_id=review, since_ms=_ms(detail, "since_ms"))
        case None:
            raise ValueError("a granted verdict is no result")
        case _:
            return Refused(operation_id=operation_id, reason=verdict.reason, detail=detail)


def _ms(detail: Mapping[str, str], name: str) -> int | None:
    text = detail.get(name)
    return int(text) if text is not None and text.isdigit() else None
