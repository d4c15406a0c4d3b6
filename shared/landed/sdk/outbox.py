"""Events that must reach the log although nobody waits for them any more: appended again, the same event, until a bound."""

import contextlib
import logging
import threading
from concurrent.futures import Future, InvalidStateError
from typing import Final

from landed.core.events import TYPE_OF, Event
from landed.ports import Appended, AppendFailed, Clock, EventLog
from landed.sdk.schedule import Schedule
from landed.testing.failure_points import reach

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Outbox:
    """Appends events and keeps trying; a repeated append has the same `event_id`, so the fold counts it once.

    Args:
        keep_trying_s: seconds after which an event that was never acknowledged is given up, and logged as an error.
    """

    def __init__(self, log: EventLog, schedule: Schedule, clock: Clock, *, keep_trying_s: float) -> None:
        self._log = log
        self._schedule = schedule
        self._clock = clock
        self._keep_trying_s = keep_trying_s
        self._open: dict[Future[Appended], Event] = {}
        self._changed = threading.Condition()

    def post(self, event: Event) -> Future[Appended]:
        """Sends *event* now. The future is done when it is acknowledged, or fails with `AppendFailed` when it is given up."""
        result: Future[Appended] = Future()
        with self._changed:
            self._open[result] = event
        result.add_done_callback(self._forget)
        self._send(event, result, give_up_s=self._clock.monotonic() + self._keep_trying_s, pause_s=_FIRST_PAUSE_S)
        return result

    def flush(self, timeout_s: float) -> bool:
        """Waits until nothing is outstanding, at most *timeout_s* seconds; False when something still is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout_s)

    def close(self) -> None:
        """Gives up what is still outstanding, and says of each event that it may not be on the log."""
        with self._changed:
            outstanding = dict(self._open)
        for result, event in outstanding.items():
            self._give_up(event, result, AppendFailed("not acknowledged before the end"))

    def _forget(self, result: Future[Appended]) -> None:
        with self._changed:
            self._open.pop(result, None)
            if not self._open:  # nothing else is waited for
                self._changed.notify_all()

    def _send(self, event: Event, result: Future[Appended], *, give_up_s: float, pause_s: float) -> None:
        try:
            acknowledged = self._log.append(event)
        except Exception as error:
            self._failed(event, result, error, give_up_s=give_up_s, pause_s=pause_s)
            return

        reach("sdk.outbox_sent")

        def done(future: Future[Appended]) -> None:
            error = future.exception()
            if error is None:
                with contextlib.suppress(InvalidStateError):  # given up meanwhile
                    result.set_result(future.result())
            else:
                self._failed(event, result, error, give_up_s=give_up_s, pause_s=pause_s)

        acknowledged.add_done_callback(done)

    def _failed(self, event: Event, result: Future[Appended], error: BaseException, *, give_up_s: float, pause_s: float) -> None:
        due_s = self._clock.monotonic() + pause_s
        later_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        again = due_s < give_up_s and self._schedule.at(
            due_s, lambda: self._send(event, result, give_up_s=give_up_s, pause_s=later_s)
        )
        if not again:
            self._give_up(event, result, error)

    def _give_up(self, event: Event, result: Future[Appended], error: BaseException) -> None:
        try:
            result.set_exception(error if isinstance(error, AppendFailed) else AppendFailed(type(error).__name__))
        except InvalidStateError:
            return  # acknowledged, or given up already
        about = {"action": "append_given_up", "event": TYPE_OF[type(event)], "operation_id": event.operation_id}
        _LOG.error("an event was never acknowledged", extra={**about, "error_class": type(error).__name__})
