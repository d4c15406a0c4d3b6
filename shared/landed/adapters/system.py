"""The clock and the ids of a real process."""

import secrets
import time


class SystemClock:
    """`ports.Clock` of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """`ports.Ids` from the operating system's randomness."""

    def random_id(self) -> str:
        return secrets.token_hex(16)
