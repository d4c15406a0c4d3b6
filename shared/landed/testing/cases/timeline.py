"""Simulated time: one true clock, what is due on it in order, and the workers whose clocks and lives differ.

Nothing waits: time jumps from one due thing to the next, so thousands of seconds take milliseconds, in the same order every run.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Final

from landed.sdk.schedule import Schedule

EPOCH_MS: Final = 1_700_000_000_000
"""Where a case starts in simulated time: any instant does, as long as it is always the same."""


class Timeline:
    """The true clock of a case, and everything that is due on it."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.epoch_ms = EPOCH_MS
        """Where the case starts on the wall clock, milliseconds since the epoch, UTC."""
        self.closing = False
        """The last step was played: what is under way ends, and nobody begins anything more."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def now_s(self) -> float:
        """Seconds since the start of the case."""
        return self._now_s

    def now_ms(self) -> int:
        return self.epoch_ms + round(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def soon(self, callback: Callable[[], None]) -> None:
        """Runs *callback* at once: nothing else runs meanwhile."""
        callback()

    def at(self, due_s: float, callback: Callable[[], None]) -> None:
        """Runs *callback* at *due_s*, never before now; of two at the same instant the one said first goes first."""
        heapq.heappush(self._due, (max(due_s, self.now_s), next(self._order), callback))

    def run(self) -> None:
        """Runs until nothing is due any more."""
        while self._due:
            due_s, _, callback = heapq.heappop(self._due)
            self._now_s = max(self._now_s, due_s)
            callback()


class Worker:
    """One process: its wall clock may be wrong, it may crash, and it may be frozen for a while."""

    def __init__(self, name: str, timeline: Timeline) -> None:
        self.name: Final = name
        self.timeline: Final = timeline
        self.life = 0
        """Rises with every crash: what an earlier life had begun is gone."""
        self.down = False
        self.skew_s = 0.0
        self.paused_until_s = 0.0

    def now_ms(self) -> int:
        return self.timeline.now_ms() + round(self.skew_s * 1000)

    def monotonic(self) -> float:
        return self.timeline.now_s

    def at(self, due_s: float, callback: Callable[[], None]) -> None:
        """Runs *callback* in this process at *due_s*: later where it is frozen then, never where it has crashed."""
        life = self.life

        def due() -> None:
            if self.life != life:
                return
            if self.timeline.now_s < self.paused_until_s:
                self.timeline.at(self.paused_until_s, due)
            else:
                callback()

        self.timeline.at(due_s, due)

    def soon(self, callback: Callable[[], None]) -> None:
        """Runs *callback* now, unless the process is frozen (then once it is not) or gone."""
        if self.timeline.now_s < self.paused_until_s:
            self.at(self.paused_until_s, callback)
        elif not self.down:
            self.timeline.soon(callback)

    def crash(self) -> None:
        self.life += 1
        self.down = True

    def start(self) -> None:
        self.down = False


class WorkerSchedule(Schedule):
    """The background thread of a worker's ledger, on the timeline."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker, threaded=False)
        self._worker = worker

    def at(self, due_s: float, callback: Callable[[], None]) -> bool:
        self._worker.at(due_s, callback)
        return True
