"""What a reconciler decided, made again: leases that ran out, looks, what they prove, requests sent again, hand-overs. Pure.

What its process could do (a probe, a tool to send again) is taken from what it did. A look that was recorded is judged again; one
that was not made has no answer.

Source: docs/semantics.md §7.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

import msgspec

from landed.core import events as ev
from landed.core.probe_answers import Absent, Ambiguous, Found, ProbeAnswer, ProbeFailed
from landed.core.projection import claim_in
from landed.core.reconciliation import Append, Probe, Replay, Step, Wait, due_at_ms, judge, step_now
from landed.core.state import Operation
from landed.core.vocabulary import EffectStatus, GroupState, ProbeResult
from landed_services.replay.compared import Found as Difference
from landed_services.replay.compared import Said, compared
from landed_services.replay.moments import Moments, State

_UNREGISTERED: Final = "not_registered"


class Look(NamedTuple):
    """A look that stands on the log, and what the operation was before it."""

    event: ev.ProbeRecorded
    before: State
    from_ms: int
    """When it may have been sent: from here …"""
    to_ms: int
    """… to here."""


class _Try(NamedTuple):
    state: State
    now_ms: int
    can_probe: bool
    cannot_replay: str | None


def said_of(event: ev.Event) -> Said:
    """What a reconciler did, in words."""
    match event:
        case ev.LeaseExpired():
            return Said(word="lease over")
        case ev.ProbeRecorded():
            return Said(word="looked up")
        case ev.AbsenceEstablished():
            return Said(word="found absent")
        case ev.OutcomeConfirmed():
            return Said(word="confirmed")
        case ev.OutcomeRejected():
            return Said(word="rejected")
        case ev.OperationEscalated():
            barred = _evidence(event.evidence).get("replay")
            return Said(word="escalated", reason=f"{event.reason}, not sent again: {barred}" if barred else str(event.reason))
        case ev.OperationPrepared(claim=ev.Claim()) | ev.DispatchRequested():
            return Said(word="retried", reason=(event.claim.replay_reason or "") if event.claim else "")
        case _:
            return Said(word=ev.TYPE_OF[type(event)])


def step_said(step: Step) -> Said:
    match step:
        case Append():
            return said_of(step.events[-1])
        case Probe():
            return Said(word="looked up")
        case Replay():
            return Said(word="retried", reason=step.reason)
        case Wait():
            return Said(word="waiting")


def stepped(moments: Moments, said: ev.Entry, *, given: bool) -> Difference | None:
    """A step of a reconciler beside what is to be done from the state that it had seen; None also where that is kept no more."""
    event = said.event
    name = event.operation_id or ""

    def of(one: _Try, *, new: bool) -> Said:
        route = one.state.would if new else one.state.was
        operation = route.operation(name)
        step = step_now(
            operation,
            tenant_id=event.tenant_id,
            route=event.route,
            now_ms=one.now_ms,
            can_probe=one.can_probe,
            cannot_replay=one.cannot_replay,
            group_state=route.group_state,
        )
        return step_said(step)

    variants = list(_variants(moments, said, name))
    if not variants:
        return None
    new: Callable[[_Try], Said] | None = (lambda one: of(one, new=True)) if given else None
    return compared(said_of(event), variants, lambda one: of(one, new=False), new)


def _variants(moments: Moments, said: ev.Entry, name: str) -> Iterator[_Try]:
    event = said.event
    barred = (None, *_refusals(event), _UNREGISTERED)
    # A claim to send again comes through the protocol of callers, which does not say what was seen.
    claimed = claim_in(event) is not None
    states = (
        moments.seen_by(name, moments.now.was.operation(name).version)
        if claimed
        else moments.of_version(name, event.seen_version)
    )
    for state in states:
        operation = state.was.operation(name)
        due = due_at_ms(operation)
        clocks = [said.at_ms] if due is None else [said.at_ms, due]
        for now_ms, can_probe, cannot in product(clocks, (True, False), dict.fromkeys(barred)):
            yield _Try(state, now_ms, can_probe, cannot)


def _refusals(event: ev.Event) -> tuple[str, ...]:
    """Why it was not sent again, as the hand-over says: its process could not, or the ledger refused the claim."""
    found = _evidence(event.evidence).get("replay") if isinstance(event, ev.OperationEscalated) else None
    return (found,) if isinstance(found, str) else ()


def _evidence(text: str | None) -> dict[str, object]:
    try:
        found = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


# ---- what a look proves ---------------------------------------------------------------------------------------------------


def follows_a_look(event: ev.Event, look: Look | None) -> bool:
    """Whether *event* is what a reconciler said beside *look*."""
    if look is None or event.seen_version != look.event.seen_version + 1:
        return False
    if isinstance(event, ev.OperationEscalated):
        return "last_look" in _evidence(event.evidence)
    return isinstance(event, ev.AbsenceEstablished | ev.OutcomeConfirmed | ev.OutcomeRejected)


def looked(moments: Moments, said: ev.Entry) -> Look | None:
    """The look in *said*, with the state before it."""
    event = said.event
    assert isinstance(event, ev.ProbeRecorded)
    state = next(moments.of_version(event.operation_id or "", event.seen_version), None)
    if state is None:
        return None
    due = due_at_ms(state.was.operation(event.operation_id or ""))
    from_ms = said.at_ms if due is None else min(due, said.at_ms)
    return Look(event, state, from_ms, said.at_ms)


def concluded(look: Look, said: ev.Entry) -> Difference:
    """What was said beside a look beside what the look proves."""
    return compared(said_of(said.event), product((look.to_ms, look.from_ms), (True, False)), lambda one: proves(look, *one), None)


def proves(look: Look, asked_at_ms: int, clock_known: bool = True, *, new: bool = False) -> Said:
    """What *look*, sent at that time, proves under the recorded contract, or under the one that is given."""
    events = _judged(look, asked_at_ms, clock_known, new=new)
    return Said(word="looked up again later") if isinstance(events[-1], ev.ProbeRecorded) else said_of(events[-1])


def sent_at_ms(look: Look) -> tuple[int, ...]:
    """Bounds of when *look* was sent, of those that it says itself: a look that settled it names the next one by no clock."""
    settled, open_ = [], []
    for asked_at_ms in dict.fromkeys((look.to_ms, look.from_ms)):
        events = _judged(look, asked_at_ms, True, new=False)
        first = events[0]
        if isinstance(events[-1], ev.ProbeRecorded):
            open_.append(asked_at_ms)
        elif isinstance(first, ev.ProbeRecorded) and first.next_check_at_ms == look.event.next_check_at_ms:
            settled.append(asked_at_ms)
    return tuple(settled or open_) or (look.to_ms,)


def next_look_shift_ms(look: Look) -> int:
    """How much later the look after this one would be under the contract that is given."""
    old, new = (_judged(look, look.to_ms, True, new=one)[0] for one in (False, True))
    if not isinstance(old, ev.ProbeRecorded) or not isinstance(new, ev.ProbeRecorded):
        return 0
    return (new.next_check_at_ms or 0) - (old.next_check_at_ms or 0)


def _judged(look: Look, asked_at_ms: int, clock_known: bool, *, new: bool) -> tuple[ev.Event, ...]:
    event, route = look.event, look.before.would if new else look.before.was
    operation = route.operation(event.operation_id or "")
    if operation.last is None or operation.contract is None:
        return (event,)
    return judge(
        operation,
        _answer(event),
        tenant_id=event.tenant_id,
        route=event.route,
        asked_at_ms=asked_at_ms,
        jitter=0.0,
        clock_known=clock_known,
    )


def _answer(event: ev.ProbeRecorded) -> ProbeAnswer:
    told = _evidence(event.evidence)
    match event.result:
        case ProbeResult.FOUND:
            return Found(
                reference=event.reference,
                receipt=event.evidence,
                matched_on=tuple(event.matched_on),
                status=event.status or EffectStatus.SETTLED,
            )
        case ProbeResult.ABSENT:
            return Absent()
        case ProbeResult.AMBIGUOUS:
            return Ambiguous(reason=str(told.get("reason", "")))
        case _:
            return ProbeFailed(error=str(told.get("error", "")))


# ---- what would have been due -----------------------------------------------------------------------------------------------


class Due(NamedTuple):
    at_ms: int | None
    said: Said


def due(operation: Operation, *, tenant_id: str, route: str, group_state: GroupState) -> Due:
    """What is due next about *operation*, and when, by a process that can look it up and send it again."""
    at_ms = due_at_ms(operation)
    for _ in range(4):
        if at_ms is None:
            break
        step = step_now(
            operation,
            tenant_id=tenant_id,
            route=route,
            now_ms=at_ms,
            can_probe=True,
            cannot_replay=None,
            group_state=group_state,
        )
        if not isinstance(step, Wait):
            return Due(at_ms, step_said(step))
        if step.until_ms is not None and step.until_ms <= at_ms:
            break
        at_ms = step.until_ms
    return Due(None, Said(word="waiting"))
