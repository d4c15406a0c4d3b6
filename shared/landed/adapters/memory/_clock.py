"""A clock that moves only when it is told to."""

import threading


class ManualClock:
    """`ports.Clock` for tests: wall clock and monotonic clock move together, by `advance`.

    Args:
        now_ms: where the wall clock starts, milliseconds since the epoch, UTC.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._passed_s = 0.0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return self._start_ms + round(self._passed_s * 1000)

    def monotonic(self) -> float:
        return self._passed_s

    def advance(self, seconds: float) -> None:
        """Moves both clocks on."""
        with self._lock:
            self._passed_s += seconds
