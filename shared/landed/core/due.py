"""When something is to be done about an operation by itself, how long it is tried, and what comes first. Pure.

All of it follows from the operation and its contract, so a timer is nothing but a column of the view: it survives every restart.
Times are milliseconds since the epoch, UTC.

Source: docs/semantics.md §7.
"""

from typing import Final, NamedTuple

from landed.core.contract import Contract, milliseconds
from landed.core.guards import replay_refusal
from landed.core.recovery import last_attempt_ended_ms
from landed.core.state import Operation, has_attempt_left
from landed.core.vocabulary import ActionClass, EffectStatus, OnAbsent, Stakes, State

_DOUBT: Final = (State.UNKNOWN, State.RECONCILING)


def due_at_ms(operation: Operation) -> int | None:
    """When something is to be done about *operation*; None while it waits for nobody, for its caller, or for a person."""
    contract, last = operation.contract, operation.last
    if last is None or operation.frozen_at or operation.final:
        return None
    if operation.state is State.DISPATCHED:
        return last.lease_end_ms + 1
    if contract is None:
        # Without terms there is nothing to look by: a person takes over at once.
        return _doubt_since_ms(operation) if operation.state in _DOUBT else None
    if operation.state in _DOUBT:
        if operation.next_check_at_ms is not None:
            return operation.next_check_at_ms
        first_ms = _doubt_since_ms(operation) + milliseconds(contract.first_check_after)
        again_ms = replay_at_ms(operation) if contract.outcome_probe is None else None
        return first_ms if again_ms is None else max(first_ms, again_ms)
    return _after_absence_ms(operation, contract) if operation.state is State.NOT_FOUND else None


def _doubt_since_ms(operation: Operation) -> int:
    last = operation.last
    return operation.doubt_since_ms or (last_attempt_ended_ms(last) if last else 0)


def _after_absence_ms(operation: Operation, contract: Contract) -> int | None:
    if contract.on_absent is OnAbsent.RETRY and has_attempt_left(operation):
        return window_end_ms(operation)
    # A reviewer who allowed one more attempt has seen the absence already.
    left_to_people = contract.on_absent is OnAbsent.ESCALATE and not operation.attempts_by_review and not operation.is_inverse
    return operation.settled_at_ms or 0 if left_to_people else None


def window_end_ms(operation: Operation) -> int | None:
    """From when absence means something, and a call may be sent again: `safe_window` after the last attempt ended."""
    contract, last = operation.contract, operation.last
    return None if contract is None or last is None else last_attempt_ended_ms(last) + contract.quiet_after_ms


def replay_at_ms(operation: Operation) -> int | None:
    """From when *operation*, in doubt, may be sent again by itself; None where it never may as things stand (§7, Replay)."""
    contract, last, window_ms = operation.contract, operation.last, window_end_ms(operation)
    if contract is None or last is None or window_ms is None or replay_barred(operation) is not None:
        return None
    at_ms = max(last.lease_end_ms, window_ms)
    return at_ms if replay_refusal(operation, now_ms=at_ms, lease_ms=milliseconds(contract.lease)) is None else None


def replay_barred(operation: Operation) -> str | None:
    """Why *operation* is never sent again by itself, whatever its class; None where the class decides."""
    contract, last = operation.contract, operation.last
    if contract is None or last is None:
        return "no_contract"
    if last.observe is not None:
        return "observe"
    if operation.references:
        # It was accepted: the effect exists or is on its way, and a look tells more than a second request.
        return "effect_seen"
    by_a_person = operation.attempts_counted < operation.attempts_by_review
    if contract.action_class is ActionClass.IRREVERSIBLE and not by_a_person:
        return "irreversible"
    return None


def settles_at_ms(operation: Operation) -> int | None:
    """When an effect that was accepted is to be settled (`settles_after`); None where none was, or nothing is declared."""
    contract, last = operation.contract, operation.last
    accepted = EffectStatus.PENDING in (operation.last_probe_status, operation.error_code)
    if contract is None or last is None or contract.settles_after is None or not accepted:
        return None
    return last_attempt_ended_ms(last) + milliseconds(contract.settles_after)


def gives_up_at_ms(operation: Operation) -> int | None:
    """When automation stops trying (`deadline`), and the operation goes to a person; None where it has nothing to try.

    Counted from when the doubt began; for what was accepted from when it was to be settled.
    """
    contract, last = operation.contract, operation.last
    if contract is None or last is None or operation.final:
        return None
    match operation.state:
        case State.DISPATCHED:
            since_ms = last.lease_end_ms
        case State.UNKNOWN | State.RECONCILING:
            since_ms = max(_doubt_since_ms(operation), settles_at_ms(operation) or 0)
        case State.NOT_FOUND:
            since_ms = last_attempt_ended_ms(last) + contract.quiet_after_ms
        case _:
            return None
    return since_ms + milliseconds(contract.deadline)


def backed_off_s(contract: Contract, looks: int) -> float:
    """Seconds to the next look after *looks* of them: `first_check_after` times `backoff` each time, up to `max_interval`."""
    wait_s = contract.first_check_after
    for _ in range(looks):
        wait_s *= contract.backoff
        if wait_s >= contract.max_interval:
            break
    return min(wait_s, contract.max_interval)


class Priority(NamedTuple):
    """What comes first among operations that are due: compare them as they are, the smaller one first."""

    stakes: int
    """0 for money, rising as less is at stake."""
    gives_up_at_ms: int
    """Least time left first."""


_STAKES: Final = {stakes: rank for rank, stakes in enumerate(Stakes)}


def priority(operation: Operation) -> Priority | None:
    """Priority of *operation*; None where nothing is due about it, now or later.

    Without a contract that can be read nobody knows what is at stake: it comes first, and goes to a person at once.
    """
    if due_at_ms(operation) is None:
        return None
    contract = operation.contract
    return Priority(0 if contract is None else _STAKES[contract.stakes], gives_up_at_ms(operation) or 0)
