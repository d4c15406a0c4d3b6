"""The compensator as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the work at hand."""

import logging
import threading
from collections.abc import Collection
from typing import Final

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, KafkaVerdictInbox, LogReader
from landed.adapters.postgres import PostgresProviderBudgets, PostgresReconcilers, PostgresSettings, open_pool
from landed.adapters.postgres.unwinding import PostgresUnwindingGroups
from landed.adapters.system import RandomIds, SystemClock
from landed.core.compensating import COMPENSATOR
from landed.sdk.parts import Parts
from landed.sdk.registry import ToolRegistry
from landed.sdk.settings import Settings
from landed_services.compensator.inverses import InverseRunner
from landed_services.compensator.loop import Compensator
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.work.budgets import Budgets
from landed_services.work.ending import until_signal
from landed_services.work.sharing import Sharing
from landed_services.work.waking import wake

_LOG = logging.getLogger("landed.compensator")
_WAKING: Final = frozenset(
    {
        b"group_unwinding",
        b"outcome_confirmed",
        b"outcome_rejected",
        b"absence_established",
        b"operation_cancelled",
        b"review_decided",
        b"policy_changed",
    }
)
"""Events after which an inverse may be due."""
VIEW_DELAY_S: Final = 0.02
"""The view shows an event a moment after the log does."""


def run_compensator(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    registry: ToolRegistry,
    stop: threading.Event,
    *,
    read_limit_s: float = 10.0,
    at_once: int = 32,
    door: MetricsSettings | None = None,
) -> None:
    """Performs the plans of unwinding groups until *stop* is set.

    Args:
        registry: the team's tools; an inverse that is not among them goes to a person.
        read_limit_s: seconds that a read before an inverse may take.
        at_once: inverses at the same time; a provider's own bound (`registry.providers`) holds besides.
        door: where it answers for metrics and health; None: nowhere.

    Raises:
        SettingsError: nothing can listen at *door*.
        LogUnreachable: no broker answers at the start.
        DatabaseUnreachable: no database answers at the start.
    """
    clock, name = SystemClock(), f"{COMPENSATOR}:{RandomIds().random_id()}"
    log, reader = KafkaEventLog(log_settings), LogReader(log_settings)
    # Claims of every tenant: the settings' own is nobody's.
    settings = Settings(tenant=COMPENSATOR, bootstrap=log_settings.bootstrap, worker=name, ring=log_settings.ring)
    runner = InverseRunner(
        registry,
        Parts(settings, log, KafkaVerdictInbox(log_settings, name)),
        read_limit_s=read_limit_s,
        at_once=at_once,
    )
    metrics = Metrics({} if door is None else door.providers)
    try:
        with served(door, metrics, database), open_pool(database) as pool:
            groups = PostgresUnwindingGroups(database, pool, range(log.partitions))
            budgets = Budgets(registry.providers, PostgresProviderBudgets(database, pool), clock)
            compensator = Compensator(log, groups, runner, registry, clock, budgets=budgets, health=metrics.health)

            def changed(partitions: Collection[int]) -> None:
                groups.work_for(partitions)
                compensator.shared()

            waker = threading.Thread(
                target=wake,
                args=(reader, compensator, stop),
                kwargs={"waking": _WAKING, "view_delay_s": VIEW_DELAY_S, "log": _LOG},
                name="landed-waker",
                daemon=True,
            )
            sharing = Sharing(
                PostgresReconcilers(database, pool, COMPENSATOR),
                log.partitions,
                changed=changed,
                turned_s=lambda: compensator.turned_s,
                kind=COMPENSATOR,
            )
            with sharing:
                waker.start()
                compensator.run(stop)
            waker.join(2.0)
    finally:
        runner.close()
        reader.close()
        log.close()


def run_until_signal(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    registry: ToolRegistry,
    *,
    read_limit_s: float = 10.0,
    door: MetricsSettings | None = None,
) -> None:
    """As `run_compensator`, in the main thread until the process is asked to end."""
    until_signal(lambda stop: run_compensator(log_settings, database, registry, stop, read_limit_s=read_limit_s, door=door))
