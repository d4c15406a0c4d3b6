"""The story of a log: every event with the state after it, every decision with what it had seen, states at any cut. Pure.

Records come in the order of the log within a partition. What is kept is the state of the routes in scope, for each of their
events its place, and the decisions. Where that is more than fits into memory, it lies in files of this process.

Source: docs/semantics.md §2, §3, §5.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.fold import Folded, empty_route, fold, freeze
from landed.core.state import Operation, Route
from landed.core.wording import GROUP_LABELS, label
from landed_services.queries.timeline import evidence_of
from landed_services.reading import Freezing, Item, Refused, Skipped
from landed_services.replay.causes import CAUSES, REFUSED_BY
from landed_services.replay.scope import Cut, RouteKey, Scope
from landed_services.spilling import Spill, Spool

HELD_MAX: Final = 200_000
"""Events whose routes are in memory at once; small ones take 2 KB each."""
_DECISIONS_HELD: Final = 10_000
_AT_ONCE: Final = 500
"""Decisions whose routes are looked up together at the end."""
_OF_GROUP: Final = ""
"""Stands for the group itself among the names of operations, none of which is empty."""


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


class _Step(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An accepted event, and the state right after it."""

    partition: int
    offset: int
    event: str
    state: str

    @property
    def place(self) -> Place:
        return Place(partition=self.partition, offset=self.offset, event=self.event)


class _Followed(msgspec.Struct):
    """A route in scope."""

    route: Route
    steps: dict[str, list[_Step]] = {}
    """Accepted events by operation."""
    at: dict[int, Route] = {}
    """State at each cut, by its number."""

    @property
    def size(self) -> int:
        """Events in it, about."""
        return 1 + self.route.version + sum(one.version for one in self.route.operations.values())


class _Known(NamedTuple):
    """What whoever decided had seen of the operation, and of its group."""

    steps: list[_Step]
    cut: int
    """How many of them."""
    of_group: Sequence[_Step]

    @property
    def seen(self) -> _Step | None:
        return self.steps[self.cut - 1] if self.cut else None


class Story:
    """Folds what is in scope and tells it.

    Args:
        cuts: points at which states can be asked for afterwards.
        held_max: events whose routes are in memory at once.
        told: whether there are lines and decisions; else only states are kept.
    """

    def __init__(self, scope: Scope, cuts: Sequence[Cut] = (), *, held_max: int = HELD_MAX, told: bool = True) -> None:
        self._scope, self._cuts = scope, tuple(cuts)
        self._tells = told
        self._held_max, self._held = held_max, 0
        self._followed: dict[RouteKey, _Followed] = {}
        self._away: Spill[_Followed] | None = None
        """Routes that were let go of."""
        self._decisions: Spool[Told] = Spool(Told, held_max=min(held_max, _DECISIONS_HELD))
        """As far as they can be told before the end of the story."""
        self._last_ms: dict[int, int] = {}
        self.records = self.events = self.not_taken = 0

    def lines(self, items: Iterable[Item]) -> Iterator[Line]:
        """What is shown of *items*, one line a record, as they come."""
        for item in items:
            line = self.take(item)
            if line is not None:
                yield line

    def follow(self, items: Iterable[Item]) -> None:
        """Takes *items* for their states alone."""
        for item in items:
            self._take(item)

    def take(self, item: Item) -> Line | None:
        """What is shown of the next record; None: nothing."""
        line = self._take(item)
        return line if line is not None and self._shown(line) else None

    @property
    def decided(self) -> int:
        """Decisions so far that are shown."""
        return len(self._decisions)

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
        followed = self._followed.get(key) or self._take_up(key)
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

    def _take_up(self, key: RouteKey) -> _Followed:
        """A route as it was left, or a new one."""
        if self._held > self._held_max:
            self._let_go()
        found = None if self._away is None else self._away.get([_file_key(key)]).get(_file_key(key))
        followed = self._followed[key] = _Followed(empty_route(*key)) if found is None else found
        self._held += followed.size
        return followed

    def _let_go(self) -> None:
        """Puts half of the routes away, those first that were taken up first."""
        gone = list(islice(self._followed, (len(self._followed) + 1) // 2))
        if self._away is None:
            self._away = Spill(_Followed)
        self._away.put((_file_key(key), self._followed[key]) for key in gone)
        for key in gone:
            self._held -= self._followed.pop(key).size

    def _folded(self, followed: _Followed, entry: ev.Entry) -> Line | None:
        event, name = entry.event, entry.event.operation_id or _OF_GROUP
        self.events += 1
        folded = fold(followed.route, entry)
        followed.route = folded.route
        if not self._tells:
            self._held += folded.accepted
            return None
        line = _line(entry, folded)
        steps = followed.steps.get(name)
        if steps is None:
            steps = followed.steps[name] = []
        if type(event) in CAUSES and not folded.repeated and self._shown(line):
            of_group = followed.steps.get(_OF_GROUP, ()) if name else ()
            known = _Known(steps, max(0, min(event.seen_version, len(steps))), of_group)
            self._decisions.add(_told(line, event, known))
        if folded.accepted:
            steps.append(_Step(entry.position.partition, entry.position.offset, line.event, line.state or ""))
            self._held += 1
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
        every = iter(self._decisions)
        while some := list(islice(every, _AT_ONCE)):
            routes = self._routes({(one.tenant_id, one.route) for one in some})
            for one in some:
                route = routes[one.tenant_id, one.route]
                operation = None if one.operation_id is None else route.operation(one.operation_id)
                state = route.group_state if operation is None else operation.state
                shown = GROUP_LABELS[route.group_state] if operation is None else label(operation, route.group_state)
                yield replace(one, true_now=str(state), shown_now=shown)

    def _routes(self, keys: Iterable[RouteKey]) -> dict[RouteKey, Route]:
        """Routes of *keys*, all of which were followed, at the end of the story."""
        found = {key: self._followed[key].route for key in keys if key in self._followed}
        if self._away is not None:
            names = {_file_key(key): key for key in keys if key not in found}
            found |= {names[name]: followed.route for name, followed in self._away.get(names).items()}
        return found

    def routes(self, *cuts: int | None) -> Iterator[tuple[Route | None, ...]]:
        """Every route in scope, by tenant and route: its state at each of *cuts*, by their numbers, None where it was not there
        by then; in place of a number None: at the end.
        """
        for followed in self._all():
            yield tuple(followed.route if cut is None else followed.at.get(cut) for cut in cuts)

    def _all(self) -> Iterator[_Followed]:
        if self._away is None:
            for _, followed in sorted(self._followed.items(), key=lambda one: one[0]):
                yield followed
            return
        self._away.put((_file_key(key), followed) for key, followed in self._followed.items())
        self._followed.clear()
        self._held = 0
        for _, followed in self._away.items():
            yield followed

    def operations(self, cut: int | None = None) -> Iterator[tuple[Route, Operation]]:
        """Every operation in scope, with its route, at a cut or at the end."""
        for (route,) in self.routes(cut):
            if route is not None:
                yield from ((route, operation) for operation in self.operations_of(route))

    def operations_of(self, route: Route) -> Iterator[Operation]:
        """Operations of *route* in scope."""
        for name, operation in route.operations.items():
            if self._scope.operation_id in (None, name) and self._scope.tool in (None, operation.tool):
                yield operation


def _file_key(key: RouteKey) -> bytes:
    """Orders as the pair does: neither holds a NUL."""
    return f"{key[0]}\0{key[1]}".encode()


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


def _told(line: Line, event: ev.Event, known: _Known) -> Told:
    """The decision, but for what is true at the end of the story."""
    seen = known.seen
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
        seen=None if seen is None else seen.place,
        known_then="none" if seen is None else seen.state,
        not_seen=tuple(step.place for step in known.steps[known.cut :]),
        true_now="",
        shown_now="",
        because=_because(line, event, known),
    )


# ---- causes -----------------------------------------------------------------------------------------------------------

_NAMES: Final = {cls: name.replace("_", " ") for cls, name in ev.TYPE_OF.items()}


def _because(line: Line, event: ev.Event, known: _Known) -> str:
    if not line.accepted:
        # The fold judges by all that stands before it, whatever the writer had seen.
        behind = f", see {known.steps[-1].place}" if known.steps else ""
        return f"not accepted by the fold because {line.reason}{behind}"
    if isinstance(event, ev.DispatchGranted):
        text = f"granted for the claim at {event.claim_position.partition}:{event.claim_position.offset}"
        approved = _newest(known, ("approval_decided",)) if event.approval_id is not None else None
        return text if approved is None else f"{text}, see {approved}"
    if isinstance(event, ev.DispatchRefused):
        would = "would have been refused" if event.observe else "refused"
        cause = _newest(known, REFUSED_BY.get(event.reason, ()))
        if cause is not None:
            return f"{would} because {event.reason}, see {cause}"
        facts = ", ".join(f"{name} {value}" for name, value in event.detail.items() if name != "receipt")
        policy = f" under policy {event.policy_version}" if event.policy_version is not None else ""
        return f"{would} because {event.reason}" + (f" ({facts})" if facts else "") + policy
    cause = _newest(known, CAUSES[type(event)])
    return _NAMES[type(event)] + ("" if cause is None else f" after {cause}")


def _newest(known: _Known, names: tuple[str, ...]) -> Place | None:
    """The newest event of those kinds that the decision had seen: of its operation, else of its group."""
    for steps, last in ((known.steps, known.cut), (known.of_group, len(known.of_group))):
        for number in range(last - 1, -1, -1):
            if steps[number].event in names:
                return steps[number].place
    return None
