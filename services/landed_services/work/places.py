"""A bounded number of places for calls of the team's own code, on threads that are never waited for without end.

A sync call that hangs cannot be ended from outside: after its time it is given up, its place goes to others, and its thread is
left behind. Threads left behind are bounded: what left too many of them starts no more until one comes back.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

import msgspec

A = TypeVar("A")
R = TypeVar("R")

LEFT_BEHIND_FACTOR: Final = 4
"""Threads left behind by all keys together, as a multiple of the places, from which on nothing is started any more."""


class Finished(msgspec.Struct, Generic[A, R], frozen=True):
    """A call that is over."""

    about: A
    result: R | None
    """None: it was given up."""
    seconds: float


class _Job(Generic[A, R]):
    __slots__ = ("about", "began_s", "given_up", "key", "result", "until_s", "when_done", "work")

    def __init__(self, key: str, about: A, work: Callable[[], R], limit_s: float, when_done: Callable[[], None]) -> None:
        self.key = key
        self.about = about
        self.work = work
        self.when_done = when_done
        self.began_s = time.monotonic()
        self.until_s = self.began_s + limit_s
        self.result: R | None = None
        self.given_up = False


class Places(Generic[A, R]):
    """Runs calls by key; safe under threads.

    Args:
        at_once: calls that run at the same time; of one key so many threads may be left behind.
        name: of the threads.
    """

    def __init__(self, at_once: int, *, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Job[A, R] | None] = SimpleQueue()
        self._running: dict[_Job[A, R], None] = {}
        self._done: deque[_Job[A, R]] = deque()
        self._of_key: Counter[str] = Counter()
        self._left_behind: Counter[str] = Counter()
        self._idle = 0
        self._closed = False

    @property
    def is_full(self) -> bool:
        return len(self._running) >= self._at_once

    def running(self, key: str) -> int:
        """Calls of *key* that run and were not given up."""
        return self._of_key[key]

    def left_behind(self, key: str | None = None) -> int:
        """Threads that were left behind and did not come back, of *key* or of all."""
        with self._lock:
            return self._left_behind.total() if key is None else self._left_behind[key]

    def is_stuck(self, key: str) -> bool:
        """Whether so many calls hang that no more of *key* are started."""
        with self._lock:
            return self._is_stuck(key)

    def _is_stuck(self, key: str) -> bool:
        most = self._at_once * LEFT_BEHIND_FACTOR
        return self._left_behind[key] >= self._at_once or self._left_behind.total() >= most

    def start(self, key: str, about: A, work: Callable[[], R], *, limit_s: float, when_done: Callable[[], None]) -> bool:
        """Starts *work*; False when every place is taken, or *key* is stuck.

        Args:
            about: comes back with the result.
            work: must not raise.
            when_done: called from its thread once it is over, unless it was given up.
        """
        job = _Job(key, about, work, limit_s, when_done)
        with self._lock:
            if self._closed or self.is_full or self._is_stuck(key):
                return False
            self._running[job] = None
            self._of_key[key] += 1
            if self._idle:
                self._idle -= 1
            else:
                # A daemon: one that hangs must not keep the process from ending, as threads of a pool would.
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._queue.put(job)
        return True

    def take(self) -> list[Finished[A, R]]:
        """Calls that are over since the last look, those that used up their time among them."""
        now_s = time.monotonic()
        found = []
        with self._lock:
            while self._done:
                job = self._done.popleft()
                found.append(Finished(job.about, job.result, now_s - job.began_s))
            for job in [one for one in self._running if now_s >= one.until_s]:
                job.given_up = True
                self._over(job)
                self._left_behind[job.key] += 1
                found.append(Finished(job.about, None, now_s - job.began_s))
        return found

    def close(self) -> None:
        """Starts nothing any more; calls that run are left behind."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._queue.put(None)

    def _over(self, job: _Job[A, R]) -> None:
        del self._running[job]
        self._of_key[job.key] -= 1

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job.result = job.work()
            with self._lock:
                if job.given_up:
                    # Another thread has its place by now.
                    self._left_behind[job.key] -= 1
                    return
                self._over(job)
                self._done.append(job)
                closed = self._closed
                self._idle += not closed
            job.when_done()
            if closed:
                return
