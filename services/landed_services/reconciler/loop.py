"""The reconciler: takes operations in doubt and leases that ran out, looks at the provider, appends what the look proves, and
sends requests again where that is allowed.

It holds no state of its own: what is due is read from the view, what it finds goes to the log, and the fold decides. So it may be
killed at any step, and a second one on the same operation changes nothing. No step waits for another: looks, replays and appends
are begun in one tick and taken up in a later one, so that what hangs or fails for one operation holds up no other.
"""

import logging
import random
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.contract import Contract
from landed.core.reconciliation import Append, Probe, Replay, Step, Wait, judge, judge_refusal, next_step
from landed.core.state import Operation
from landed.core.vocabulary import State
from landed.ports.log import Appended, AppendFailed, EventLog
from landed.ports.tables import DueOperation, DueOperations
from landed.ports.time import Clock, Ids
from landed.sdk.results import Refused
from landed.testing.failure_points import reach
from landed.wire.ids import with_event_id
from landed_services.metrics import Health
from landed_services.reconciler.pages import DuePages
from landed_services.reconciler.probes import Asked, Looked, ProbeRunner, terms_of
from landed_services.reconciler.replays import Replayed, ReplayRunner
from landed_services.work.budgets import Budgets
from landed_services.work.holds import Holds

_LOG = logging.getLogger("landed.reconciler")

VIEW_LAG_MS = 2_000
"""How long the view may take to show what was appended before the operation is looked at again; doubled each time that it
does not (the fold may have refused it, or the projector is down)."""
_REFUSED_LONGEST_S = 3600.0
_FAILED_LONGEST_S = 60.0
_UNDER_WAY_MAX = 4_096
"""Operations whose events are not acknowledged yet; no more are begun meanwhile."""

_Key = tuple[str, str, str]


class _Sent:
    __slots__ = ("due", "events", "firm", "futures", "until_s")

    def __init__(self, due: DueOperation, events: tuple[ev.Event, ...], until_s: float, *, firm: bool) -> None:
        self.due = due
        self.events = events
        self.firm = firm
        self.futures: list[Future[Appended]] = []
        self.until_s = until_s


class Reconciler:
    """One reconciler; `run` until stopped, or `tick` by hand."""

    def __init__(
        self,
        log: EventLog,
        tables: DueOperations,
        probes: ProbeRunner,
        clock: Clock,
        ids: Ids,
        *,
        budgets: Budgets | None = None,
        replays: ReplayRunner | None = None,
        tools: Sequence[str] = (),
        batch: int = 512,
        tick_s: float = 0.25,
        append_timeout_s: float = 130.0,
        health: Health | None = None,
    ) -> None:
        """
        Args:
            budgets: how much each provider may be asked; None: as much as there is room for.
            replays: sends requests again; None: nothing is, and what would be goes to a person.
            tools: those that this process may call or look for.
            batch: operations read at once; no more are held.
            tick_s: longest pause between two looks at the view, seconds.
            append_timeout_s: how long an acknowledgement is waited for, longer than the log tries (no other operation waits
                for it); what is not acknowledged is found again as due.
            health: told of each turn of `run`.
        """
        self._log = log
        self._probes = probes
        self._replays = replays
        self._budgets = budgets
        self._tables = tables
        self._clock = clock
        self._ids = ids
        self._tools = tuple(tools)
        self._tick_s = tick_s
        self._append_timeout_s = append_timeout_s
        self._holds: Holds[_Key, int] = Holds(VIEW_LAG_MS / 1000)
        self._pages = DuePages(tables, clock, size=batch, again_s=tick_s)
        self._no_room: set[str] = set()
        """Tools that nothing more can be begun for in this tick."""
        self._sent: dict[_Sent, None] = {}
        self._acknowledged: deque[_Sent] = deque()
        self._heard: tuple[int, float] | None = None
        self._wake = threading.Event()
        self._health = health or Health()
        self.turned_s = clock.monotonic()
        """When the loop made its last turn, by the monotonic clock."""

    def wake(self) -> None:
        """Something was appended that may be due, or a look is over."""
        self._pages.wake()
        self._wake.set()

    def shared(self) -> None:
        """The work was divided anew among the reconcilers."""
        self._pages.forget()

    def heard(self, at_ms: int) -> None:
        """The log has just appended something at *at_ms*: its times decide, whatever this machine's clock says."""
        # What was heard is a moment old: so the log's clock is taken for a moment behind, never for ahead.
        self._heard = at_ms, self._clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set; a failing look at the view is logged and tried again."""
        while not stop.is_set():
            self._health.beat()
            try:
                busy = self.tick()
                self._health.ready()
            except Exception as error:
                about = {"action": "reconciler_error", "error_class": type(error).__name__}
                _LOG.error("reconciler pauses", extra=about, exc_info=True)
                busy = False
                self._health.not_ready(type(error).__name__)
                stop.wait(self._tick_s)
            if not busy:
                self._wake.wait(self._pause_s())
                self._wake.clear()

    def tick(self) -> bool:
        """Takes up what has come back, and begins what is due now; whether there was anything."""
        self.turned_s = self._clock.monotonic()
        busy = self._take_looks()
        busy = self._take_replays() or busy
        busy = self._take_acknowledgements() or busy
        busy = self._begin_what_is_due() or busy
        self._take_acknowledgements()
        return busy

    # ---- one operation ------------------------------------------------------------------------------------------------

    def _begin_what_is_due(self) -> bool:
        busy = False
        now_ms, now_s = self._log_now_ms(), self._clock.monotonic()
        self._no_room.clear()
        while len(self._sent) < _UNDER_WAY_MAX and not self._probes.is_full:
            due = self._pages.next(now_ms, self._closed_tools, self._no_room)
            if due is None:
                return busy
            if not self._holds.free(_key(due), due.operation.version, now_s):
                continue
            if due.operation.tool in self._no_room and due.operation.state is not State.DISPATCHED:
                self._pages.put_aside(due)
                continue
            try:
                busy = self._begin(due, now_ms) or busy
            except Exception as error:
                self._failed(due, error)
        return busy

    def _begin(self, due: DueOperation, now_ms: int) -> bool:
        step = self._step(due, now_ms)
        match step:
            case Append():
                self._append(due, step.events)
                return True
            case Probe() | Replay():
                return self._call(due, step, now_ms)
            case Wait():
                wait_s = self._tick_s if step.until_ms is None else (step.until_ms - now_ms) / 1000
                self._back_off(due, longest_s=_REFUSED_LONGEST_S, at_least_s=wait_s)
                return False

    def _step(self, due: DueOperation, now_ms: int) -> Step:
        operation, contract = terms_of(due)
        can_probe = contract is not None and self._probes.can_probe(contract)
        return next_step(
            operation,
            tenant_id=due.tenant_id,
            route=due.route,
            now_ms=now_ms,
            can_probe=can_probe,
            cannot_replay=self._cannot_replay(operation, contract, can_probe=can_probe),
            group_state=due.group_state,
        )

    def _cannot_replay(self, operation: Operation, contract: Contract | None, *, can_probe: bool) -> str | None:
        if self._replays is None or contract is None:
            return "not_registered"
        looks = can_probe and operation.state is not State.NOT_FOUND and operation.checks < contract.max_checks
        if looks or operation.state is State.DISPATCHED:
            return None  # not asked yet
        return self._replays.cannot_replay(operation)

    def _call(self, due: DueOperation, step: Probe | Replay, now_ms: int) -> bool:
        tool = due.operation.tool or ""
        stuck = self._probes.is_stuck(tool) if isinstance(step, Probe) else self._replays is None or self._replays.is_stuck(tool)
        if stuck:
            self._back_off(due, longest_s=_FAILED_LONGEST_S)
            return False
        if self._budgets is not None and not self._budgets.begin(tool):
            self._no_room.add(tool)
            self._pages.put_aside(due)
            return False
        self._holds.take(_key(due))
        if isinstance(step, Probe):
            reach("reconciler.before_look")
            began = self._probes.start(Asked(due, now_ms, self._heard is not None), when_done=self._wake.set)
        else:
            reach("reconciler.before_replay")
            began = self._replays is not None and self._replays.start(due, step.reason, when_done=self._wake.set)
        if not began:
            self._ended(tool)
            self._back_off(due, longest_s=self._tick_s)
        return began

    def _ended(self, tool: str, throttled_s: float | None = None) -> None:
        if self._budgets is not None:
            self._budgets.end(tool, throttled_s=throttled_s)

    def _closed_tools(self) -> list[str]:
        stuck = [tool for tool in self._tools if self._probes.is_stuck(tool)]
        return stuck + (self._budgets.closed(self._tools) if self._budgets is not None else [])

    # ---- what comes back ----------------------------------------------------------------------------------------------

    def _take_looks(self) -> bool:
        back = self._probes.take()
        for look in back:
            self._ended(look.asked.due.operation.tool or "", look.throttled_s)
            reach("reconciler.looked")
            try:
                self._judge(look)
            except Exception as error:
                self._failed(look.asked.due, error)
        return bool(back)

    def _judge(self, look: Looked) -> None:
        due = look.asked.due
        found = judge(
            terms_of(due)[0],
            look.answer,
            tenant_id=due.tenant_id,
            route=due.route,
            asked_at_ms=look.asked.at_ms,
            jitter=random.random(),
            clock_known=look.asked.clock_known,
        )
        self._append(due, found)

    def _take_replays(self) -> bool:
        back = [] if self._replays is None else self._replays.take()
        for one in back:
            self._ended(one.due.operation.tool or "")
            reach("reconciler.replayed")
            try:
                self._replayed(one)
            except Exception as error:
                self._failed(one.due, error)
        return bool(back)

    def _replayed(self, one: Replayed) -> None:
        """What a call came to is on the log already; only a claim that was refused for good, or never made, is told."""
        due = one.due
        refusal = one.result.reason if isinstance(one.result, Refused) else one.not_begun
        events = () if refusal is None else judge_refusal(due.operation, refusal, tenant_id=due.tenant_id, route=due.route)
        # Firm: the view may still show a moment between the claim and what came of it, which is news and nothing to act on.
        if events:
            self._append(due, events, firm=True)
        else:
            self._back_off(due, longest_s=_FAILED_LONGEST_S, firm=True)

    def _append(self, due: DueOperation, events: tuple[ev.Event, ...], *, firm: bool = False) -> None:
        named = tuple(self._named(_in_group(event, due.group_id)) for event in events)
        self._holds.take(_key(due))
        sent = _Sent(due, named, self._clock.monotonic() + self._append_timeout_s, firm=firm)
        self._sent[sent] = None
        reach("reconciler.before_append")
        # One line for each operation: writing two takes as long as all else that is done about it.
        kinds = [ev.TYPE_OF[type(event)] for event in named]
        about = {"action": kinds[-1], "events": kinds, "event_id": named[-1].event_id, **_about(due)}
        _LOG.info("%s", kinds[-1], extra=about)
        for event in named:
            try:
                sent.futures.append(self._log.append(event))
            except BaseException:
                del self._sent[sent]
                raise
            reach("reconciler.event_sent")

        def acknowledged(_: Future[Appended]) -> None:
            self._acknowledged.append(sent)
            self._wake.set()

        # Of one route, and by one thread: the last one is acknowledged last.
        sent.futures[-1].add_done_callback(acknowledged)

    def _named(self, event: ev.Event) -> ev.Event:
        # The fold refuses an expiry whose log time is too early, and remembers what it refused: said again later, it must be
        # another event. A second one is harmless, the state refuses it.
        return replace(event, event_id=self._ids.random_id()) if isinstance(event, ev.LeaseExpired) else with_event_id(event)

    def _take_acknowledgements(self) -> bool:
        now_s = self._clock.monotonic()
        back = []
        while self._acknowledged:
            back.append(self._acknowledged.popleft())
        # In the order in which they were sent, so the first one is the oldest.
        while self._sent and now_s >= (oldest := next(iter(self._sent))).until_s:
            del self._sent[oldest]
            back.append(oldest)
        for sent in back:
            self._sent.pop(sent, None)
            try:
                acknowledged = [future.result(timeout=0) for future in sent.futures]
            except (AppendFailed, TimeoutError):
                # Unknown whether it is on the log: it is found due again, and what is said again changes nothing twice.
                _LOG.warning("not acknowledged", extra={"action": "append_unknown", **_about(sent.due)})
                self._back_off(sent.due, longest_s=_FAILED_LONGEST_S, firm=sent.firm)
                continue
            reach("reconciler.acknowledged")
            self.heard(acknowledged[-1].at_ms)
            wait_s = self._not_before_s(sent)
            self._back_off(sent.due, longest_s=_REFUSED_LONGEST_S, at_least_s=wait_s, firm=sent.firm)
        return bool(back)

    def _not_before_s(self, sent: _Sent) -> float:
        """Seconds until there is anything to do about an operation that the view still shows as it was."""
        last = sent.events[-1]
        match last:
            case ev.LeaseExpired():
                return (last.lease_end_ms + 1 - self._log_now_ms()) / 1000
            case ev.ProbeRecorded() if last.next_check_at_ms is not None:
                return (last.next_check_at_ms - self._log_now_ms()) / 1000
            case _:
                return 0.0

    def _failed(self, due: DueOperation, error: Exception) -> None:
        # One operation that cannot be worked on must not end the work on all others. The error's text may hold content.
        about = {"action": "operation_failed", "error_class": type(error).__name__, **_about(due)}
        _LOG.error("nothing can be done about an operation: %s", type(error).__name__, extra=about)
        self._back_off(due, longest_s=_REFUSED_LONGEST_S)

    def _back_off(self, due: DueOperation, *, longest_s: float, at_least_s: float = 0.0, firm: bool = False) -> None:
        version, now_s = due.operation.version, self._clock.monotonic()
        self._holds.back_off(_key(due), version, now_s, longest_s=longest_s, at_least_s=at_least_s, firm=firm)

    # ---- time ---------------------------------------------------------------------------------------------------------

    def _log_now_ms(self) -> int:
        if self._heard is None:
            return self._clock.now_ms()
        at_ms, heard_s = self._heard
        return at_ms + int((self._clock.monotonic() - heard_s) * 1000)

    def _pause_s(self) -> float:
        try:
            due_ms = self._tables.next_due_ms()
        except Exception:
            return self._tick_s
        if due_ms is None or due_ms <= self._log_now_ms():
            return self._tick_s  # due and not begun: held, or no place is free
        self._pages.wake()
        return max(0.01, min(self._tick_s, (due_ms - self._log_now_ms()) / 1000))


def _key(due: DueOperation) -> _Key:
    return due.tenant_id, due.route, due.operation.operation_id


def _about(due: DueOperation) -> dict[str, str]:
    return {"tenant_id": due.tenant_id, "operation_id": due.operation.operation_id}


def _in_group(event: ev.Event, group_id: str | None) -> ev.Event:
    return event if group_id is None else replace(event, group_id=group_id)
