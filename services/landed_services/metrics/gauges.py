"""Gauges of what the tables hold, read when they are asked for: right after every restart and rebuild, whoever folded.

All replicas show the same numbers, so take one of them (`max`), never the sum.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from landed.adapters.postgres import DatabaseError, PostgresSettings, connect, translated
from landed.adapters.postgres.escaping import unescaped
from landed.adapters.postgres.statements import statement
from landed_services.metrics.labels import OPERATION_LABELS, OperationLabels

_LOG: Final = logging.getLogger("landed.metrics")

STUCK_AFTER_MS: Final = 60_000
"""How long after something is due about an operation nobody did it: longer than any probe takes."""
KEPT_S: Final = 5.0
"""Who asks more often gets the same numbers: asking costs the database nothing then."""
STATEMENT_TIMEOUT_MS: Final = 5_000

_OF_DOUBT: Final = {
    "landed_operations_in_doubt": "Operations that are unknown or reconciling.",
    "landed_operation_oldest_unresolved_seconds": "How long the oldest of them has been in doubt.",
    "landed_operations_stuck": f"Operations about which nothing was done for {STUCK_AFTER_MS // 1000} s although it was due.",
}
_OF_REVIEWS: Final = {
    "landed_reviews_open": "Operations that wait for a person.",
    "landed_review_oldest_seconds": "How long the oldest of them has waited.",
}
_OF_TENANTS: Final = {
    "landed_notifications_waiting": "Notifications that a receiver has not taken yet.",
    "landed_notification_oldest_waiting_seconds": "How long the oldest of them has waited.",
    "landed_notifications_given_up": "Notifications on record that no receiver took.",
    "landed_news_unmatched": "News of providers that fits no operation and is still matched again.",
}
_OF_GROUPS: Final = ("landed_groups_needs_human", "Groups whose undoing waits for a person.")
_FROZEN: Final = ("landed_operations_frozen", "Operations that a record which this release cannot read stopped.")
_UP: Final = ("landed_view_up", "1 when the gauges of the tables could be read, else 0, and then there are none of them.")


class ViewGauges(Collector):
    """A collector for a registry; `close` ends its session with the database.

    Args:
        labels: those of the process, so that all its metrics name the same tenants.
    """

    def __init__(self, database: PostgresSettings, labels: OperationLabels) -> None:
        self._database = database
        self._labels = labels
        self._connection: Any = None
        self._lock = threading.Lock()
        self._kept: tuple[float, list[Metric]] | None = None

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def describe(self) -> Iterator[Metric]:
        """Names alone, so that registering needs no database."""
        yield from _families().values()

    def collect(self) -> Sequence[Metric]:
        """The gauges as the tables stand, or stood a moment ago."""
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_S:
                self._kept = time.monotonic(), self._read()
            return self._kept[1]

    def _read(self) -> list[Metric]:
        families = _families()
        up = families[_UP[0]]
        try:
            doubt, reviews, groups, frozen, told = self._rows()
        except DatabaseError as error:
            _LOG.warning("the view cannot be read: %s", error, extra={"action": "gauges_failed"})
            self._disconnect()
            up.add_metric([], 0)
            return [up]
        up.add_metric([], 1)
        families[_FROZEN[0]].add_metric([], frozen)
        for tenant_id, tool, workflow_type, in_doubt, oldest_ms, stuck, now_ms in doubt:
            labels = self._labelled(tenant_id, tool, workflow_type)
            values = (in_doubt, 0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000, stuck)
            for name, value in zip(_OF_DOUBT, values, strict=True):
                families[name].add_metric(labels, value)
        for tenant_id, tool, count, oldest_ms, now_ms in reviews:
            labels = self._labelled(tenant_id, tool, None)
            for name, value in zip(_OF_REVIEWS, (count, max(0, now_ms - oldest_ms) / 1000), strict=True):
                families[name].add_metric(labels, value)
        for tenant_id, workflow_type, count in groups:
            families[_OF_GROUPS[0]].add_metric(self._labelled(tenant_id, None, workflow_type), count)
        for tenant_id, waiting, oldest_ms, given_up, unmatched, now_ms in told:
            tenant = self._labelled(tenant_id, None, None)[:1]
            waited_s = 0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000
            for name, value in zip(_OF_TENANTS, (waiting, waited_s, given_up, unmatched), strict=True):
                families[name].add_metric(tenant, value)
        return [_merged(family) for family in families.values()]

    def _labelled(self, tenant_id: str, tool: str | None, workflow_type: str | None) -> tuple[str, ...]:
        return self._labels(tenant_id=unescaped(tenant_id), tool=unescaped(tool), workflow_type=unescaped(workflow_type))

    def _rows(self) -> tuple[list[Any], list[Any], list[Any], int, list[Any]]:
        if self._connection is None:
            self._connection = connect(self._database)
        with translated(self._database):
            execute = self._connection.execute
            execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}")
            doubt = execute(statement("gauges_doubt"), {"patience_ms": STUCK_AFTER_MS}).fetchall()
            reviews = execute(statement("gauges_reviews")).fetchall()
            groups = execute(statement("gauges_groups")).fetchall()
            frozen = execute(statement("gauges_frozen")).fetchone()[0]
            told = execute(statement("gauges_told")).fetchall()
        return doubt, reviews, groups, frozen, told

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _families() -> dict[str, GaugeMetricFamily]:
    labelled = {
        name: GaugeMetricFamily(name, text, labels=OPERATION_LABELS)
        for name, text in (_OF_DOUBT | _OF_REVIEWS | dict([_OF_GROUPS])).items()
    }
    labelled |= {name: GaugeMetricFamily(name, text, labels=("tenant",)) for name, text in _OF_TENANTS.items()}
    return labelled | {name: GaugeMetricFamily(name, text) for name, text in (_FROZEN, _UP)}


def _merged(family: GaugeMetricFamily) -> Metric:
    """*family* with one sample for each set of labels: tenants beyond the cap share theirs."""
    merge = max if family.name.endswith("_seconds") else sum
    values: dict[tuple[str, ...], list[float]] = {}
    for sample in family.samples:
        values.setdefault(tuple(sample.labels.values()), []).append(sample.value)
    family.samples.clear()
    for labels, found in values.items():
        family.add_metric(labels, merge(found))
    return family
