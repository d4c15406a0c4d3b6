"""A projector of its own process, for tests that kill it: `projector_process.py BOOTSTRAP TOPIC REPLIES DATABASE_URL`."""

import ctypes
import os
import signal
import sys

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.wire.mac import KeyRing
from landed_services.metrics import metrics_settings
from landed_services.projector.main import run_projector

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)
PR_SET_PDEATHSIG = 1


def main(bootstrap: str, topic: str, replies_topic: str, database_url: str) -> None:
    # It must not outlive the tests, however they end.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ["LANDED_TEST_OWNER"]):
        sys.exit(1)
    run_projector(
        KafkaSettings(bootstrap=bootstrap, ring=RING, topic=topic, replies_topic=replies_topic),
        PostgresSettings(url=database_url),
        door=metrics_settings(os.environ),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
