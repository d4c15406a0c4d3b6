"""A reconciler whose clock runs ahead of the log's: what it says too early is refused, and said again later it counts."""

import threading
from concurrent.futures import Future

from landed import ToolRegistry
from landed.adapters.system import RandomIds
from landed.core import events as ev
from landed.core.state import Operation
from landed.core.vocabulary import State
from landed.ports import Appended, DueOperation
from landed.wire.ids import with_event_id
from landed_services.reconciler.loop import VIEW_LAG_MS, Reconciler
from landed_services.reconciler.probes import ProbeRunner

from .test_what_a_look_proves import Story


class LogOf:
    """Appends to the story, whose own clock is the log's."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.events: list[ev.Event] = []
        self.accepted: list[bool] = []

    def append(self, event: ev.Event) -> Future[Appended]:
        self.events.append(event)
        self.accepted.append(self.story.append_as_it_is(event))
        done: Future[Appended] = Future()
        done.set_result(Appended(position=ev.Position(partition=0, offset=len(self.events)), at_ms=self.story.at_ms))
        return done

    def close(self, timeout_s: float) -> None:
        pass


class TablesOf:
    def __init__(self, story: Story) -> None:
        self.story = story

    def due(self, *, now_ms: int, limit: int, after: object = None, closed_tools: object = ()) -> list[DueOperation]:
        operation: Operation = self.story.op
        return [DueOperation(tenant_id="acme", route="op", group_id=None, operation=operation, due_at_ms=now_ms)]

    def next_due_ms(self) -> int | None:
        return None


class FastClock:
    """Ahead of the log by as much as the test says."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


def test_an_expiry_that_came_too_early_is_said_again_and_counts() -> None:
    story, clock = Story(), FastClock()
    end_ms = story.op.last.lease_end_ms  # type: ignore[union-attr]
    log = LogOf(story)
    probes = ProbeRunner(ToolRegistry())
    reconciler = Reconciler(log, TablesOf(story), probes, clock, RandomIds())
    story.at_ms = end_ms - 500
    clock.at_ms = end_ms + 1
    reconciler.tick()
    assert log.accepted == [False]
    assert story.op.state is State.DISPATCHED
    story.at_ms = end_ms + 1
    clock.at_ms += VIEW_LAG_MS
    reconciler.tick()
    probes.close()
    assert log.accepted == [False, True]
    assert story.op.state is State.UNKNOWN


def test_the_reconciler_does_not_say_it_again_before_the_view_had_time() -> None:
    story, clock = Story(), FastClock()
    log = LogOf(story)
    probes = ProbeRunner(ToolRegistry())
    reconciler = Reconciler(log, TablesOf(story), probes, clock, RandomIds())
    clock.at_ms = story.op.last.lease_end_ms + 1  # type: ignore[union-attr]
    for _ in range(5):
        reconciler.tick()
    probes.close()
    assert len(log.events) == 1


def test_the_same_expiry_under_a_derived_id_would_be_a_repeat_for_ever() -> None:
    """Why it has a random id."""
    story = Story()
    last = story.op.last
    assert last is not None
    event = with_event_id(
        ev.LeaseExpired(
            event_id="",
            tenant_id="acme",
            route="op",
            operation_id="op",
            actor="reconciler",
            claim_id=last.claim_id,
            attempt=1,
            lease_number=0,
            lease_end_ms=last.lease_end_ms,
        )
    )
    story.at_ms = last.lease_end_ms - 1
    assert not story.append_as_it_is(event)
    story.at_ms = last.lease_end_ms + 1
    assert not story.append_as_it_is(event)


def test_it_ends_when_asked() -> None:
    story = Story()
    probes = ProbeRunner(ToolRegistry())
    reconciler = Reconciler(LogOf(story), TablesOf(story), probes, FastClock(), RandomIds())
    stop = threading.Event()
    thread = threading.Thread(target=reconciler.run, args=(stop,))
    thread.start()
    stop.set()
    reconciler.wake()
    thread.join(5)
    probes.close()
    assert not thread.is_alive()
