"""News that came too early is matched again: when an operation with its reference appears, and when the operation has moved.

What is open is read from the view; what follows goes to the log under the ids that the intake would have given it. So several of
these, a crash between two events, and an intake at the same moment change nothing twice.
"""

import logging
import threading
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from landed.core.news import News, one_of
from landed.ports.log import EventLog
from landed.ports.news import NewsTables, OpenNews
from landed.ports.time import Clock
from landed_services.intake.taking import appended, events_of

_LOG = logging.getLogger("landed.intake")
_PAUSE_FOR_A_LOOK: Final = 9.0
_Judged = tuple[str, str, str, str]
"""Tenant, endpoint, webhook id, operation id."""


class NewsMatcher:
    """Matches open news; `run` until stopped, or `tick` by hand.

    Args:
        pause_s: seconds between two looks at the view.
        batch: news that is taken at once.
    """

    def __init__(
        self,
        log: EventLog,
        tables: NewsTables,
        clock: Clock,
        *,
        pause_s: float = 1.0,
        batch: int = 200,
        append_timeout_s: float = 10.0,
    ) -> None:
        self._log = log
        self._tables = tables
        self._clock = clock
        self._pause_s = pause_s
        self._batch = batch
        self._append_timeout_s = append_timeout_s
        self._judged: dict[_Judged, int] = {}
        """Version of the operation at which nothing (more) followed from its news: until it moves there is nothing to do."""

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set; what fails is logged and tried again."""
        pause_s = self._pause_s
        while not stop.wait(pause_s):
            began_s = self._clock.monotonic()
            try:
                self.tick()
            except Exception as error:
                about = {"action": "matcher_error", "error_class": type(error).__name__}
                _LOG.error("the matcher of news pauses", extra=about, exc_info=True)
            # However much foreign news is kept, looking takes a tenth of the time at the most.
            pause_s = max(self._pause_s, _PAUSE_FOR_A_LOOK * (self._clock.monotonic() - began_s))

    def tick(self) -> int:
        """Appends what follows from open news by now; how many events that were."""
        # Those that wait stand in front, and must not hide the others.
        found = self._tables.open(now_ms=self._clock.now_ms(), limit=self._batch + len(self._judged))
        judged, count = {}, 0
        for news, candidates in _by_news(found):
            about = one_of(news, [one.about for one in candidates])
            if about is None:
                continue
            key = (news.tenant_id, news.endpoint, news.webhook_id, about.operation.operation_id)
            version = about.operation.version
            if self._judged.get(key) != version:
                events = events_of(news, about, recorded=candidates[0].recorded)
                if events and not appended(self._log, events, self._append_timeout_s):
                    continue
                count += len(events)
            judged[key] = version
        self._judged = judged
        return count


def _by_news(found: Sequence[OpenNews]) -> list[tuple[News, list[OpenNews]]]:
    """News with all operations that it names: the view gives those of one news in a row."""
    return [(news, list(group)) for news, group in groupby(found, key=lambda one: one.news)]
