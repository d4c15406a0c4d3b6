"""The report of observe mode: what the ledger would have refused or said, beside what the providers showed (semantics.md §10).

Two questions, for each tool. *Would its refusals have been right?* A call that was let through where it would have been refused
had a second effect, or none, or nobody knows. *Are its classifications right?* What the caller's SDK said of a call (confirmed,
rejected, unknown) is held against what a probe, a webhook, a sweep, an inverse or a person showed later.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.decide import WOULD_BE_SENT_AGAIN
from landed.core.vocabulary import Choice, Mark, Source
from landed.wire.codec import decode
from landed.wire.errors import DecodeError

EFFECT, NO_EFFECT, OPEN = "effect", "no_effect", "nothing_yet"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an operation, with the mark that it left."""

    event: ev.Event
    mark: str | None = None


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as the report looks at it."""

    operation_id: str
    tool: str
    state: str
    events: tuple[Seen, ...]


class WouldRefuse(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that were let through although they would have been refused for `reason`."""

    tool: str
    reason: str
    calls: int
    had_effect: int
    """Of these the provider showed an effect."""
    second_effects: int
    """And it was a second one for the same operation: the refusal would have prevented it."""
    had_none: int
    nothing_yet: int
    operations: tuple[str, ...]
    """The first few."""


class WouldSendAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that the ledger would have sent again by itself: recorded, and handed to people instead."""

    tool: str
    replays: int
    operations: tuple[str, ...]


class Classified(msgspec.Struct, frozen=True, kw_only=True):
    """How often what the SDK said of a call was followed by what others showed."""

    tool: str
    said: str
    """`confirmed`, `rejected` or `unknown`."""
    shown: str
    """`effect`, `no_effect` or `nothing_yet`: by anybody but the caller itself."""
    calls: int
    contradicts: bool
    """A call said to be confirmed that had no effect, or said to be rejected that had one."""
    operations: tuple[str, ...]


class ObserveReport(msgspec.Struct, frozen=True, kw_only=True):
    operations: int
    would_refuse: tuple[WouldRefuse, ...]
    would_send_again: tuple[WouldSendAgain, ...]
    classified: tuple[Classified, ...]


LISTED = 5


def observed(connection: Any, tenant_id: str, *, tools: Iterable[str] | None = None, since_ms: int = 0) -> list[Observed]:
    """Operations of *tenant_id* that were prepared since *since_ms*, of *tools* only where they are named."""
    names = None if tools is None else [escaped(tool) for tool in tools]
    rows = connection.execute(
        statement("observed_events"), {"tenant_id": escaped(tenant_id), "since_ms": since_ms, "tools": names}
    ).fetchall()
    return [
        Observed(operation_id=unescaped(name) or "", tool=unescaped(tool) or "", state=state, events=tuple(_seen(group)))
        for (_, name, tool, state), group in groupby(rows, key=lambda row: row[:4])
    ]


def _seen(rows: Iterable[Any]) -> Iterator[Seen]:
    for row in rows:
        try:
            yield Seen(event=decode(bytes(row[6])), mark=row[5])
        except DecodeError:
            continue


def report(operations: Iterable[Observed], *, observing: frozenset[str] = frozenset()) -> ObserveReport:
    """The report about those of *operations* that ran in observe mode. Pure.

    Args:
        observing: tools whose policy says observe now: their calls count also where nothing would have been refused.
    """
    counted = [
        one
        for one in operations
        if one.tool in observing or any(_reason(seen.event) or _sent_again(seen.event) for seen in one.events)
    ]
    refusals: dict[tuple[str, str], Counter[str]] = {}
    said: dict[tuple[str, str, str], int] = Counter()
    again: dict[str, int] = Counter()
    examples: dict[tuple[str, ...], list[str]] = {}
    for one in counted:
        for reason, outcome, second in _let_through(one):
            key = (one.tool, reason)
            refusals.setdefault(key, Counter()).update({"calls": 1, outcome: 1, "second": int(second)})
            _example(examples, key, one)
        replays = sum(_sent_again(seen.event) for seen in one.events)
        if replays:
            again[one.tool] += replays
            _example(examples, (one.tool,), one)
        for proposed, shown in _classifications(one):
            said[one.tool, proposed, shown] += 1
            _example(examples, (one.tool, proposed, shown), one)
    return ObserveReport(
        operations=len(counted),
        would_refuse=tuple(
            WouldRefuse(
                tool=tool,
                reason=reason,
                calls=counts["calls"],
                had_effect=counts[EFFECT],
                second_effects=counts["second"],
                had_none=counts[NO_EFFECT],
                nothing_yet=counts[OPEN],
                operations=tuple(examples[tool, reason]),
            )
            for (tool, reason), counts in sorted(refusals.items())
        ),
        would_send_again=tuple(
            WouldSendAgain(tool=tool, replays=replays, operations=tuple(examples[tool,]))
            for tool, replays in sorted(again.items())
        ),
        classified=tuple(
            Classified(
                tool=tool,
                said=proposed,
                shown=shown,
                calls=calls,
                contradicts=(proposed, shown) in (("confirmed", NO_EFFECT), ("rejected", EFFECT)),
                operations=tuple(examples[tool, proposed, shown]),
            )
            for (tool, proposed, shown), calls in sorted(said.items())
        ),
    )


def _example(examples: dict[tuple[str, ...], list[str]], key: tuple[str, ...], one: Observed) -> None:
    names = examples.setdefault(key, [])
    if one.operation_id not in names and len(names) < LISTED:
        names.append(one.operation_id)


def _reason(event: ev.Event) -> str | None:
    """The refusal that would have been, of a decision made in observe mode."""
    match event:
        case ev.DispatchGranted():
            return event.observe
        case ev.DispatchRefused(observe=True):
            return event.reason.value
        case _:
            return None


def _sent_again(event: ev.Event) -> bool:
    return isinstance(event, ev.DispatchRefused) and event.detail.get("rule") == WOULD_BE_SENT_AGAIN


def _let_through(one: Observed) -> Iterator[tuple[str, str, bool]]:
    """Reason, what came of it, and whether that was a second effect, for each call that would have been refused."""
    for number, seen in enumerate(one.events):
        reason = _reason(seen.event)
        if reason is None or not isinstance(seen.event, ev.DispatchGranted | ev.DispatchRefused):
            continue
        claim_id, attempt = seen.event.claim_id, getattr(seen.event, "attempt", None)
        outcome, second = OPEN, False
        before = {at.event.reference for at in one.events[:number] if isinstance(at.event, ev.OutcomeConfirmed)}
        for later in one.events[number + 1 :]:
            event = later.event
            mine = getattr(event, "claim_id", None) == claim_id or (
                attempt is not None and getattr(event, "attempt", None) == attempt
            )
            if not mine:
                continue
            if isinstance(event, ev.OutcomeConfirmed):
                # The reference of an effect that was there before is that effect: a provider that honours the key answers so.
                same = event.reference is not None and event.reference in before
                marked = later.mark in (Mark.DUPLICATE_EFFECT, Mark.LATE_EFFECT)
                outcome, second = EFFECT, marked or (bool(before) and not same)
            elif isinstance(event, ev.OutcomeRejected | ev.AbsenceEstablished) and outcome == OPEN:
                outcome = NO_EFFECT
        yield reason, outcome, second


def _classifications(one: Observed) -> Iterator[tuple[str, str]]:
    """What the SDK said of each call, and what others showed of that call after it."""
    for number, seen in enumerate(one.events):
        proposed = _said(seen.event)
        if proposed is None:
            continue
        attempt, shown = getattr(seen.event, "attempt", None), OPEN
        reference = getattr(seen.event, "reference", None)
        for later in one.events[number + 1 :]:
            event = later.event
            if getattr(event, "source", None) is Source.WORKER:
                continue
            about = getattr(event, "attempt", None) in (None, attempt) or getattr(event, "reference", None) == reference
            if about and isinstance(event, ev.OutcomeConfirmed):
                shown = EFFECT
            elif about and isinstance(event, ev.OutcomeRejected | ev.AbsenceEstablished):
                shown = NO_EFFECT
            elif isinstance(event, ev.ReviewDecided):
                shown = _BY_A_PERSON.get(event.choice, shown)
            elif isinstance(event, ev.EffectReverted) and proposed == "confirmed":
                shown = EFFECT
        yield proposed, shown


_BY_A_PERSON = {
    Choice.CONFIRMED: EFFECT,
    Choice.COMPENSATED: EFFECT,
    Choice.KEPT: EFFECT,
    Choice.REJECTED: NO_EFFECT,
    Choice.NOT_FOUND: NO_EFFECT,
}
"""What a reviewer's choice says about the effect."""


def _said(event: ev.Event) -> str | None:
    match event:
        case ev.OutcomeConfirmed(source=Source.WORKER):
            return "confirmed"
        case ev.OutcomeRejected(source=Source.WORKER):
            return "rejected"
        case ev.OutcomeUnknown():
            return "unknown"
        case _:
            return None
