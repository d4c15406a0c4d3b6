"""How far long work is, and how the parts of one that several processes share add up. Pure but for the clock."""

import time
from collections.abc import Callable
from typing import Final

import msgspec

TOLD_EVERY: Final = 10_000
"""Offsets between two words about progress."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is."""

    done: int
    """Offsets that were passed, or whatever is counted."""
    total: int
    seconds: float

    @property
    def rate(self) -> float:
        """How many of them a second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest takes at that rate; None where nothing can be said yet."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None


Say = Callable[[Progress], None]


class Counted:
    """Counts offsets that were passed, and says so now and then."""

    def __init__(self, total: int, say: Callable[[int], None] | None) -> None:
        self.total = total
        self.done = self._next = 0
        self._say = say

    def passed(self, number: int) -> None:
        self.done += number
        if self._say is not None and self.done >= self._next:
            self._next = self.done + TOLD_EVERY
            self._say(self.done)


class Summed:
    """Adds up what the parts of one reading say.

    Args:
        total: offsets of all parts together.
    """

    def __init__(self, total: int, say: Say | None) -> None:
        self._total, self._say = total, say
        self._parts: dict[int, int] = {}
        self._begun = time.monotonic()

    def __call__(self, part: int, done: int) -> None:
        """Part number *part* has passed *done* offsets by now."""
        self._parts[part] = done
        if self._say is not None:
            now = Progress(done=sum(self._parts.values()), total=self._total, seconds=time.monotonic() - self._begun)
            self._say(now)
