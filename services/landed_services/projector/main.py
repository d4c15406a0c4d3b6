"""The projector as a process of its own: composed from settings, ended by SIGTERM or SIGINT after the batch at hand."""

import signal
import threading
from types import FrameType

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed_services.projector.loop import Projector


def run_projector(log_settings: KafkaSettings, database: PostgresSettings, *, name: str = "projector") -> None:
    """Runs a projector in the main thread until the process is asked to end; raises as `Projector.run` does."""
    stop = threading.Event()

    def ask_to_end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        Projector(log_settings, database, name=name).run(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
