"""The projector as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the batch at hand."""

import gc

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed_services.logs import log_as_json
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.projector.loop import Projector
from landed_services.work.ending import until_signal


def run_projector(
    log_settings: KafkaSettings, database: PostgresSettings, *, name: str = "projector", door: MetricsSettings | None = None
) -> None:
    """Runs a projector in the main thread until the process is asked to end.

    Args:
        door: where it answers for metrics and health; None: nowhere.

    Raises:
        SettingsError: nothing can listen at *door*. Else as `Projector.run`.
    """
    log_as_json()
    collect_rarely()
    metrics = Metrics({} if door is None else door.providers)
    with served(door, metrics, database):
        until_signal(Projector(log_settings, database, name=name, metrics=metrics).run)


def collect_rarely() -> None:
    """Lets the garbage collector look for cycles less often: states form none, and going through all that are held costs a
    tenth of a rebuild. For a process of its own; whoever runs a projector in a thread decides for himself."""
    gc.set_threshold(50_000, 20, 100)


def collect_never() -> None:
    """As `collect_rarely`, for a process that folds once and ends: what it holds is there until its end anyway."""
    gc.disable()
