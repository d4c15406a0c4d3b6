"""The reconciler as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the work at hand."""

import logging
import threading
from collections.abc import Collection

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, KafkaVerdictInbox, LogReader
from landed.adapters.postgres import (
    PostgresDueOperations,
    PostgresProviderBudgets,
    PostgresReconcilers,
    PostgresSettings,
    open_pool,
)
from landed.adapters.postgres.news import PostgresNews
from landed.adapters.system import RandomIds, SystemClock
from landed.core.reconciliation import RECONCILER
from landed.sdk.parts import Parts
from landed.sdk.registry import ToolRegistry
from landed.sdk.settings import Settings
from landed_services.intake import NewsMatcher
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.reconciler.loop import Reconciler
from landed_services.reconciler.probes import ProbeRunner
from landed_services.reconciler.replays import ReplayRunner
from landed_services.work.budgets import Budgets
from landed_services.work.ending import until_signal
from landed_services.work.sharing import Sharing
from landed_services.work.waking import wake

_LOG = logging.getLogger("landed.reconciler")
_WAKING = frozenset(
    {
        b"outcome_unknown",
        b"dispatch_granted",
        b"lease_expired",
        b"probe_recorded",
        b"absence_established",
        b"review_decided",
    }
)
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
    at_once: int = 64,
    door: MetricsSettings | None = None,
) -> None:
    """Reconciles until *stop* is set.

    Args:
        registry: the team's tools; an operation whose probe is not among them goes to a person.
        probe_limit_s: seconds that one probe may take.
        at_once: probes at the same time; a provider's own bound (`registry.providers`) holds besides.
        door: where it answers for metrics and health; None: nowhere.

    Raises:
        SettingsError: nothing can listen at *door*.
        LogUnreachable: no broker answers at the start.
        DatabaseUnreachable: no database answers at the start.
    """
    clock, name = SystemClock(), f"{RECONCILER}:{RandomIds().random_id()}"
    log, reader = KafkaEventLog(log_settings), LogReader(log_settings)
    # Claims of every tenant: the settings' own is nobody's.
    settings = Settings(tenant=RECONCILER, bootstrap=log_settings.bootstrap, worker=name, ring=log_settings.ring)
    parts = Parts(settings, log, KafkaVerdictInbox(log_settings, name))
    probes = ProbeRunner(registry, time_limit_s=probe_limit_s, at_once=at_once)
    replays = ReplayRunner(registry, parts)
    metrics = Metrics({} if door is None else door.providers)
    try:
        with served(door, metrics, database), open_pool(database) as pool:
            tables = PostgresDueOperations(database, pool, range(log.partitions))
            reconciler = Reconciler(
                log,
                tables,
                probes,
                clock,
                RandomIds(),
                budgets=Budgets(registry.providers, PostgresProviderBudgets(database, pool), clock),
                replays=replays,
                tools=[tool.name for tool in registry],
                health=metrics.health,
            )

            def changed(partitions: Collection[int]) -> None:
                tables.work_for(partitions)
                reconciler.shared()

            waker = threading.Thread(
                target=wake,
                args=(reader, reconciler, stop),
                kwargs={"waking": _WAKING, "view_delay_s": VIEW_DELAY_S, "log": _LOG},
                name="landed-waker",
                daemon=True,
            )
            matcher = NewsMatcher(log, PostgresNews(database, pool), clock)
            matching = threading.Thread(target=matcher.run, args=(stop,), name="landed-news", daemon=True)
            sharing = Sharing(
                PostgresReconcilers(database, pool), log.partitions, changed=changed, turned_s=lambda: reconciler.turned_s
            )
            with sharing:
                waker.start()
                matching.start()
                reconciler.run(stop)
            waker.join(2.0)
            matching.join(2.0)
    finally:
        probes.close()
        replays.close()
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
    until_signal(lambda stop: run_reconciler(log_settings, database, registry, stop, probe_limit_s=probe_limit_s, door=door))
