"""A real Apache Kafka and a real PostgreSQL from packages alone: no Docker, no root, no Java, no database needed.

``up`` starts them in the background and finds them again, ``down`` ends them, ``embedded`` ties them to a ``with``
block and to the life of this process. ``servers`` is what most callers want: explicit settings
(``LANDED_KAFKA_BOOTSTRAP``, ``LANDED_DATABASE_URL``) first, embedded servers else. Both listen on 127.0.0.1 only;
PostgreSQL asks for a random password, Kafka for none: other accounts of the machine can reach it.

    >>> with embedded("/tmp/ledger") as running:          # doctest: +SKIP
    ...     print(running.bootstrap, running.database_url)
"""

from ._doctor import Finding, Level, doctor
from ._downloads import fetch
from ._errors import (
    DownloadFailed,
    EmbeddedError,
    FolderInUse,
    FolderUnusable,
    MissingExtra,
    NotRunning,
    PortTaken,
    ServerFailed,
    SetupError,
    WrongSetting,
)
from ._folder import cache_folder, data_folder, log_tail
from ._instance import Ended, Running, down, embedded, found, up, watched
from ._part import BOTH, Part
from ._progress import Progress, Step, silent, to_stderr
from ._servers import Servers, find_servers, servers

__all__ = [
    "BOTH",
    "DownloadFailed",
    "EmbeddedError",
    "Ended",
    "Finding",
    "FolderInUse",
    "FolderUnusable",
    "Level",
    "MissingExtra",
    "NotRunning",
    "Part",
    "PortTaken",
    "Progress",
    "Running",
    "ServerFailed",
    "Servers",
    "SetupError",
    "Step",
    "WrongSetting",
    "cache_folder",
    "data_folder",
    "doctor",
    "down",
    "embedded",
    "fetch",
    "find_servers",
    "found",
    "log_tail",
    "servers",
    "silent",
    "to_stderr",
    "up",
    "watched",
]
