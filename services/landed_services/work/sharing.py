"""Which partitions this replica works for, among those that are there.

Everybody says every second that it is there, sees who else is, and computes the same shares from the same names. None of it
carries a guarantee: two that work on one operation for a moment say the same, and the fold takes it once. It saves looks.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from landed.adapters.postgres import DatabaseError

_LOG = logging.getLogger("landed.work")
BEAT_S: Final = 1.0
DEAD_AFTER_S: Final = 4.0
"""Silence after which the others take over: several beats."""
STUCK_AFTER_S: Final = 30.0
"""A replica whose loop made no turn for so long says no more that it is there. Longer than any wait of a turn."""


class Reconcilers(Protocol):
    """Who is there (`landed.adapters.postgres.PostgresReconcilers`)."""

    def beat(self, name: str, *, dead_after_ms: int) -> Sequence[str]: ...

    def leave(self, name: str) -> None: ...


def share_of(name: str, live: Sequence[str], partitions: int) -> range:
    """Partitions of *name* among *live*, which everybody sees in the same order: each has as many, give or take one. Pure."""
    return range(live.index(name), partitions, len(live))


class Sharing:
    """This replica among the others, from `__enter__` to `__exit__`.

    Args:
        partitions: how many there are.
        changed: told the partitions of this replica whenever they change.
        kind: what the name begins with.
        turned_s: when the loop made its last turn, by `time.monotonic`.
    """

    def __init__(
        self,
        reconcilers: Reconcilers,
        partitions: int,
        *,
        changed: Callable[[Collection[int]], None],
        turned_s: Callable[[], float],
        kind: str = "reconciler",
    ) -> None:
        self.name = f"{kind}-{uuid.uuid4().hex[:12]}"
        self._reconcilers = reconcilers
        self._partitions = partitions
        self._changed = changed
        self._turned_s = turned_s
        self._mine: Collection[int] = range(partitions)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="landed-sharing", daemon=True)

    def __enter__(self) -> "Sharing":
        self.beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(5.0)
        with contextlib.suppress(DatabaseError):  # it falls silent, and that says the same
            self._reconcilers.leave(self.name)

    def beat(self) -> None:
        """Says that it is there, and takes its share.

        Raises:
            DatabaseError: it could not be said.
        """
        live = self._reconcilers.beat(self.name, dead_after_ms=round(DEAD_AFTER_S * 1000))
        mine = share_of(self.name, live, self._partitions)
        if mine != self._mine:
            self._mine = mine
            _LOG.info("shares changed", extra={"action": "shares_changed", "replicas": len(live), "partitions": list(mine)})
            self._changed(mine)

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            if time.monotonic() - self._turned_s() > STUCK_AFTER_S:
                continue
            try:
                self.beat()
            except DatabaseError as error:
                # The loop itself says so, and goes on with what it had.
                _LOG.debug("no beat: %s", type(error).__name__, extra={"action": "no_beat"})
