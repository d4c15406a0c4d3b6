"""Whether a service lives and is ready, for whoever starts and stops it."""

import time
from typing import Final

BEATS_WITHIN_S: Final = 30.0
"""Longer than any wait of a loop: a service whose loop was silent for so long stands still and is to be started anew."""


class Health:
    """Set by the loop of a service, read by its HTTP door."""

    def __init__(self, *, beats_within_s: float = BEATS_WITHIN_S) -> None:
        self._beats_within_s = beats_within_s
        self._beat = time.monotonic()
        self._not_ready = "it has not begun"

    def beat(self) -> None:
        """The loop made a turn."""
        self._beat = time.monotonic()

    def ready(self) -> None:
        """It does its work now."""
        self._not_ready = ""

    def not_ready(self, why: str) -> None:
        self._not_ready = why

    def live_problem(self) -> str:
        """Why it is to be started anew; empty while it lives."""
        silent_s = time.monotonic() - self._beat
        return f"no turn for {silent_s:.0f} s" if silent_s > self._beats_within_s else ""

    def ready_problem(self) -> str:
        """Why it does not do its work; empty when it does."""
        return self.live_problem() or self._not_ready
