"""Records that go together: who comes while others are underway waits for them, and then all that wait go at once.

The client sends a request for each partition and wakes a thread for it, so that with many callers nearly every record would
travel alone, and one costs the broker as much as a hundred that travel together. How long is waited follows from how many went
together lately: a single caller never waits.

Source: docs/decisions/0009-records-go-together.md.
"""

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LINGER_EACH_S: Final = 0.0002
"""How long more is waited for, for each that went together the last time: that many may be on their way again."""
LINGER_MAX_S: Final = 0.005
HELD_MAX_S: Final = 0.05
"""Longest wait for those underway: a broker that is slow gets what there is."""


class Gathering(Generic[T]):
    """Holds back and hands over, in the order in which they come; safe under threads.

    Somebody has to call `release` whenever something is acknowledged, and after `wait_s` seconds.

    Args:
        send: hands one over; called in order, by one thread at a time.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, send: Callable[[T], None], monotonic: Callable[[], float]) -> None:
        self._send = send
        self._monotonic = monotonic
        self._lock = threading.RLock()  # what cannot be handed over is settled while it is tried
        self._held: list[T] = []
        self._held_since_s = 0.0
        self._underway = 0
        self._together = 1
        """How many went together lately; it falls by half at each time that fewer did."""

    def offer(self, item: T) -> None:
        """Hands *item* over now if nothing is underway or was lately, else with the others."""
        with self._lock:
            if self._held or self._underway or self._together > 1:
                if not self._held:
                    self._held_since_s = self._monotonic()
                self._held.append(item)
                return
            self._hand_over([item])

    def settled(self) -> None:
        """One that was handed over is acknowledged, or has failed."""
        with self._lock:
            self._underway -= 1

    def wait_s(self, longest_s: float) -> float:
        """Seconds after which `release` has something to do even if nothing is acknowledged, at most *longest_s*."""
        if not self._held:
            return longest_s if self._together == 1 else min(longest_s, LINGER_MAX_S)
        return min(longest_s, max(0.0, self._due_s() - self._monotonic()))

    def release(self, *, all_: bool = False) -> None:
        """Hands over what is held if it has waited long enough."""
        if not self._held and (self._underway or self._together == 1):
            return
        with self._lock:
            if not self._held:
                self._together = max(1, self._together // 2)
            elif all_ or self._monotonic() >= self._due_s():
                held, self._held = self._held, []
                self._hand_over(held)

    def _due_s(self) -> float:
        if self._underway:
            return self._held_since_s + HELD_MAX_S
        return self._held_since_s + min(LINGER_MAX_S, LINGER_EACH_S * (self._together - 1))

    def _hand_over(self, items: list[T]) -> None:
        self._together = max(len(items), self._together // 2)
        for item in items:
            self._underway += 1
            self._send(item)
