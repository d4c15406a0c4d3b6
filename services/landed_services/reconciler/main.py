"""The reconciler as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the work at hand."""

import logging
import signal
import threading
from types import FrameType

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, LogReader
from landed.adapters.postgres import PostgresDueOperations, PostgresSettings, open_pool
from landed.adapters.postgres.news import PostgresNews
from landed.adapters.system import RandomIds, SystemClock
from landed.sdk.registry import ToolRegistry
from landed.wire.records import HEADER_TYPE
from landed_services.intake import NewsMatcher
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.reconciler.loop import Reconciler
from landed_services.reconciler.probes import ProbeRunner

_LOG = logging.getLogger("landed.reconciler")
_WAKING = frozenset({b"outcome_unknown", b"dispatch_granted", b"lease_expired", b"probe_recorded", b"review_decided"})
"""Events after which something may be due."""
VIEW_DELAY_S = 0.02
"""The view shows an event a moment after the log does."""


def run_reconciler(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    registry: ToolRegistry,
    stop: threading.Event,
    *,
    probe_limit_s: float = 10.0,
    at_once: int = 16,
    door: MetricsSettings | None = None,
) -> None:
    """Reconciles until *stop* is set.

    Args:
        registry: the team's tools; an operation whose probe is not among them goes to a person.
        door: where it answers for metrics and health; None: nowhere.

    Raises:
        SettingsError: nothing can listen at *door*.
        LogUnreachable: no broker answers at the start.
        DatabaseUnreachable: no database answers at the start.
    """
    log, reader = KafkaEventLog(log_settings), LogReader(log_settings)
    probes = ProbeRunner(registry, time_limit_s=probe_limit_s, at_once=at_once)
    metrics = Metrics()
    try:
        with served(door, metrics, database), open_pool(database) as pool:
            tables = PostgresDueOperations(database, pool, range(log.partitions))
            reconciler = Reconciler(log, tables, probes, SystemClock(), RandomIds(), health=metrics.health)
            waker = threading.Thread(target=_wake, args=(reader, reconciler, stop), name="landed-waker", daemon=True)
            waker.start()
            matcher = NewsMatcher(log, PostgresNews(database, pool), SystemClock())
            matching = threading.Thread(target=matcher.run, args=(stop,), name="landed-news", daemon=True)
            matching.start()
            reconciler.run(stop)
            waker.join(2.0)
            matching.join(2.0)
    finally:
        probes.close()
        reader.close()
        log.close()


def run_until_signal(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    registry: ToolRegistry,
    *,
    probe_limit_s: float = 10.0,
    door: MetricsSettings | None = None,
) -> None:
    """As `run_reconciler`, in the main thread until the process is asked to end."""
    stop = threading.Event()

    def ask_to_end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        run_reconciler(log_settings, database, registry, stop, probe_limit_s=probe_limit_s, door=door)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wake(reader: LogReader, reconciler: Reconciler, stop: threading.Event) -> None:
    """Wakes the reconciler when the log tells of something that may be due; without it the work is found at the next tick."""
    try:
        reader.assign(reader.end_offsets())
        while not stop.is_set():
            records = reader.poll(500, 0.2)
            if records and (at_ms := records[-1].timestamp_ms) is not None:
                reconciler.heard(at_ms)
            if any(value in _WAKING for record in records for name, value in record.headers if name == HEADER_TYPE):
                stop.wait(VIEW_DELAY_S)
                reconciler.wake()
    except Exception:
        _LOG.exception("nothing wakes this reconciler any more, it looks by itself", extra={"action": "waker_ended"})
