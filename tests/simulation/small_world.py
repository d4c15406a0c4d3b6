"""A small world around the real fold and the real decision, explored in every order of steps.

One operation. Workers claim, call, answer, give up and crash; a projector decides and appends, may die in between, and its ghost
may append later what it had decided; reconcilers look at the provider and append later, or too early; a reviewer decides on what
he saw; an operator unwinds the group; news arrives from the provider's webhook. A clock advances in ticks.

Assumed, as the norm does (§2, §7): a worker counts its lease from the sending of its claim, nothing waits between its last check
and the first byte, and what was sent takes effect within `longest_processing` (here: the safe window) or never.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.history import LEASE_MS, T0, WINDOW_MS, History, claim, entry, event

from landed.core import events as ev
from landed.core.decide import Facts, Granted, Refused, decide
from landed.core.fold import Folded, fold
from landed.core.recovery import last_attempt_ended_ms
from landed.core.state import Operation, Route
from landed.core.vocabulary import UNWINDING_OR_AFTER, Mark, State

TICK_MS = WINDOW_MS + 1
FOREVER_MS = 2**60
OP = "X"


class Worker(NamedTuple):
    phase: str = "idle"
    """idle, asked, holds, calling, answered"""
    claim_id: str = ""
    attempt: int = 0
    until_ms: int = 0
    """End of the lease as the worker counts it: from the sending of its claim."""


class World(NamedTuple):
    route: Route
    now_ms: int
    workers: tuple[Worker, ...]
    asked: tuple[str, ...] = ()
    """Claims on the log that the projector has not decided."""
    outbox: tuple[ev.Event, ...] = ()
    ghost: tuple[ev.Event, ...] = ()
    """Decisions of a projector that died: lost, or appended later."""
    hands: tuple[ev.Event, ...] = ()
    """What reconcilers and reviewers found and have not appended yet."""
    flying: tuple[tuple[int, int], ...] = ()
    """Requests under way: attempt, and instant from which they take no effect any more."""
    landed: tuple[int, ...] = ()
    """Attempts that took effect at the provider."""
    told: tuple[int, ...] = ()
    """Of those, what the webhook delivered."""
    may_dispatch: bool = True
    """A reason for the next dispatch is on the log: none before, absence, rejection, release, or a reviewer's decision."""
    serial: int = 0
    """Steps so far: makes the ids of events unique."""
    claims: int = 3
    crashes: int = 1
    ghosts: int = 1
    looks: int = 2
    people: int = 1
    unwinds: int = 1
    ticks: int = 6


class Violation(AssertionError):
    """An invariant that does not hold, with the steps that lead there."""


class Scope(NamedTuple):
    """Bounds of one exploration."""

    terms: dict[str, Any]
    start: dict[str, Any]
    workers: int = 2
    confused: bool = False
    """A worker may release after it had answered, as a broken shutdown hook would."""
    hasty: bool = True
    """Sweeper and reconciler may have a clock that runs ahead: they append too early."""
    careless: bool = False
    """The projector grants whatever is asked: the fold stands alone."""
    pending: bool = False
    """The provider may accept a request and carry it out whenever it likes."""
    lying: bool = False
    """The provider may say no and do it all the same: what is sure then is only that nothing follows its first evidence."""
    key: bool = False
    """The provider honours the operation key: a second request under it has no second effect."""
    states_max: int = 60_000


def op_of(world: World) -> Operation:
    return world.route.operation(OP)


def quiet_from_ms(op: Operation) -> int:
    last, contract = op.last, op.contract
    assert last is not None
    assert contract is not None
    return last_attempt_ended_ms(last) + contract.quiet_after_ms


class Explorer:
    """Breadth-first over every order of steps; checks each state and each accepted event."""

    def __init__(self, scope: Scope, fold_with: Callable[[Route, ev.Entry], Folded] = fold) -> None:
        self.scope, self.fold = scope, fold_with
        self.transitions = 0
        self.reached: set[State] = set()
        self.dispatches = 0

    # ---- the log ----------------------------------------------------------------------------------------------------

    def append(self, world: World, said: ev.Event) -> tuple[World, bool]:
        """*said* on the log, folded and judged."""
        before = op_of(world)
        result = self.fold(world.route, entry(said, at_ms=world.now_ms))
        after = world._replace(route=result.route)
        if not result.accepted:
            return after, False
        op = op_of(after)
        if isinstance(said, ev.DispatchGranted):
            return self._dispatched(world, after, before, said), True
        if isinstance(said, ev.AbsenceEstablished) and op.state is State.NOT_FOUND:
            _holds(not world.landed and not world.flying, "what is declared absent is absent for good")
        if isinstance(said, ev.LeaseExpired) and op.state is State.UNKNOWN:
            holding = [one for one in world.workers if one.attempt == said.attempt and world.now_ms < one.until_ms]
            _holds(not holding, "a lease is over on the log only when it is over for its holder")
        reason = (
            (op.state in (State.NOT_FOUND, State.REJECTED) and before.state is not op.state)
            or (isinstance(said, ev.DispatchReleased) and len(op.attempts) > 0 and op.attempts[-1].released)
            or isinstance(said, ev.ReviewDecided)
        )
        return (after._replace(may_dispatch=True) if reason else after), True

    def _dispatched(self, world: World, after: World, before: Operation, said: ev.DispatchGranted) -> World:
        self.dispatches += 1
        replay = said.replay and before.state in (State.UNKNOWN, State.RECONCILING)
        _holds(world.may_dispatch or replay, "a second dispatch has a recorded reason")
        numbers = [attempt.number for attempt in op_of(after).attempts]
        _holds(numbers == list(range(1, len(numbers) + 1)), "attempts rise by one: the number fences")
        _holds(all(answer.claim_id != said.claim_id for answer in before.answers), "the first decision of a claim counts")
        _holds(said.claim_id not in before.withdrawn, "a withdrawn claim is never granted")
        _holds(world.route.group_state not in UNWINDING_OR_AFTER, "no forward dispatch after unwinding started")
        op = op_of(after)
        _holds(op.attempts_counted <= op.attempts_allowed, "no more attempts than the contract or a reviewer allows")
        late = before.review is not None and Mark.LATE_EFFECT in before.review.reasons
        _holds(not late, "no dispatch beside evidence of an effect that nobody decided about")
        return after._replace(may_dispatch=False)

    def say(self, world: World, name: str, **body: Any) -> ev.Event:
        return event(name, None if name == "group_unwinding" else OP, event_id=f"{world.serial}-{name}", **body)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._clock(world)
        yield from self._provider(world)
        yield from self._projector(world)
        for number, worker in enumerate(world.workers):
            yield from self._worker(world, number, worker)
        yield from self._reconciler(world)
        yield from self._people(world)

    def _clock(self, world: World) -> Iterator[tuple[str, World]]:
        if world.ticks:
            now_ms = world.now_ms + TICK_MS
            flying = tuple(one for one in world.flying if now_ms < one[1])
            yield "tick", world._replace(now_ms=now_ms, flying=flying, ticks=world.ticks - 1)

    def _provider(self, world: World) -> Iterator[tuple[str, World]]:
        for one in world.flying:
            flying = tuple(other for other in world.flying if other != one)
            again = self.scope.key and world.landed
            landed = world.landed if again else (*world.landed, one[0])
            yield f"effect {one[0]}", world._replace(flying=flying, landed=landed)
        for attempt in world.landed:
            if attempt not in world.told:
                news = self.say(world, "outcome_confirmed", attempt=attempt, source="webhook", reference=f"r{attempt}")
                after, _ = self.append(world._replace(told=(*world.told, attempt)), news)
                yield f"webhook {attempt}", after

    def _projector(self, world: World) -> Iterator[tuple[str, World]]:
        for claim_id in world.asked:
            yield f"decide {claim_id}", self._decided(world, claim_id)
        if world.outbox:
            yield "append", self._delivered(world._replace(outbox=world.outbox[1:]), world.outbox[0])
            if world.ghosts:
                back = tuple(one.claim_id for one in world.outbox if isinstance(one, ev.DispatchGranted | ev.DispatchRefused))
                dead = world._replace(outbox=(), ghost=world.outbox, asked=world.asked + back, ghosts=world.ghosts - 1)
                yield "projector dies", dead
        for one in world.ghost:
            yield "ghost appends", self._delivered(world._replace(ghost=()), one)

    def _decided(self, world: World, claim_id: str) -> World:
        """Against the fold and the decisions still on their way (§5)."""
        seen = world.route
        for pending in world.outbox:
            seen = self.fold(seen, entry(pending, at_ms=world.now_ms)).route
        asked = tuple(one for one in world.asked if one != claim_id)
        op = op_of(world)
        if claim_id in op.withdrawn or any(answer.claim_id == claim_id for answer in op.answers):
            return world._replace(asked=asked)
        replay = op.state in (State.UNKNOWN, State.RECONCILING)
        made = claim(claim_id, replay=replay, answer_by_ms=2**60)
        if self.scope.careless:
            attempts = seen.operation(OP).attempts
            answer: Granted | Refused = Granted(attempt=len(attempts) + 1, lease_ms=LEASE_MS, replay=replay)
        else:
            answer = decide(seen, OP, made, Facts(now_ms=world.now_ms, claimed_at_ms=world.now_ms))
        if isinstance(answer, Granted):
            body = {"claim_id": claim_id, "attempt": answer.attempt, "lease_ms": answer.lease_ms, "replay": answer.replay}
            said = event("dispatch_granted", OP, event_id=f"granted-{claim_id}-{answer.attempt}", **body)
        else:
            said = event("dispatch_refused", OP, event_id=f"refused-{claim_id}", claim_id=claim_id, reason=answer.reason)
        return world._replace(asked=asked, outbox=(*world.outbox, said))

    def _delivered(self, world: World, said: ev.Event) -> World:
        """The verdict is what the fold gave after the decision was read back (§5)."""
        after, accepted = self.append(world, said)
        assert isinstance(said, ev.DispatchGranted | ev.DispatchRefused)
        for number, worker in enumerate(after.workers):
            if worker.phase == "asked" and worker.claim_id == said.claim_id:
                granted = accepted and isinstance(said, ev.DispatchGranted)
                if granted:
                    after = _with(after, number, worker._replace(phase="holds", attempt=getattr(said, "attempt", 0)))
                elif accepted or any(answer.claim_id == said.claim_id for answer in op_of(after).answers):
                    after = _with(after, number, Worker())
        return after

    def _worker(self, world: World, number: int, worker: Worker) -> Iterator[tuple[str, World]]:
        name = f"worker {number}"
        if worker.phase == "idle":
            if world.claims:
                claim_id = f"k{world.claims}"
                fresh = Worker("asked", claim_id, 0, world.now_ms + LEASE_MS)
                asking = _with(world, number, fresh)._replace(claims=world.claims - 1)
                after, _ = self.append(asking, self.say(asking, "dispatch_requested", claim=claim(claim_id)))
                yield f"{name} claims", after._replace(asked=(*after.asked, claim_id))
            return
        if world.crashes:
            yield f"{name} crashes", _with(world, number, Worker())._replace(crashes=world.crashes - 1)
        spoken = {"claim_id": worker.claim_id, "attempt": worker.attempt}
        if worker.phase in ("asked", "holds"):
            after, _ = self.append(world, self.say(world, "dispatch_released", claim_id=worker.claim_id))
            yield f"{name} gives up", _with(after, number, Worker())
        if worker.phase == "holds" and world.now_ms < worker.until_ms:
            flying = (*world.flying, (worker.attempt, world.now_ms + WINDOW_MS))
            yield f"{name} calls", _with(world, number, worker._replace(phase="calling"))._replace(flying=flying)
        if worker.phase == "calling":
            answered = worker._replace(phase="answered") if self.scope.confused else Worker()
            after, _ = self.append(world, self.say(world, "outcome_unknown", **spoken))
            yield f"{name} unknown", _with(after, number, answered)
            if worker.attempt in world.landed:
                said = self.say(world, "outcome_confirmed", source="worker", reference=f"r{worker.attempt}", **spoken)
                yield f"{name} confirmed", _with(self.append(world, said)[0], number, Worker())
            elif any(attempt == worker.attempt for attempt, _ in world.flying):
                others = tuple(one for one in world.flying if one[0] != worker.attempt)
                stopped = world if self.scope.lying else world._replace(flying=others)
                said = self.say(stopped, "outcome_rejected", **spoken)
                yield f"{name} rejected", _with(self.append(stopped, said)[0], number, Worker())
                if self.scope.pending:
                    accepted_for_later = world._replace(flying=(*others, (worker.attempt, FOREVER_MS)))
                    said = self.say(world, "outcome_unknown", reference=f"r{worker.attempt}", **spoken)
                    yield f"{name} pending", _with(self.append(accepted_for_later, said)[0], number, Worker())
        if worker.phase == "answered":
            after, accepted = self.append(world, self.say(world, "dispatch_released", claim_id=worker.claim_id))
            _holds(not accepted, "a call that was answered is not taken back")
            yield f"{name} releases after all", _with(after, number, Worker())

    def _reconciler(self, world: World) -> Iterator[tuple[str, World]]:
        for number, said in enumerate(world.hands):
            rest = world._replace(hands=world.hands[:number] + world.hands[number + 1 :])
            if isinstance(said, ev.AbsenceEstablished):
                rest, _ = self.append(rest, self.say(rest, "probe_recorded", attempt=said.attempt))
            yield f"appends {type(said).__name__} {getattr(said, 'attempt', '')}", self.append(rest, said)[0]
        op = op_of(world)
        if op.last is None:
            return
        attempt = op.last.number
        if op.state is State.DISPATCHED:
            body = {"claim_id": op.last.claim_id, "attempt": attempt, "lease_number": op.last.lease_number}
            expired = self.say(world, "lease_expired", lease_end_ms=op.last.lease_end_ms, **body)
            if self.scope.hasty or world.now_ms > op.last.lease_end_ms:
                yield "sweeps", self.append(world, expired)[0]
        if op.state not in (State.UNKNOWN, State.RECONCILING) or not world.looks:
            return
        looked = world._replace(looks=world.looks - 1)
        yield "looks in vain", self.append(looked, self.say(looked, "probe_recorded", attempt=attempt, result="error"))[0]
        if world.landed:
            found = self.say(world, "outcome_confirmed", attempt=None, source="probe", reference=f"r{world.landed[-1]}")
            yield "looks and finds", looked._replace(hands=(*looked.hands, found))
            return
        absent = self.say(world, "absence_established", attempt=attempt)
        if world.now_ms >= quiet_from_ms(op):
            yield "looks and finds nothing", looked._replace(hands=(*looked.hands, absent))
        if self.scope.hasty and world.now_ms < quiet_from_ms(op):
            probed, _ = self.append(looked, self.say(looked, "probe_recorded", attempt=attempt))
            yield "looks too early", self.append(probed, self.say(probed, "absence_established", attempt=attempt))[0]

    def _people(self, world: World) -> Iterator[tuple[str, World]]:
        op = op_of(world)
        if world.unwinds:
            unwinding = world._replace(unwinds=world.unwinds - 1)
            yield "unwinds", self.append(unwinding, self.say(world, "group_unwinding"))[0]
        if not world.people:
            return
        if op.state in (State.UNKNOWN, State.RECONCILING) and op.last is not None:
            said = self.say(world, "operation_escalated", attempt=op.last.number)
            yield "escalates", self.append(world, said)[0]
        if op.review is None or any(isinstance(said, ev.ReviewDecided) for said in world.hands):
            return
        decided = world._replace(people=world.people - 1)
        choices = ["acknowledged"]
        if op.state is State.ESCALATED:
            nothing = not world.landed and world.now_ms >= max(quiet_from_ms(op), op.last.lease_end_ms if op.last else 0)
            choices = ["confirmed"] if world.landed else (["unknown", "not_found"] if nothing else ["unknown"])
        for choice in choices:
            said = self.say(world, "review_decided", review_id=op.review.review_id, choice=choice)
            yield f"reviewer takes {choice}", decided._replace(hands=(*decided.hands, said))

    # ---- exploring --------------------------------------------------------------------------------------------------

    def explore(self) -> int:
        """Number of states. Raises `Violation` with the shortest way there."""
        start = History().prepare(terms=self.scope.terms)
        first = World(start.route, T0, (Worker(),) * self.scope.workers, **self.scope.start)
        came: dict[Any, tuple[Any, str]] = {key(first): (None, "")}
        queue = deque([first])
        while queue:
            world = queue.popleft()
            here = key(world)
            iterator = self.steps(world)
            while True:
                step = "?"
                try:
                    step, after = next(iterator)
                    after = after._replace(serial=world.serial + 1)
                    _check(after, self.scope)
                except StopIteration:
                    break
                except Violation as broken:
                    raise Violation(f"{broken}: {', '.join([*_way(came, here), step])}") from None
                self.transitions += 1
                there = key(after)
                if there in came:
                    continue
                came[there] = (here, step)
                self.reached.add(op_of(after).state)
                assert len(came) <= self.scope.states_max, "the scope is larger than it was meant to be"
                queue.append(after)
        return len(came)


def _way(came: dict[Any, tuple[Any, str]], here: Any) -> list[str]:
    steps: list[str] = []
    while here is not None:
        here, step = came[here]
        steps.append(step)
    return steps[-2::-1]


def _holds(condition: bool, rule: str) -> None:
    if not condition:
        raise Violation(rule)


def _with(world: World, number: int, worker: Worker) -> World:
    return world._replace(workers=(*world.workers[:number], worker, *world.workers[number + 1 :]))


def _check(world: World, scope: Scope) -> None:
    # A worker in `calling` has made its call; one in `holds` may still make it.
    may_call = [worker for worker in world.workers if worker.phase in ("holds", "calling") and world.now_ms < worker.until_ms]
    _holds(len(may_call) <= 1, "at most one holder believes at a time that it may call")
    _holds(len(world.landed) <= 1 or scope.lying, "one intention, at most one effect")
    if world.told:
        op = op_of(world)
        kept = {ref.value for ref in op.references} >= {f"r{attempt}" for attempt in world.told}
        _holds(kept or op.state is State.CONFIRMED, "evidence of an effect is never lost")


def key(world: World) -> Any:
    """Equal for worlds from which the same steps follow: times count from now, ids and counters of the fold do not matter."""
    op, now = op_of(world), world.now_ms
    attempts = tuple(
        (
            one.number,
            one.claim_id,
            max(one.lease_end_ms - now, -TICK_MS),
            max(last_attempt_ended_ms(one) - now, -2 * TICK_MS),
            one.open,
            one.released,
            one.replay,
            one.answered,
            one.state_before,
        )
        for one in op.attempts
    )
    said_later = world.hands + world.outbox + world.ghost
    held = tuple((type(said).__name__, _named(said), said.event_id in op.seen) for said in said_later)
    return (
        world.route.group_state,
        op.state,
        attempts,
        frozenset(answer.claim_id for answer in op.answers),
        frozenset(op.withdrawn),
        tuple(ref.value for ref in op.references),
        op.review and (op.review.reasons, op.review.review_id),
        op.escalated_for,
        op.attempts_by_review,
        op.last_probe_status,
        held,
        (len(world.hands), len(world.outbox)),
        world.asked,
        tuple(sorted((w.phase, w.claim_id, w.attempt, max(w.until_ms - now, -1)) for w in world.workers)),
        tuple((attempt, until - now) for attempt, until in world.flying),
        world.landed,
        world.told,
        world.may_dispatch,
        world[-7:],
    )


def _named(said: ev.Event) -> tuple[Any, ...]:
    names = ("claim_id", "attempt", "replay", "reference", "choice", "review_id")
    return tuple(getattr(said, name, None) for name in names)
