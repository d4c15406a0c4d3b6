"""Clocks and ids, handed in so that nothing deterministic reads them by itself."""

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; leases are counted on it."""
        ...


class Ids(Protocol):
    def random_id(self) -> str:
        """A random id, new for every call, 32 hexadecimal digits."""
        ...
