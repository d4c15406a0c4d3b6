"""The verdict: delivery of a decision to the SDK, as the fold gave it after the decision was read back from the log."""

from typing import Final

import msgspec
from msgspec.structs import replace

from landed.core.decide import Refused
from landed.core.events import Claim, DispatchGranted, DispatchRefused, Entry
from landed.core.inverse import Gone, gone_answers
from landed.core.state import Operation, Route
from landed.core.vocabulary import Refusal, State

_TRIED: Final = frozenset({State.UNKNOWN, State.RECONCILING, State.NOT_FOUND})
LET_THROUGH: Final = 0
"""No attempt: what such a call brings is evidence about the operation, and answers for no attempt (§10, observe mode)."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to one claim."""

    tenant_id: str
    operation_id: str
    claim_id: str
    reply_to: str
    state: State
    version: int
    """Accepted events of the operation at this verdict: the `seen_version` of what the caller appends next."""
    attempt: int | None = None
    """Number of the granted attempt, `LET_THROUGH` where observe mode lets the caller go on without one; None when refused."""
    lease_ms: int | None = None
    replay: bool = False
    own_try: bool = False
    """Before this grant a call was made of which nobody knew, or only a look told, what became of it."""
    gone: Gone | None = None
    """Of an inverse: answers that say that the effect is gone already."""
    observe: str | None = None
    reason: Refusal | None = None
    detail: dict[str, str] = {}
    at_ms: int
    """When the decision was appended."""

    @property
    def granted(self) -> bool:
        return self.attempt is not None


def verdict_of(
    operation: Operation, decision: Entry, *, claim: Claim, accepted: bool, route: Route | None = None
) -> Verdict | None:
    """Verdict for the *decision* event read back, given the state after it.

    Args:
        route: of *operation*, where it may be an inverse.

    Returns:
        None when *decision* is a grant that the fold refused: the caller is answered by what the state now says
        (`decide` again), not by this decision.
    """
    event = decision.event
    verdict = Verdict(
        tenant_id=event.tenant_id,
        operation_id=operation.operation_id,
        claim_id=claim.claim_id,
        reply_to=claim.reply_to,
        state=operation.state,
        version=operation.version,
        at_ms=decision.at_ms,
    )
    match event:
        case DispatchGranted() if accepted:
            return replace(
                verdict,
                attempt=event.attempt,
                lease_ms=event.lease_ms,
                replay=event.replay,
                own_try=operation.last is not None and operation.last.state_before in _TRIED,
                observe=event.observe,
                gone=None if route is None or not operation.is_inverse else gone_answers(route, operation),
            )
        case DispatchRefused(observe=True):
            return replace(verdict, attempt=LET_THROUGH, observe=event.reason, detail=event.detail)
        case DispatchRefused():
            return replace(verdict, reason=event.reason, detail=event.detail)
        case _:
            return None


def verdict_from_state(operation: Operation, refused: Refused, *, tenant_id: str, claim: Claim, at_ms: int) -> Verdict:
    """Verdict for a claim whose grant the fold refused: what the state now says (§5)."""
    return Verdict(
        tenant_id=tenant_id,
        operation_id=operation.operation_id,
        claim_id=claim.claim_id,
        reply_to=claim.reply_to,
        state=operation.state,
        version=operation.version,
        reason=refused.reason,
        detail=refused.detail,
        at_ms=at_ms,
    )


def approval_news(operation: Operation, decided: Entry, *, claim_id: str, reply_to: str) -> Verdict:
    """What a caller hears that waits for an approval: a person decided, claim anew. It is no answer to the claim."""
    return Verdict(
        tenant_id=decided.event.tenant_id,
        operation_id=operation.operation_id,
        claim_id=claim_id,
        reply_to=reply_to,
        state=operation.state,
        version=operation.version,
        reason=Refusal.APPROVAL_REQUIRED,
        at_ms=decided.at_ms,
    )
