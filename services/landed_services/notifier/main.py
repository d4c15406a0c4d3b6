"""The notifier as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the tries at hand."""

import threading
from collections.abc import Sequence

from landed.adapters.postgres import PostgresSettings, check_schema, connect, open_pool
from landed.adapters.postgres.notifications import PostgresNotifications
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.notifier.loop import USUAL, Notifier, Pace
from landed_services.notifier.receivers import Receiver
from landed_services.work.ending import until_signal


def run_notifier(
    database: PostgresSettings,
    receivers: Sequence[Receiver],
    stop: threading.Event,
    *,
    pace: Pace = USUAL,
    door: MetricsSettings | None = None,
) -> None:
    """Tells *receivers* until *stop* is set.

    Args:
        door: where it answers for metrics and health; None: nowhere.

    Raises:
        SettingsError: nothing can listen at *door*.
        DatabaseUnreachable: no database answers at the start.
        SchemaOutdated: the tables are of another release.
    """
    with connect(database) as connection:
        check_schema(database, connection)
    metrics = Metrics({} if door is None else door.providers)
    with served(door, metrics, database), open_pool(database, size_max=len(receivers) + 2) as pool:
        Notifier(receivers, PostgresNotifications(database, pool), pace=pace, health=metrics.health).run(stop)


def run_until_signal(
    database: PostgresSettings, receivers: Sequence[Receiver], *, pace: Pace = USUAL, door: MetricsSettings | None = None
) -> None:
    """As `run_notifier`, in the main thread until the process is asked to end."""
    until_signal(lambda stop: run_notifier(database, receivers, stop, pace=pace, door=door))
