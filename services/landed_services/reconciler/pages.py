"""What is due, in bounded pages, most at stake first: nothing is remembered of what waits."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from landed.ports.tables import DueOperation, DueOperations
from landed.ports.time import Clock

PASS_S: Final = 2.0
"""Seconds after which a pass over what is due begins anew, so that what came up meanwhile and matters more is not left behind."""
_GAP_S: Final = 0.02
_ASIDE_S: Final = 0.25


class DuePages:
    """Operations that are due, one after the other. A pass goes on where the last page ended, so that what is under way, and
    shows in the view as due for a moment longer, hides nothing.

    Args:
        size: operations of a page; no more are held.
        again_s: pause after a pass that reached the end, seconds; `wake` ends it.
    """

    def __init__(self, tables: DueOperations, clock: Clock, *, size: int, again_s: float) -> None:
        self._tables = tables
        self._clock = clock
        self._size = size
        self._again_s = again_s
        self._page: deque[DueOperation] = deque()
        self._aside: deque[DueOperation] = deque(maxlen=size)
        self._after: Sequence[object] | None = None
        self._began_s = float("-inf")
        self._read_s = float("-inf")
        self._ended = True
        self._woken = True

    def wake(self) -> None:
        """There may be something new."""
        self._woken = True

    def forget(self) -> None:
        """What was read is not to be worked on: it is somebody else's now."""
        self._page.clear()
        self._aside.clear()
        self._ended = self._woken = True

    def put_aside(self, due: DueOperation) -> None:
        """Nothing can be begun for the tool of *due* now: it comes first after `resume`, in this pass."""
        self._aside.append(due)

    def resume(self) -> None:
        """What was put aside comes next."""
        self._page.extendleft(reversed(self._aside))
        self._aside.clear()

    def next(self, now_ms: int, closed_tools: Callable[[], Sequence[str]]) -> DueOperation | None:
        """The next one; None when nothing is known to be due now.

        Args:
            now_ms: on the log's clock.
            closed_tools: tools that nothing but the end of a lease can be begun for.
        """
        if not self._page and self._is_time():
            self._read(now_ms, closed_tools())
        return self._page.popleft() if self._page else None

    def _is_time(self) -> bool:
        now_s = self._clock.monotonic()
        if self._aside and now_s - self._read_s < _ASIDE_S:
            return False  # there may be room for them in a moment
        if not self._ended and now_s - self._began_s < PASS_S:
            return True
        if now_s - self._read_s < (_GAP_S if self._woken or not self._ended else self._again_s):
            return False
        self._after, self._began_s, self._woken = None, now_s, False
        self._aside.clear()
        return True

    def _read(self, now_ms: int, closed_tools: Sequence[str]) -> None:
        self._read_s = self._clock.monotonic()
        found = self._tables.due(now_ms=now_ms, limit=self._size, after=self._after, closed_tools=closed_tools)
        self._page.extend(found)
        self._ended = len(found) < self._size
        self._after = found[-1].place if found else None
