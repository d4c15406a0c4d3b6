"""Real time: what is due waits until it is, and what other threads bring is taken in turn."""

import contextlib
import heapq
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from landed.testing.cases.timeline import Timeline

_LOOK_S: Final = 0.05


class RealTimeline(Timeline):
    """A timeline that is the machine's own. Callbacks run in the thread that calls `run_until`; any thread may bring some."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = time.monotonic()
        self.epoch_ms = time.time_ns() // 1_000_000
        self._brought: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def begin(self) -> None:
        """The case starts now."""
        self._began_s = time.monotonic()
        self.epoch_ms = time.time_ns() // 1_000_000

    def soon(self, callback: Callable[[], None]) -> None:
        self._brought.put(callback)

    def at(self, due_s: float, callback: Callable[[], None]) -> None:
        with self._lock:
            heapq.heappush(self._due, (due_s, next(self._order), callback))

    def run_until(self, done: Callable[[], bool]) -> None:
        """Runs what is due and what is brought, until *done*."""
        while not done():
            brought: Callable[[], None] | None = None
            with contextlib.suppress(queue.Empty):
                brought = self._brought.get(timeout=self._pause_s())
            if brought is not None:
                brought()
            while (callback := self._next()) is not None:
                callback()

    def run(self) -> None:
        """Nothing is run ahead of its time."""

    def _pause_s(self) -> float:
        with self._lock:
            due_s = self._due[0][0] if self._due else None
        return _LOOK_S if due_s is None else min(_LOOK_S, max(0.0005, due_s - self.now_s))

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            return heapq.heappop(self._due)[2] if self._due and self._due[0][0] <= self.now_s else None
