"""The story of a log: every event with the state after it, every decision with what it had seen, states at any cut. Pure.

Records come in the order of the log within a partition. What is kept is the state of the routes in scope, and for each of their
events its place: memory grows with what is in scope, not with the log.

Source: docs/semantics.md §2, §3, §5.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from landed.core import events as ev
from landed.core.fold import Folded, empty_route, fold, freeze
from landed.core.state import Operation, Route
from landed.core.wording import GROUP_LABELS, label
from landed_services.queries.timeline import evidence_of
from landed_services.reading import Freezing, Item, Refused, Skipped
from landed_services.replay.causes import CAUSES, REFUSED_BY
from landed_services.replay.scope import Cut, RouteKey, Scope


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One record as a person reads it."""

    at_ms: int
    """Append time of the log, milliseconds since the epoch, UTC."""
    partition: int
    offset: int
    tenant_id: str
    route: str
    operation_id: str | None
    tool: str | None
    event: str
    """Name of the event; `frozen` or `unreadable` for a record that this release cannot take."""
    actor: str
    evidence: str
    accepted: bool
    reason: str | None = None
    """Why the fold refused it, or the record was not taken."""
    state: str | None = None
    """Of the operation, or of the group where the event names none, after it."""
    label: str | None = None
    """What people were shown from then on."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is pointed at."""

    partition: int
    offset: int
    event: str

    def __str__(self) -> str:
        return f"{self.event} at {self.partition}:{self.offset}"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A decision: what was known then beside what is true now."""

    at_ms: int
    partition: int
    offset: int
    tenant_id: str
    route: str
    operation_id: str | None
    tool: str | None
    decision: str
    by: str
    says: str
    accepted: bool
    policy_version: str | None
    seen_version: int
    """Accepted events of the operation (or group) that whoever decided had seen."""
    seen: Place | None
    """The last of them; None: none at all, or none that is on this log."""
    known_then: str
    """The state that they fold to."""
    not_seen: tuple[Place, ...]
    """Events that stood on the log before the decision and that it had not seen."""
    true_now: str
    """The state at the end of the story."""
    shown_now: str
    because: str


class _Step(msgspec.Struct, frozen=True):
    """An accepted event, and the state right after it."""

    place: Place
    state: str


class _Decision(msgspec.Struct, frozen=True):
    line: Line
    event: ev.Event
    seen: tuple[_Step, ...]
    not_seen: tuple[_Step, ...]
    of_group: tuple[_Step, ...]


class _Followed:
    """A route in scope."""

    def __init__(self, tenant_id: str, route: str) -> None:
        self.route = empty_route(tenant_id, route)
        self.steps: dict[str | None, list[_Step]] = {}
        """Accepted events by operation; under None those of the group."""
        self.at: dict[int, Route] = {}
        """State at each cut, by its number."""


class Story:
    """Folds what is in scope and tells it.

    Args:
        cuts: points at which `states` can be asked for afterwards.
    """

    def __init__(self, scope: Scope, cuts: Sequence[Cut] = ()) -> None:
        self._scope, self._cuts = scope, tuple(cuts)
        self._followed: dict[RouteKey, _Followed] = {}
        self._decisions: list[_Decision] = []
        self._last_ms: dict[int, int] = {}
        self.records = self.events = self.not_taken = 0

    def lines(self, items: Iterable[Item]) -> Iterator[Line]:
        """What is shown of *items*, one line a record, as they come."""
        for item in items:
            line = self._take(item)
            if line is not None and self._shown(line):
                yield line

    def _take(self, item: Item) -> Line | None:
        record, what = item.record, item.what
        self.records += 1
        at_ms = self._at_ms(item)
        if isinstance(what, Skipped) or not self._scope.reads(at_ms, record.partition, record.offset):
            return None
        if isinstance(what, Refused):
            self.not_taken += 1
            return self._unreadable(item, what, at_ms) if self._scope.is_open else None
        event = what.event if isinstance(what, ev.Entry) else what
        key = (event.tenant_id, event.route)
        if not self._scope.admits_route(*key):
            return None
        followed = self._followed.get(key)
        if followed is None:
            followed = self._followed[key] = _Followed(*key)
        line = self._froze(followed, item, what, at_ms) if isinstance(what, Freezing) else self._folded(followed, what)
        for number, cut in enumerate(self._cuts):
            if cut.covers(at_ms, record.partition, record.offset):
                followed.at[number] = followed.route
        return line

    def _at_ms(self, item: Item) -> int:
        """Append time; of a record without one, that of the record before it in its partition."""
        partition = item.record.partition
        own = item.record.timestamp_ms
        if own is not None and own >= 0:
            self._last_ms[partition] = own
        return self._last_ms.get(partition, 0)

    def _folded(self, followed: _Followed, entry: ev.Entry) -> Line:
        event, name = entry.event, entry.event.operation_id
        self.events += 1
        steps = followed.steps.setdefault(name, [])
        folded = fold(followed.route, entry)
        followed.route = folded.route
        line = _line(entry, folded)
        if type(event) in CAUSES and not folded.repeated:
            cut = max(0, min(event.seen_version, len(steps)))
            group = followed.steps.get(None, ()) if name is not None else ()
            self._decisions.append(_Decision(line, event, tuple(steps[:cut]), tuple(steps[cut:]), tuple(group)))
        if folded.accepted:
            place = Place(partition=entry.position.partition, offset=entry.position.offset, event=line.event)
            steps.append(_Step(place, line.state or ""))
        return line

    def _froze(self, followed: _Followed, item: Item, what: Freezing, at_ms: int) -> Line:
        self.not_taken += 1
        position = ev.Position(partition=item.record.partition, offset=item.record.offset)
        followed.route = freeze(followed.route, what.operation_id, position)
        operation = None if what.operation_id is None else followed.route.operation(what.operation_id)
        return Line(
            at_ms=at_ms,
            partition=position.partition,
            offset=position.offset,
            tenant_id=what.tenant_id,
            route=what.route,
            operation_id=what.operation_id,
            tool=None if operation is None else operation.tool,
            event="frozen",
            actor="",
            evidence=f"schema {what.type}" if what.type else "",
            accepted=False,
            reason=what.reason,
            state=None if operation is None else str(operation.state),
            label=None if operation is None else label(operation, followed.route.group_state),
        )

    @staticmethod
    def _unreadable(item: Item, what: Refused, at_ms: int) -> Line:
        return Line(
            at_ms=at_ms,
            partition=item.record.partition,
            offset=item.record.offset,
            tenant_id="",
            route="",
            operation_id=None,
            tool=None,
            event="unreadable",
            actor="",
            evidence=what.field,
            accepted=False,
            reason=what.reason,
        )

    def _shown(self, line: Line | Told) -> bool:
        scope = self._scope
        if scope.operation_id is not None and line.operation_id not in (None, scope.operation_id):
            return False
        if scope.tool is not None and line.tool != scope.tool:
            return False
        return scope.shows(line.at_ms, line.partition, line.offset)

    # ---- after the last record ----------------------------------------------------------------------------------------

    def decisions(self) -> Iterator[Told]:
        """Every decision that is shown, in the order in which they were read: what was known then, what is true now."""
        for one in self._decisions:
            if self._shown(one.line):
                yield self._told(one)

    def _told(self, one: _Decision) -> Told:
        line, event = one.line, one.event
        route = self._followed[line.tenant_id, line.route].route
        operation = None if line.operation_id is None else route.operation(line.operation_id)
        return Told(
            at_ms=line.at_ms,
            partition=line.partition,
            offset=line.offset,
            tenant_id=line.tenant_id,
            route=line.route,
            operation_id=line.operation_id,
            tool=line.tool,
            decision=line.event,
            by=line.actor,
            says=line.evidence,
            accepted=line.accepted,
            policy_version=event.policy_version,
            seen_version=event.seen_version,
            seen=one.seen[-1].place if one.seen else None,
            known_then=one.seen[-1].state if one.seen else "none",
            not_seen=tuple(step.place for step in one.not_seen),
            true_now=str(route.group_state if operation is None else operation.state),
            shown_now=GROUP_LABELS[route.group_state] if operation is None else label(operation, route.group_state),
            because=_because(one),
        )

    def states(self, cut: int | None = None) -> dict[RouteKey, Route]:
        """State of every route in scope at the cut of that number, where it was there by then; None: at the end."""
        if cut is None:
            return {key: followed.route for key, followed in self._followed.items()}
        return {key: followed.at[cut] for key, followed in self._followed.items() if cut in followed.at}

    def operations(self, cut: int | None = None) -> Iterator[tuple[Route, Operation]]:
        """Every operation in scope, with its route, at a cut or at the end."""
        for _, route in sorted(self.states(cut).items()):
            for name, operation in route.operations.items():
                if self._scope.operation_id in (None, name) and self._scope.tool in (None, operation.tool):
                    yield route, operation


def _line(entry: ev.Entry, folded: Folded) -> Line:
    event, route = entry.event, folded.route
    operation = None if event.operation_id is None else route.operation(event.operation_id)
    return Line(
        at_ms=entry.at_ms,
        partition=entry.position.partition,
        offset=entry.position.offset,
        tenant_id=event.tenant_id,
        route=event.route,
        operation_id=event.operation_id,
        tool=None if operation is None else operation.tool,
        event=ev.TYPE_OF[type(event)],
        actor=event.actor,
        evidence=evidence_of(event),
        accepted=folded.accepted,
        reason=None if folded.accepted else "repeated" if folded.repeated else folded.reason,
        state=str(route.group_state if operation is None else operation.state),
        label=GROUP_LABELS[route.group_state] if operation is None else label(operation, route.group_state),
    )


# ---- causes -----------------------------------------------------------------------------------------------------------

_NAMES: Final = {cls: name.replace("_", " ") for cls, name in ev.TYPE_OF.items()}


def _because(one: _Decision) -> str:
    event = one.event
    if not one.line.accepted:
        # The fold judges by all that stands before it, whatever the writer had seen.
        steps = (*one.seen, *one.not_seen)
        behind = f", see {steps[-1].place}" if steps else ""
        return f"not accepted by the fold because {one.line.reason}{behind}"
    if isinstance(event, ev.DispatchGranted):
        text = f"granted for the claim at {event.claim_position.partition}:{event.claim_position.offset}"
        approved = _newest(one, ("approval_decided",)) if event.approval_id is not None else None
        return text if approved is None else f"{text}, see {approved}"
    if isinstance(event, ev.DispatchRefused):
        would = "would have been refused" if event.observe else "refused"
        cause = _newest(one, REFUSED_BY.get(event.reason, ()))
        if cause is not None:
            return f"{would} because {event.reason}, see {cause}"
        facts = ", ".join(f"{name} {value}" for name, value in event.detail.items() if name != "receipt")
        policy = f" under policy {event.policy_version}" if event.policy_version is not None else ""
        return f"{would} because {event.reason}" + (f" ({facts})" if facts else "") + policy
    cause = _newest(one, CAUSES[type(event)])
    return _NAMES[type(event)] + ("" if cause is None else f" after {cause}")


def _newest(one: _Decision, names: tuple[str, ...]) -> Place | None:
    """The newest event of those kinds that the decision had seen: of its operation, else of its group."""
    for steps in (one.seen, one.of_group):
        for step in reversed(steps):
            if step.place.event in names:
                return step.place
    return None
