"""The reconciler: takes operations in doubt and leases that ran out, looks at the provider, appends what the look proves.

It holds no state of its own: what is due is read from the view, what it finds goes to the log, and the fold decides. So it may be
killed at any step, and a second one on the same operation changes nothing. No step waits for another: looks and appends are begun
in one tick and taken up in a later one, so that what hangs or fails for one operation holds up no other.
"""

import logging
import random
import threading
from concurrent.futures import Future

import msgspec
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.reconciliation import Append, Probe, judge, next_step
from landed.ports.log import Appended, AppendFailed, EventLog
from landed.ports.tables import DueOperation, DueOperations
from landed.ports.time import Clock, Ids
from landed.testing.failure_points import reach
from landed.wire.ids import with_event_id
from landed_services.metrics import Health
from landed_services.reconciler.holds import Holds
from landed_services.reconciler.probes import ProbeRunner, Running

_LOG = logging.getLogger("landed.reconciler")

VIEW_LAG_MS = 2_000
"""How long the view may take to show what was appended before the operation is looked at again; doubled each time that it
does not (the fold may have refused it, or the projector is down)."""
_REFUSED_LONGEST_S = 3600.0
_FAILED_LONGEST_S = 60.0


class _Look(msgspec.Struct, frozen=True):
    due: DueOperation
    asked_at_ms: int
    """When the probe was sent, on the log's clock."""
    clock_known: bool
    running: Running


class _Sent(msgspec.Struct, frozen=True):
    due: DueOperation
    events: tuple[ev.Event, ...]
    futures: list[Future[Appended]]
    until_s: float


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
        batch: int = 64,
        tick_s: float = 0.25,
        append_timeout_s: float = 130.0,
        health: Health | None = None,
    ) -> None:
        """
        Args:
            batch: operations taken at once.
            tick_s: longest pause between two looks at the view, seconds.
            append_timeout_s: how long an acknowledgement is waited for, longer than the log tries (no other operation waits
                for it); what is not acknowledged is found again as due.
            health: told of each turn of `run`.
        """
        self._log = log
        self._tables = tables
        self._probes = probes
        self._clock = clock
        self._ids = ids
        self._batch = batch
        self._tick_s = tick_s
        self._append_timeout_s = append_timeout_s
        self._holds = Holds(VIEW_LAG_MS / 1000)
        self._looking: list[_Look] = []
        self._sent: list[_Sent] = []
        self._heard: tuple[int, float] | None = None
        self._wake = threading.Event()
        self._health = health or Health()

    def wake(self) -> None:
        """Something was appended that may be due."""
        self._wake.set()

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
        busy = self._take_answers()
        busy = self._take_acknowledgements() or busy
        now_ms, now_s = self._log_now_ms(), self._clock.monotonic()
        # Those that are held stand in front, and must not hide the others.
        for due in self._tables.due(now_ms=now_ms, limit=self._batch + self._holds.count(now_s)):
            if not self._holds.free(due, now_s):
                continue
            try:
                busy = self._begin(due, now_ms) or busy
            except Exception as error:
                self._failed(due, error)
        self._take_acknowledgements()
        return busy

    # ---- one operation ------------------------------------------------------------------------------------------------

    def _begin(self, due: DueOperation, now_ms: int) -> bool:
        contract = due.operation.contract
        can_probe = contract is not None and self._probes.can_probe(contract)
        step = next_step(due.operation, tenant_id=due.tenant_id, route=due.route, now_ms=now_ms, can_probe=can_probe)
        if isinstance(step, Append):
            self._append(due, step.events)
            return True
        if not isinstance(step, Probe):
            return False
        if contract is not None and self._probes.is_stuck(contract):
            self._holds.back_off(due, self._clock.monotonic(), longest_s=_FAILED_LONGEST_S)
            return False
        reach("reconciler.before_look")
        running = self._probes.start(due, when_done=self.wake)
        if running is None:
            return False  # every place is taken: it stays due
        self._holds.take(due)
        self._looking.append(_Look(due, now_ms, self._heard is not None, running))
        return True

    def _take_answers(self) -> bool:
        back = [look for look in self._looking if look.running.is_over()]
        for look in back:
            self._looking.remove(look)
            due, answer = look.due, self._probes.answer_of(look.running)
            reach("reconciler.looked")
            try:
                found = judge(
                    due.operation,
                    answer,
                    tenant_id=due.tenant_id,
                    route=due.route,
                    asked_at_ms=look.asked_at_ms,
                    jitter=random.random(),
                    clock_known=look.clock_known,
                )
                self._append(due, found)
            except Exception as error:
                self._failed(due, error)
        return bool(back)

    def _append(self, due: DueOperation, events: tuple[ev.Event, ...]) -> None:
        named = tuple(self._named(_in_group(event, due.group_id)) for event in events)
        self._holds.take(due)
        futures = []
        reach("reconciler.before_append")
        for event in named:
            kind = ev.TYPE_OF[type(event)]
            _LOG.info("%s", kind, extra={"action": kind, "event_id": event.event_id, **_about(due)})
            futures.append(self._log.append(event))
            reach("reconciler.event_sent")
        self._sent.append(_Sent(due, named, futures, self._clock.monotonic() + self._append_timeout_s))
        futures[-1].add_done_callback(lambda _: self.wake())

    def _named(self, event: ev.Event) -> ev.Event:
        # The fold refuses an expiry whose log time is too early, and remembers what it refused: said again later, it must be
        # another event. A second one is harmless, the state refuses it.
        return replace(event, event_id=self._ids.random_id()) if isinstance(event, ev.LeaseExpired) else with_event_id(event)

    def _take_acknowledgements(self) -> bool:
        now_s = self._clock.monotonic()
        back = [sent for sent in self._sent if now_s >= sent.until_s or all(future.done() for future in sent.futures)]
        for sent in back:
            self._sent.remove(sent)
            try:
                acknowledged = [future.result(timeout=0) for future in sent.futures]
            except (AppendFailed, TimeoutError):
                # Unknown whether it is on the log: it is found due again, and what is said again changes nothing twice.
                _LOG.warning("not acknowledged", extra={"action": "append_unknown", **_about(sent.due)})
                self._holds.back_off(sent.due, now_s, longest_s=_FAILED_LONGEST_S)
                continue
            reach("reconciler.acknowledged")
            self.heard(acknowledged[-1].at_ms)
            self._holds.back_off(sent.due, now_s, longest_s=_REFUSED_LONGEST_S, at_least_s=self._not_before_s(sent))
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
        self._holds.back_off(due, self._clock.monotonic(), longest_s=_REFUSED_LONGEST_S)

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
        return max(0.01, min(self._tick_s, (due_ms - self._log_now_ms()) / 1000))


def _about(due: DueOperation) -> dict[str, str]:
    return {"tenant_id": due.tenant_id, "operation_id": due.operation.operation_id}


def _in_group(event: ev.Event, group_id: str | None) -> ev.Event:
    return event if group_id is None else replace(event, group_id=group_id)
