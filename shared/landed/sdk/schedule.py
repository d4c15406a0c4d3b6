"""The background thread of a ledger: runs short things when they are due. One for each ledger, however many calls run."""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Final

from landed.ports import Clock

_LOG: Final = logging.getLogger(__name__)


class Schedule:
    """Callbacks by due time. They must not block.

    Args:
        clock: due times are seconds of its monotonic clock.
        threaded: False: nothing runs by itself, `run_due` is called by hand (for tests with a clock that is driven by hand).
    """

    def __init__(self, clock: Clock, *, threaded: bool = True) -> None:
        self._clock = clock
        self._threaded = threaded
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def at(self, due_s: float, callback: Callable[[], None]) -> bool:
        """Runs *callback* at *due_s*; the thread starts with the first one. False: it is closed and runs nothing any more."""
        with self._changed:
            if self._closed:
                return False
            item = (due_s, next(self._order), callback)
            heapq.heappush(self._due, item)
            if self._threaded and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="landed-background", daemon=True)
                self._thread.start()
            if self._due[0] is item:  # else the thread wakes up early enough by itself
                self._changed.notify()
            return True

    def run_due(self) -> None:
        """Runs everything that is due now, in order."""
        while (callback := self._next()) is not None:
            self._guarded(callback)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            if not self._due or self._due[0][0] > self._clock.monotonic():
                return None
            return heapq.heappop(self._due)[2]

    def _run(self) -> None:
        while True:
            self.run_due()
            with self._changed:
                if self._closed:
                    return
                wait_s = self._due[0][0] - self._clock.monotonic() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # One broken callback must not end the renewals of all other calls.
            _LOG.error("background step failed", extra={"action": "background_failed", "error_class": type(error).__name__})
