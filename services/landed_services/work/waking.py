"""What wakes a service that reads its work from the view: an event on the log, and the end that its process is asked for."""

import logging
import threading
from collections.abc import Collection
from typing import Protocol

from landed.adapters.kafka import LogReader
from landed.wire.records import HEADER_TYPE


class Woken(Protocol):
    """A loop that looks by itself now and then, and at once when it is woken."""

    def heard(self, at_ms: int) -> None: ...

    def wake(self) -> None: ...


def wake(
    reader: LogReader,
    woken: Woken,
    stop: threading.Event,
    *,
    waking: Collection[bytes],
    view_delay_s: float,
    log: logging.Logger,
) -> None:
    """Wakes *woken* when the log tells of something that may be due, until *stop*; without it the work is found a moment later.

    Args:
        waking: event types after which something may be due.
        view_delay_s: seconds by which the view shows an event later than the log does.
    """
    try:
        reader.assign(reader.end_offsets())
        while not stop.is_set():
            records = reader.poll(500, 0.2)
            if records and (at_ms := records[-1].timestamp_ms) is not None:
                woken.heard(at_ms)
            if any(value in waking for record in records for name, value in record.headers if name == HEADER_TYPE):
                stop.wait(view_delay_s)
                woken.wake()
    except Exception:
        log.exception("nothing wakes this service any more, it looks by itself", extra={"action": "waker_ended"})
