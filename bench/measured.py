"""What a run gives, and how several runs are summed up."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Load(msgspec.Struct, kw_only=True):
    """One run: operations per second, latencies in milliseconds, CPU in milliseconds per operation by process."""

    rate: float
    p50: float
    p99: float
    verdict_p50: float = 0.0
    verdict_p99: float = 0.0
    cpu: dict[str, float] = {}

    @property
    def cpu_total(self) -> float:
        return sum(self.cpu.values())


class Spread(NamedTuple):
    """Median and 99th percentile, in milliseconds."""

    p50: float
    p99: float


def spread_of(took_s: Sequence[float]) -> Spread:
    ordered = sorted(took_s)
    return Spread(ordered[len(ordered) // 2] * 1000, ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000)


class Summary(msgspec.Struct, frozen=True):
    """Median and range of several runs."""

    median: float
    low: float
    high: float

    def shown(self, digits: int = 2) -> str:
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"


def summed(values: Sequence[float]) -> Summary:
    return Summary(statistics.median(values), min(values), max(values))
