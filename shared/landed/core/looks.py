"""What a look at the provider proves, as the events that say so. Pure.

Source: docs/semantics.md §7.
"""

from landed.core import events as ev
from landed.core.contract import milliseconds
from landed.core.due import backed_off_s, gives_up_at_ms, replay_at_ms, settles_at_ms
from landed.core.probe_answers import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.reconciler_events import Saying, evidence
from landed.core.state import Operation
from landed.core.vocabulary import EffectStatus, EscalationReason, ProbeResult, ReadKind
from landed.core.writing import probed


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
    said = Saying(tenant_id, route, operation)
    match answer:
        case Found():
            return _found(said, answer, asked_at_ms, jitter)
        case Absent():
            return _absent(said, asked_at_ms, jitter, clock_known=clock_known)
        case Ambiguous():
            seen = said.probed(ProbeResult.AMBIGUOUS, evidence=evidence(reason=answer.reason))
            return seen, _conflict(said, ProbeResult.AMBIGUOUS, answer.reason)
        case ProbeFailed():
            return _go_on(said, ProbeResult.ERROR, asked_at_ms, jitter, note=evidence(error=answer.error))


def _conflict(said: Saying, seen: ProbeResult, why: str) -> ev.OperationEscalated:
    return said.escalated(EscalationReason.CONFLICT, why=why, seen=seen, after=1)


def _found(said: Saying, found: Found, asked_at_ms: int, jitter: float) -> tuple[ev.Event, ...]:
    known = {reference.value for reference in said.operation.references}
    enough = set(said.contract.minimum_evidence) <= set(found.matched_on)
    contradicts = bool(known) and found.reference is not None and found.reference not in known
    if not enough or contradicts:
        why = "below the minimum evidence" if not enough else "another reference than the receipt"
        seen = said.probed(ProbeResult.FOUND, found=found, evidence=evidence(conflict=why))
        return seen, _conflict(said, ProbeResult.FOUND, why)
    match found.status:
        case EffectStatus.PENDING:
            return _go_on(said, ProbeResult.FOUND, asked_at_ms, jitter, found=found)
        case EffectStatus.FAILED:
            return said.probed(ProbeResult.FOUND, found=found), said.rejected(found)
        case EffectStatus.SETTLED | EffectStatus.REMOVED:
            return said.probed(ProbeResult.FOUND, found=found), said.confirmed(found, asked_at_ms)


def _absent(said: Saying, asked_at_ms: int, jitter: float, *, clock_known: bool) -> tuple[ev.Event, ...]:
    probe = said.contract.outcome_probe
    authoritative = probe is not None and probe.read_kind is ReadKind.AUTHORITATIVE
    if not authoritative or not clock_known or asked_at_ms < said.window_end_ms:
        return _go_on(said, ProbeResult.ABSENT, asked_at_ms, jitter)
    seen = said.probed(ProbeResult.ABSENT)
    if said.operation.references:
        return seen, _conflict(said, ProbeResult.ABSENT, "a reference was seen, and is not found any more")
    if said.operation.last_probe_status == EffectStatus.PENDING:
        # The provider had accepted it a moment ago: a record that vanishes is no proof that it was never there.
        return seen, _conflict(said, ProbeResult.ABSENT, "it was accepted, and is not found any more")
    return seen, said.absence(asked_at_ms)


def _go_on(
    said: Saying,
    result: ProbeResult,
    asked_at_ms: int,
    jitter: float,
    *,
    found: Found | None = None,
    note: str | None = None,
) -> tuple[ev.Event, ...]:
    """Nothing is settled: look again later, send again where that is allowed, or hand over when the bounds are reached."""
    contract = said.contract
    seen = said.probed(result, found=found, evidence=note, next_check_at_ms=asked_at_ms)
    now = probed(said.operation, seen)
    number = now.checks
    if number >= contract.max_checks:
        again_ms = replay_at_ms(now)
        if again_ms is None:
            seen = said.probed(result, found=found, evidence=note)
            why = "no look settled it, and it is not to be sent again"
            return seen, said.escalated(EscalationReason.PROBES_EXHAUSTED, why=why, seen=result, after=1)
        next_ms = max(again_ms, asked_at_ms)
    else:
        next_ms = asked_at_ms + milliseconds(backed_off_s(contract, number) * (1 + jitter / 10))
        if number == contract.max_checks - 1:
            # The last look must be one that can prove absence.
            next_ms = max(next_ms, said.window_end_ms)
        if number >= (contract.max_checks + 1) // 2:
            # Half of the looks are kept for when an effect that was accepted is to be settled.
            next_ms = max(next_ms, settles_at_ms(now) or 0)
    limit_ms = max(gives_up_at_ms(now) or asked_at_ms, asked_at_ms)
    return (said.probed(result, found=found, evidence=note, next_check_at_ms=min(next_ms, limit_ms)),)
