"""What a projector tells about itself: positions and lag, batches, verdicts, and what the events that it folded say.

An event is counted when its transaction is committed, and once: a fold that came to nothing counts nothing, and what is folded
again from the beginning of the log (`landed rebuild`) was counted before. So a partition that catches up counts only what was
appended since this process began; what was appended while no projector ran is in no counter, but in the gauges of the tables.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from landed.core import events as ev
from landed_services.metrics import Metrics, count_applied, layer_of
from landed_services.projector.batch import Changes, View
from landed_services.projector.deciding import Decided

REPORT_S: Final = 1.0
"""How often positions, lag and outbox are told."""
LAG_READY_MAX: Final = 10_000
"""Records behind the end of the log from which callers wait noticeably, so that this projector is not ready."""


class Watch:
    """One for each projector, over all its sessions."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began_ms = time.time_ns() // 1_000_000
        self._counted: dict[int, int] = {}
        """Offset up to which each partition was counted by this process."""
        self._ends: Mapping[int, int] = {}
        self._shown: set[str] = set()
        self._report_at = 0.0

    # ---- sessions -----------------------------------------------------------------------------------------------------

    def owns(self, ends: Mapping[int, int], partitions: Iterable[int], stopped: Iterable[int]) -> None:
        """A session begins on *partitions*; *ends*: where the log ended then, asked anew by looking into the same mapping."""
        self.gave_up()
        self._ends, self._report_at = ends, 0.0
        for partition in partitions:
            self._metrics.owned.labels(self._show(partition)).set(1)
            self._metrics.stopped.labels(str(partition)).set(0)
        for partition in stopped:
            self.stops(partition)

    def stops(self, partition: int) -> None:
        """An owned partition stands still until somebody repairs it."""
        self._metrics.owned.labels(self._show(partition)).set(1)
        self._metrics.stopped.labels(str(partition)).set(1)

    def gave_up(self) -> None:
        """The session is over: its partitions are another one's to show."""
        for label in self._shown:
            for gauge in (self._metrics.owned, self._metrics.stopped, self._metrics.position, self._metrics.lag):
                gauge.remove(label)
        self._shown = set()
        self._metrics.outbox.set(0)
        self._metrics.outbox_oldest.set(0)

    def failed(self, error: Exception) -> None:
        """A session failed and the next one begins after a pause."""
        self._metrics.pauses.labels(type(error).__name__).inc()
        # It lives: to start it anew would not bring the broker or the database back.
        self._metrics.health.beat()
        self._metrics.health.not_ready(type(error).__name__)

    def stands_by(self) -> None:
        """There are enough projectors: this one has no partition, and takes over in a moment when one ends."""
        self._metrics.health.beat()
        self._metrics.health.ready()

    # ---- turns --------------------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether `report` is to be called; says that the loop made a turn."""
        self._metrics.health.beat()
        return time.monotonic() >= self._report_at

    def report(self, next_offsets: Mapping[int, int], ends: Mapping[int, int], view: View, *, decides: bool) -> None:
        """Tells where each partition stands.

        Args:
            ends: end of the log where it is known.
            decides: whether this projector decides on all that it owns.
        """
        self._report_at = time.monotonic() + REPORT_S
        behind = 0
        for partition, offset in next_offsets.items():
            self._metrics.position.labels(self._show(partition)).set(offset)
            if partition in ends:
                lag = max(0, ends[partition] - offset)
                behind += lag
                self._metrics.lag.labels(str(partition)).set(lag)
        since = [one.entry.at_ms for route in view.on_their_way.values() for one in route.values()]
        now_ms = time.time_ns() // 1_000_000
        self._metrics.outbox.set(len(since))
        self._metrics.outbox_oldest.set(max(0, now_ms - min(since)) / 1000 if since else 0)
        if not decides:
            self._metrics.health.not_ready("it does not decide on all partitions yet")
        elif behind > LAG_READY_MAX:
            self._metrics.health.not_ready(f"{behind} records behind")
        else:
            self._metrics.health.ready()

    def answered(self, claimed_ms: list[int]) -> None:
        """Verdicts were sent to claims that were appended at *claimed_ms*; empties it."""
        now_ms = time.time_ns() / 1_000_000
        for at_ms in claimed_ms:
            self._metrics.verdict_seconds.observe(max(0.0, now_ms - at_ms) / 1000)
        claimed_ms.clear()

    def committed(self, changes: Changes, made: Sequence[Decided], seconds: float) -> None:
        """A transaction that took *seconds* is there for good."""
        metrics = self._metrics
        metrics.batch_records.observe(len(changes.events) + sum(not row[8] for row in changes.refused))
        metrics.batch_seconds.observe(seconds)
        for applied in changes.applied:
            place = applied.entry.position
            if self._is_news(place.partition, place.offset, applied.entry.at_ms):
                count_applied(metrics, applied)
        for row in changes.refused:
            if self._is_news(row[0], row[1], row[4]):
                metrics.refused_records.labels(row[2]).inc()
        for rows in (changes.events, changes.refused):
            for row in rows:
                self._counted[row[0]] = max(row[1], self._counted.get(row[0], -1))
        for decided in made:
            event = decided.event
            if isinstance(event, ev.DispatchGranted):
                metrics.claims.labels("granted", "").inc()
            elif isinstance(event, ev.DispatchRefused):
                metrics.claims.labels("refused", event.reason.value).inc()

        for tenant_id, key, tool, workflow_type in changes.counting.refusals:
            labels = metrics.operation_labels(tenant_id=tenant_id, tool=tool, workflow_type=workflow_type)
            metrics.surge_refusals.labels(layer_of(key), *labels).inc()

    def _is_news(self, partition: int, offset: int, at_ms: int | None) -> bool:
        if offset <= self._counted.get(partition, -1):
            return False
        return offset >= self._ends.get(partition, 0) or (at_ms is not None and at_ms >= self._began_ms)

    def _show(self, partition: int) -> str:
        label = str(partition)
        self._shown.add(label)
        return label
