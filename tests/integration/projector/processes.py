"""Projectors in processes of their own, for tests that kill or stop them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.testing.failure_points import SETTING


@contextmanager
def projector_process(
    log_settings: KafkaSettings, database: PostgresSettings, *, failing: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A projector in a process of its own, killed with -9 at the end of the block if it has not ended before.

    Args:
        failing: the failure point at which it is killed or stopped.
    """
    script = Path(__file__).with_name("projector_process.py")
    settings = [log_settings.bootstrap, log_settings.topic, log_settings.replies_topic, database.url]
    environment = {**os.environ, "LANDED_TEST_OWNER": str(os.getpid()), SETTING: failing}
    with subprocess.Popen([sys.executable, str(script), *settings], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def is_running(process: subprocess.Popen[bytes]) -> bool:
    """Whether *process* is neither stopped nor ended."""
    if process.poll() is not None:
        return False
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in "TtZX"
