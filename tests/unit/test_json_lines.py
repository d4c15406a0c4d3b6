"""Lines of the services: one JSON object each, whatever is said."""

import json
import logging
import subprocess
import sys
from typing import Any

from landed_services.logs import JsonLines


def _line(message: str, *args: object, exc_info: Any = None, **extra: object) -> dict[str, Any]:
    record = logging.makeLogRecord(
        {"name": "landed.reconciler", "levelname": "WARNING", "msg": message, "args": args, "exc_info": exc_info, "created": 1.25}
        | extra
    )
    text = JsonLines().format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_holds_what_was_said_and_given_and_when_in_utc_and_nothing_of_the_process() -> None:
    assert _line("%s of %d", "one", 2, action="probe_failed", events=["a", "b"], tenant_id="acmé") == {
        "event": "one of 2",
        "level": "warning",
        "logger": "landed.reconciler",
        "action": "probe_failed",
        "events": ["a", "b"],
        "tenant_id": "acmé",
        "timestamp": "1970-01-01T00:00:01.250000Z",
    }


def test_a_line_holds_its_error_with_the_traceback() -> None:
    try:
        raise ValueError("no such thing")
    except ValueError as error:
        line = _line("reconciler pauses", exc_info=(type(error), error, error.__traceback__))
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("ValueError: no such thing")


def test_a_line_is_written_of_values_that_json_does_not_know() -> None:
    assert _line("x", given={1, 2} - {2}, odd=object)["odd"] == repr(object)
    assert _line("x", route="\ud800", keys={(1, 2): 3, "a": 4}) == {**_line("x"), "route": "\ud800", "keys": {"a": 4}}


def test_what_a_registry_was_asked_for_is_no_line() -> None:
    code = """
import logging
from landed_services.logs import log_as_json
log_as_json()
logging.getLogger("httpx2").info("HTTP Request: POST /subjects/x")
logging.getLogger("httpx2").warning("slow")
logging.getLogger("landed.projector").info("caught up")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line)["event"] for line in ran.stderr.splitlines()] == ["slow", "caught up"]
