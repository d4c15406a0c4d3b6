"""Settling an operation in doubt: what is to be done about it now, and what follows from what was found. Pure.

The reconciler drives these functions, and so does the runner of cases in simulated time:

* `due_at_ms` and `priority` say when, and what comes first.
* `next_step` says what is due: a look (`Probe`), a second dispatch of the same request (`Replay`), events to append (`Append`),
  or nothing yet (`Wait`). `step_now` says the same without waiting for the time that the operation is due.
* `judge` turns the answer of a look into events; `judge_refusal` does so for a second dispatch that the ledger refused.

Source: docs/semantics.md §7.
"""

import msgspec

from landed.core import events as ev
from landed.core.due import (
    Priority,
    due_at_ms,
    gives_up_at_ms,
    priority,
    replay_at_ms,
    replay_barred,
    settles_at_ms,
    window_end_ms,
)
from landed.core.guards import replay_refusal
from landed.core.looks import judge
from landed.core.probe_answers import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.reconciler_events import RECONCILER, Saying
from landed.core.state import Operation
from landed.core.vocabulary import UNWINDING_OR_AFTER, EscalationReason, ForwardOutcome, GroupState, OnAbsent, Refusal, State

__all__ = [
    "RECONCILER",
    "Absent",
    "Ambiguous",
    "Append",
    "Found",
    "Priority",
    "Probe",
    "ProbeAnswer",
    "ProbeFailed",
    "Replay",
    "Step",
    "Wait",
    "due_at_ms",
    "gives_up_at_ms",
    "judge",
    "judge_refusal",
    "next_step",
    "priority",
    "replay_at_ms",
    "settles_at_ms",
    "step_now",
    "window_end_ms",
]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the provider is due: the *number*-th since the last grant."""

    attempt: int
    number: int


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The same request is to be claimed and sent again, under the same operation, with `replay: true` and this reason."""

    reason: str
    """`absent`: it is proven that nothing happened. `safe_replay`, `dedupe_supported`: in doubt, and sending it again is safe."""


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """These events are to be appended, in this order."""

    events: tuple[ev.Event, ...]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is to be done before *until_ms*; None: nothing by itself."""

    until_ms: int | None


Step = Probe | Replay | Append | Wait


def next_step(
    operation: Operation,
    *,
    tenant_id: str,
    route: str,
    now_ms: int,
    can_probe: bool,
    cannot_replay: str | None = "not_registered",
    group_state: GroupState = GroupState.NONE,
) -> Step:
    """What to do about *operation* at *now_ms*.

    Args:
        can_probe: whether the declared probe is registered here; without one the operation goes to a person.
        cannot_replay: why this process cannot send the request again (a word); None: it can.
        group_state: of its group; forward operations of one that unwinds are not sent again.
    """
    due = due_at_ms(operation)
    if due is None or now_ms < due:
        return Wait(until_ms=due)
    return step_now(
        operation,
        tenant_id=tenant_id,
        route=route,
        now_ms=now_ms,
        can_probe=can_probe,
        cannot_replay=cannot_replay,
        group_state=group_state,
    )


def step_now(
    operation: Operation,
    *,
    tenant_id: str,
    route: str,
    now_ms: int,
    can_probe: bool,
    cannot_replay: str | None = "not_registered",
    group_state: GroupState = GroupState.NONE,
) -> Step:
    """As `next_step`, also before the operation is due: windows, leases and bounds hold all the same."""
    last = operation.last
    if last is None or due_at_ms(operation) is None:
        return Wait(until_ms=None)
    said = Saying(tenant_id, route, operation)
    if operation.state is State.DISPATCHED:
        if now_ms <= last.lease_end_ms:
            return Wait(until_ms=last.lease_end_ms + 1)
        return Append(events=(said.lease_expired(last),))
    unwinding = group_state in UNWINDING_OR_AFTER
    barred = "group_unwinding" if unwinding and not operation.is_inverse else cannot_replay
    if operation.state is State.NOT_FOUND:
        return _after_absence(said, now_ms, barred, unwinding=unwinding)
    return _in_doubt(said, now_ms, barred, can_probe=can_probe, unwinding=unwinding)


def _after_absence(said: Saying, now_ms: int, barred: str | None, *, unwinding: bool) -> Step:
    operation, contract = said.operation, said.contract
    if unwinding and (barred is not None or contract.on_absent is not OnAbsent.RETRY):
        # A forward step of a group that is undone is not wanted any more; an inverse is the compensator's.
        return Wait(until_ms=None)
    if contract.on_absent is not OnAbsent.RETRY:
        return Append(events=(said.escalated(EscalationReason.ABSENT, why="the contract leaves it to a person"),))
    why = replay_barred(operation) or barred
    if why is None and now_ms >= (gives_up_at_ms(operation) or 0):
        why = "deadline"
    if why is not None:
        told = said.escalated(EscalationReason.ABSENT, why="it cannot be sent again by itself", replay=why)
        return Append(events=(told,))
    return Replay(reason="absent")


def _in_doubt(said: Saying, now_ms: int, barred: str | None, *, can_probe: bool, unwinding: bool) -> Step:
    operation, contract = said.operation, said.operation.contract
    if contract is None:
        return Append(events=(said.escalated(EscalationReason.NO_PROBE, why="its contract cannot be read"),))
    if now_ms >= (gives_up_at_ms(operation) or 0):
        return Append(events=(said.escalated(EscalationReason.DEADLINE, why="the time for settling it is over"),))
    looks = contract.outcome_probe is not None and can_probe
    if looks and operation.checks < contract.max_checks:
        return Probe(attempt=said.attempt.number, number=operation.checks + 1)
    again_ms = replay_at_ms(operation)
    if barred is None and again_ms is not None:
        # The key may have expired since the window ended: then there is nothing left to do.
        refusal = replay_refusal(operation, now_ms=max(now_ms, again_ms), lease_ms=round(contract.lease * 1000))
        if refusal is None:
            return Replay(reason=contract.action_class) if now_ms >= again_ms else Wait(until_ms=again_ms)
        barred = refusal
    if unwinding and not operation.is_inverse and ForwardOutcome.UNKNOWN in contract.safe_when():
        # Its inverse may be performed whatever became of it (§8); a task for a person would stop that, and comes when time is up.
        return Wait(until_ms=gives_up_at_ms(operation))
    reason = EscalationReason.PROBES_EXHAUSTED if looks else EscalationReason.NO_PROBE
    why = _why_not(operation) or barred or "not_permitted"
    unlooked = "nothing looks it up" if contract.outcome_probe is None else "its probe is not registered"
    told = "no look settled it" if looks else unlooked
    return Append(events=(said.escalated(reason, why=told, replay=why),))


def _why_not(operation: Operation) -> str | None:
    """Why *operation* may never be sent again, in one word; None where it may, at its time."""
    contract, end_ms = operation.contract, window_end_ms(operation)
    if replay_at_ms(operation) is not None or contract is None or end_ms is None or operation.last is None:
        return None
    at_ms = max(operation.last.lease_end_ms, end_ms)
    return replay_barred(operation) or replay_refusal(operation, now_ms=at_ms, lease_ms=round(contract.lease * 1000))


_WAITS = frozenset(
    {
        Refusal.CLAIM_EXPIRED,
        Refusal.IN_FLIGHT,
        Refusal.UNRESOLVED,
        Refusal.FORWARD_IN_FLIGHT,
        Refusal.NOT_DUE,
        Refusal.RESOURCE_BUSY,
        Refusal.SURGE_EXCEEDED,
        Refusal.LEDGER_UNAVAILABLE,
    }
)
"""Refusals that pass: the claim is repeated later, until the operation's time is over."""
_MOVED = frozenset(
    {
        Refusal.ALREADY_CONFIRMED,
        Refusal.ALREADY_REJECTED,
        Refusal.NEEDS_HUMAN,
        Refusal.CANCELLED,
        Refusal.COMPENSATED,
        Refusal.REPLACED,
        Refusal.ATTEMPTS_EXHAUSTED,
        Refusal.RETRY_OFFERED,
        Refusal.OPERATION_FROZEN,
        Refusal.GROUP_UNWINDING,
    }
)
"""Refusals that tell that the operation is no longer what it was: the view will show it."""


def judge_refusal(operation: Operation, refusal: str, *, tenant_id: str, route: str) -> tuple[ev.Event, ...]:
    """What follows when the claim of a `Replay` was refused: events for a person, or nothing, and it is looked at again later.

    Args:
        operation: as it was when the `Replay` was due.
        refusal: reason of the verdict; another word where no claim was made for good.
    """
    if refusal in _WAITS or refusal in _MOVED:
        return ()
    said = Saying(tenant_id, route, operation)
    why = "the ledger refused to send it again"
    if operation.state is State.NOT_FOUND:
        return (said.escalated(EscalationReason.ABSENT, why=why, replay=refusal),)
    reason = EscalationReason.PROBES_EXHAUSTED if operation.checks else EscalationReason.NO_PROBE
    return (said.escalated(reason, why=why, replay=refusal),)
