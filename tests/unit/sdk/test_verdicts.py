"""Every refusal becomes the result that the caller can act on: what the state answers, or `Refused`."""

import pytest

from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal, State
from landed.sdk.results import Confirmed, Escalated, Refused, Rejected, Result, Unknown
from landed.sdk.verdicts import result_of


def verdict(reason: Refusal, state: State = State.PREPARED, **detail: str) -> Verdict:
    return Verdict(
        tenant_id="acme",
        operation_id="op",
        claim_id="c",
        reply_to="me",
        state=state,
        version=3,
        reason=reason,
        detail=detail,
        at_ms=9,
    )


ANSWERED: dict[Refusal, tuple[Verdict, Result]] = {
    Refusal.ALREADY_CONFIRMED: (
        verdict(
            Refusal.ALREADY_CONFIRMED, State.CONFIRMED, receipt='{"id":"re_1"}', reference="re_1", at_ms="5", removed_at_ms="7"
        ),
        Confirmed(operation_id="op", receipt={"id": "re_1"}, reference="re_1", at_ms=5, repeated=True, removed_at_ms=7),
    ),
    Refusal.ALREADY_REJECTED: (
        verdict(Refusal.ALREADY_REJECTED, State.REJECTED, error_code="card_declined", at_ms="5"),
        Rejected(operation_id="op", reason="card_declined", at_ms=5, repeated=True),
    ),
    Refusal.UNRESOLVED: (
        verdict(Refusal.UNRESOLVED, State.RECONCILING, next_check_at_ms="8"),
        Unknown(operation_id="op", reason="unresolved", next_check_at_ms=8),
    ),
    Refusal.IN_FLIGHT: (
        verdict(Refusal.IN_FLIGHT, State.DISPATCHED, holder="x", lease_end_ms="8"),
        Unknown(operation_id="op", reason="in_flight", next_check_at_ms=8),
    ),
    Refusal.NEEDS_HUMAN: (
        verdict(Refusal.NEEDS_HUMAN, State.ESCALATED, review_id="2", reasons="conflict", since_ms="4"),
        Escalated(operation_id="op", reason="conflict", review_id=2, since_ms=4),
    ),
}


@pytest.mark.parametrize("reason", list(Refusal))
def test_each_refusal_gives_its_result(reason: Refusal) -> None:
    given, expected = ANSWERED.get(
        reason, (verdict(reason, detail="d"), Refused(operation_id="op", reason=reason, detail={"detail": "d"}))
    )
    assert result_of(given) == expected


@pytest.mark.parametrize("detail", [{"replaces": "old"}, {"operations": "a, b"}])
def test_unresolved_about_another_operation_is_a_refusal_since_this_one_is_not_in_doubt(detail: dict[str, str]) -> None:
    found = result_of(verdict(Refusal.UNRESOLVED, State.PREPARED, **detail))
    assert found == Refused(operation_id="op", reason=Refusal.UNRESOLVED, detail=detail)


@pytest.mark.parametrize("state", [State.CONFIRMED, State.NOT_FOUND, State.ESCALATED])
def test_a_doubt_that_is_settled_before_its_answer_comes_is_no_refusal_since_the_tool_was_called(state: State) -> None:
    found = result_of(verdict(Refusal.UNRESOLVED, state, since_ms="4"))
    assert found == Unknown(operation_id="op", reason="unresolved")


def test_unknown_never_allows_a_retry() -> None:
    assert result_of(ANSWERED[Refusal.UNRESOLVED][0]).retry_allowed is False  # type: ignore[union-attr]


def test_a_confirmation_without_a_time_of_its_own_carries_that_of_the_answer() -> None:
    assert result_of(verdict(Refusal.ALREADY_CONFIRMED, State.CONFIRMED)).at_ms == 9  # type: ignore[union-attr]


def test_a_granted_verdict_is_no_result() -> None:
    granted = Verdict(
        tenant_id="acme", operation_id="op", claim_id="c", reply_to="me", state=State.DISPATCHED, version=3, attempt=1, at_ms=9
    )
    with pytest.raises(ValueError, match="granted"):
        result_of(granted)
