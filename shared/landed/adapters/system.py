"""The clock and the ids of a real process."""

import secrets
import sys
import time
from typing import Final

# A machine that sleeps, or is paused by its host, must not find its leases as they were: the log's clock went on. On Linux only
# this clock counts the time asleep; on macOS it is the plain monotonic one, read directly (`time.monotonic` stands still there).
_COUNTS_SLEEP: Final = getattr(time, "CLOCK_BOOTTIME", None) or (
    getattr(time, "CLOCK_MONOTONIC", None) if sys.platform == "darwin" else None
)


class SystemClock:
    """`ports.Clock` of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic() if _COUNTS_SLEEP is None else time.clock_gettime(_COUNTS_SLEEP)


class RandomIds:
    """`ports.Ids` from the operating system's randomness."""

    def random_id(self) -> str:
        return secrets.token_hex(16)
