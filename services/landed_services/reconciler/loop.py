"""The reconciler: takes operations in doubt and leases that ran out, looks at the provider, appends what the look proves.

It holds no state of its own: what is due is read from the view, what it finds goes to the log, and the fold decides. So it may be
killed at any step, and a second one on the same operation changes nothing.
"""

import logging
import random
import threading
from concurrent.futures import Future

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.reconciliation import Append, Probe, judge, next_step
from landed.ports.log import Appended, AppendFailed, EventLog
from landed.ports.tables import DueOperation, DueOperations
from landed.ports.time import Clock, Ids
from landed.wire.ids import with_event_id
from landed_services.reconciler.probes import ProbeRunner, Running

_LOG = logging.getLogger("landed.reconciler")

VIEW_LAG_MS = 2_000
"""How long the view may take to show what was appended before the operation is looked at again."""

_Key = tuple[str, str, str]


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
        append_timeout_s: float = 10.0,
    ) -> None:
        """
        Args:
            batch: operations taken at once.
            tick_s: longest pause between two looks at the view, seconds.
            append_timeout_s: how long an acknowledgement is waited for; what is not acknowledged is found again as due.
        """
        self._log = log
        self._tables = tables
        self._probes = probes
        self._clock = clock
        self._ids = ids
        self._batch = batch
        self._tick_s = tick_s
        self._append_timeout_s = append_timeout_s
        self._seen: dict[_Key, tuple[int, int]] = {}
        """Version of each operation that was acted upon, and until when the view is given time to show a newer one. The fold may
        have refused what was appended (a clock that runs ahead of the log's), so then it is looked at afresh."""
        self._wake = threading.Event()

    def wake(self) -> None:
        """Something was appended that may be due."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set; a failing look at the view is logged and tried again."""
        while not stop.is_set():
            try:
                busy = self.tick()
            except Exception:
                _LOG.exception("reconciler pauses", extra={"action": "reconciler_error"})
                busy = False
            if not busy:
                self._wake.wait(self._pause_s())
                self._wake.clear()

    def tick(self) -> bool:
        """Does what is due now; whether anything was."""
        now_ms = self._clock.now_ms()
        todo = [due for due in self._tables.due(now_ms=now_ms, limit=self._batch) if self._is_news(due)]
        looking: list[tuple[DueOperation, int, Running]] = []
        waiting: list[tuple[DueOperation, list[Future[Appended]]]] = []
        for due in todo:
            contract = due.operation.contract
            can_probe = contract is not None and self._probes.can_probe(contract)
            step = next_step(due.operation, tenant_id=due.tenant_id, route=due.route, now_ms=now_ms, can_probe=can_probe)
            if isinstance(step, Probe):
                looking.append((due, self._clock.now_ms(), self._probes.start(due)))
            elif isinstance(step, Append):
                waiting.append((due, self._append(due, step.events)))
        for due, asked_at_ms, running in looking:
            answer = self._probes.answer_of(running)
            found = judge(
                due.operation,
                answer,
                tenant_id=due.tenant_id,
                route=due.route,
                asked_at_ms=asked_at_ms,
                jitter=random.random(),
            )
            waiting.append((due, self._append(due, found)))
        for due, futures in waiting:
            self._acknowledged(due, futures)
        return bool(todo)

    def _pause_s(self) -> float:
        try:
            due_ms = self._tables.next_due_ms()
        except Exception:
            return self._tick_s
        if due_ms is None:
            return self._tick_s
        return max(0.01, min(self._tick_s, (due_ms - self._clock.now_ms()) / 1000))

    def _is_news(self, due: DueOperation) -> bool:
        version, until_ms = self._seen.get(_key(due), (-1, 0))
        return version != due.operation.version or self._clock.now_ms() >= until_ms

    def _append(self, due: DueOperation, events: tuple[ev.Event, ...]) -> list[Future[Appended]]:
        futures: list[Future[Appended]] = []
        for event in events:
            named = self._named(_in_group(event, due.group_id))
            _LOG.info(
                "%s",
                ev.TYPE_OF[type(named)],
                extra={
                    "action": ev.TYPE_OF[type(named)],
                    "tenant_id": due.tenant_id,
                    "operation_id": due.operation.operation_id,
                    "event_id": named.event_id,
                },
            )
            futures.append(self._log.append(named))
        return futures

    def _named(self, event: ev.Event) -> ev.Event:
        # The fold refuses an expiry whose log time is too early, and remembers what it refused: said again later, it must be
        # another event. A second one is harmless, the state refuses it.
        return replace(event, event_id=self._ids.random_id()) if isinstance(event, ev.LeaseExpired) else with_event_id(event)

    def _acknowledged(self, due: DueOperation, futures: list[Future[Appended]]) -> None:
        try:
            for future in futures:
                future.result(timeout=self._append_timeout_s)
        except (AppendFailed, TimeoutError):
            # Unknown whether it is on the log: it is found due again, and the same event has the same id.
            _LOG.warning(
                "not acknowledged",
                extra={
                    "action": "append_unknown",
                    "tenant_id": due.tenant_id,
                    "operation_id": due.operation.operation_id,
                },
            )
            return
        self._seen[_key(due)] = (due.operation.version, self._clock.now_ms() + VIEW_LAG_MS)
        if len(self._seen) > 100_000:
            # Only a memory of what the view has not shown yet; without it the fold refuses the repetition.
            self._seen.clear()


def _key(due: DueOperation) -> _Key:
    return due.tenant_id, due.route, due.operation.operation_id


def _in_group(event: ev.Event, group_id: str | None) -> ev.Event:
    return event if group_id is None else replace(event, group_id=group_id)
