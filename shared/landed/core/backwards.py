"""An inverse without a probe of its own is probed by the forward one, read the other way round. Pure.

Still there means that the inverse did not happen; gone means that it did, or that nothing was left to do.

Source: docs/semantics.md §7.
"""

from typing import Final

from msgspec.structs import replace

from landed.core.contract import Contract, contract_json, milliseconds
from landed.core.due import window_end_ms
from landed.core.probe_answers import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.state import Operation
from landed.core.vocabulary import EffectStatus, ReadKind

TOO_EARLY: Final = "too_early"
WEAK_READ: Final = "weak_read"


def forward_contract(inverse: Operation, forward: Operation | None) -> Contract | None:
    """Contract whose probe tells what became of *inverse*; None where it has a probe of its own, or nothing tells."""
    own = inverse.contract
    if forward is None or own is None or own.outcome_probe is not None:
        return None
    contract = forward.contract
    return contract if contract is not None and contract.outcome_probe is not None else None


def looked_up_by(inverse: Operation, forward: Contract) -> Operation:
    """*inverse* as if the probe of *forward* were its own: what is due, and what a look proves, follow as for any other.

    It keeps its own pauses and bounds. The evidence is that of the forward effect; absence of the inverse waits for the lag of
    that read as well.
    """
    own = inverse.contract
    assert own is not None
    assert forward.outcome_probe is not None
    lent = replace(
        own,
        outcome_probe=forward.outcome_probe,
        minimum_evidence=forward.minimum_evidence,
        safe_window=max(own.safe_window, forward.outcome_probe.lag),
    )
    return replace(inverse, contract_text=contract_json(lent))


def read_backwards(answer: ProbeAnswer, forward: Operation, contract: Contract, *, asked_at_ms: int) -> ProbeAnswer:
    """What *answer* about the forward effect says about its inverse.

    Args:
        forward: whose effect was looked up.
        contract: of the forward operation.
        asked_at_ms: when the probe was sent, on the log's clock.

    What does not show clearly that the effect is there, or that it is gone, says nothing about the inverse.
    """
    match answer:
        case Absent():
            return _gone_by_absence(forward, contract, asked_at_ms)
        case Found():
            if not set(contract.minimum_evidence) <= set(answer.matched_on):
                return Ambiguous("what was found is below the minimum evidence for the effect to be undone")
            match answer.status:
                case EffectStatus.SETTLED:
                    return Absent()
                case EffectStatus.REMOVED:
                    return Found(reference=None, receipt=None, matched_on=answer.matched_on, status=EffectStatus.SETTLED)
                case _:
                    return Ambiguous(f"the effect to be undone is {answer.status}")
        case Ambiguous() | ProbeFailed():
            return answer


def _gone_by_absence(forward: Operation, contract: Contract, asked_at_ms: int) -> ProbeAnswer:
    """Not there is gone, where the read is an authoritative one and made when it would show what the forward call did."""
    probe = contract.outcome_probe
    if probe is None or probe.read_kind is not ReadKind.AUTHORITATIVE:
        return ProbeFailed(WEAK_READ)
    confirmed_ms = forward.confirmed_at_ms
    shown_ms = window_end_ms(forward) if confirmed_ms is None else confirmed_ms + milliseconds(probe.lag)
    if shown_ms is not None and asked_at_ms < shown_ms:
        return ProbeFailed(TOO_EARLY)
    return Found(reference=None, receipt=None, matched_on=contract.minimum_evidence, status=EffectStatus.SETTLED)
