"""The projector as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the batch at hand."""

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed_services.collecting import collect_rarely
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
