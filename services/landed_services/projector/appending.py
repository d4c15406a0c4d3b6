"""Decisions on their way to the log: sent in the order of the commits, and not waited for."""

import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from landed.core import events as ev
from landed.ports.log import Appended, AppendFailed, EventLog
from landed.testing.failure_points import reach

APPEND_TIMEOUT_S: Final = 10.0


class Appending:
    """What one session sent and the log has not acknowledged."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._sent: deque[tuple[Future[Appended], float]] = deque()

    def send(self, events: Iterable[ev.Event]) -> None:
        """Sends decisions in the order of the commits, without waiting: they come back by themselves."""
        deadline = time.monotonic() + APPEND_TIMEOUT_S
        for event in events:
            self._sent.append((self._event_log.append(event), deadline))
            reach("projector.decision_sent")

    def acknowledged(self, *, wait: bool = False) -> None:
        """Takes note of acknowledgements.

        Args:
            wait: for all that is sent.

        Raises:
            AppendFailed: one failed, or did not come in time: the next session appends what the outbox still holds.
        """
        while self._sent:
            future, deadline = self._sent[0]
            if not future.done() and not wait and time.monotonic() < deadline:
                return
            try:
                future.result(timeout=max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise AppendFailed(f"a decision was not acknowledged within {APPEND_TIMEOUT_S:g} s") from None
            self._sent.popleft()
