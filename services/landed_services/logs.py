"""What the services say, as one JSON object a line on standard error."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_TALKATIVE: Final = ("httpx", "httpx2")
"""Libraries under the client of a schema registry: a line for every request, one for each schema at every start."""
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object: `event`, `level`, `logger`, what was given as `extra` (`action` and the ids), `timestamp` (UTC), and
    `exception` where there is one.

    A fifth of what a reconciler did was to format its lines with a chain of processors; so this one does no more than this.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        for name, value in record.__dict__.items():
            if name not in _OF_EVERY_RECORD:
                line[name] = value
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            return _ENCODER.encode(line).decode()
        except Exception:
            # Text that UTF-8 cannot carry, keys that are no text: a line is written all the same.
            return json.dumps(line, default=repr, skipkeys=True)


def log_as_json(level: int = logging.INFO) -> None:
    """From now on this process says what it does in `JsonLines` on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # No line tells of them, and each record would be asked for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
