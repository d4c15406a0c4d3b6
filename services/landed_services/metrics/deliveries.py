"""Deliveries of providers as the intake counted them, for whichever process takes them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

NAME: Final = "landed_webhook_deliveries"
LABELS: Final = ("endpoint", "became")


class Deliveries(Collector):
    """A collector for the registry of a process.

    Args:
        counted: gives the deliveries by endpoint and what became of them: `Intake.counted`.
    """

    def __init__(self, counted: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self._counted = counted

    def describe(self) -> Iterator[Metric]:
        yield _family()

    def collect(self) -> Iterator[Metric]:
        family = _family()
        for (endpoint, became), number in sorted(dict(self._counted()).items()):
            family.add_metric((endpoint, became), number)
        yield family


def _family() -> CounterMetricFamily:
    return CounterMetricFamily(NAME, "Deliveries of providers, by endpoint and what became of them.", labels=LABELS)
