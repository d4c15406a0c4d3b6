"""What is due, in bounded pages, most at stake first: nothing is remembered of what waits."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
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
        self._numbers = count()
        self._page: deque[tuple[int, DueOperation]] = deque()
        self._aside: dict[str, deque[tuple[int, DueOperation]]] = {}
        """By tool, in the order in which they were read: so one tool that nothing can be begun for costs a tick next to nothing,
        however many wait for it."""
        self._aside_count = 0
        self._given = -1
        """Number of what `next` gave last."""
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
        self._clear_aside()
        self._ended = self._woken = True

    def put_aside(self, due: DueOperation) -> None:
        """There is no room for *due*, which `next` gave last: it comes first, in this pass, once there is room for its tool."""
        if self._aside_count >= self._size:
            return  # less is at stake than with those that wait already; the next pass finds it again
        waiting = self._aside.setdefault(due.operation.tool or "", deque())
        if waiting and self._given < waiting[0][0]:
            waiting.appendleft((self._given, due))
        else:
            waiting.append((self._given, due))
        self._aside_count += 1

    def next(self, now_ms: int, closed_tools: Callable[[], Sequence[str]], no_room: Collection[str] = ()) -> DueOperation | None:
        """The next one; None when nothing is known to be due now.

        Args:
            now_ms: on the log's clock.
            closed_tools: tools that nothing but the end of a lease can be begun for.
            no_room: tools of which nothing that was put aside can be begun.
        """
        found = self._from_aside(no_room) if self._aside_count else None
        if found is None:
            if not self._page and self._is_time():
                self._read(now_ms, closed_tools())
            if not self._page:
                return None
            found = self._page.popleft()
        self._given, due = found
        return due

    def _from_aside(self, no_room: Collection[str]) -> tuple[int, DueOperation] | None:
        open_ = [waiting for tool, waiting in self._aside.items() if waiting and tool not in no_room]
        if not open_:
            return None
        self._aside_count -= 1
        return min(open_, key=_first_number).popleft()

    def _clear_aside(self) -> None:
        self._aside.clear()
        self._aside_count = 0

    def _is_time(self) -> bool:
        now_s = self._clock.monotonic()
        if self._aside_count and now_s - self._read_s < _ASIDE_S:
            return False  # there may be room for them in a moment
        if not self._ended and now_s - self._began_s < PASS_S:
            return True
        if now_s - self._read_s < (_GAP_S if self._woken or not self._ended else self._again_s):
            return False
        self._after, self._began_s, self._woken = None, now_s, False
        self._clear_aside()
        return True

    def _read(self, now_ms: int, closed_tools: Sequence[str]) -> None:
        self._read_s = self._clock.monotonic()
        found = self._tables.due(now_ms=now_ms, limit=self._size, after=self._after, closed_tools=closed_tools)
        self._page.extend(zip(self._numbers, found, strict=False))
        self._ended = len(found) < self._size
        self._after = found[-1].place if found else None


def _first_number(waiting: deque[tuple[int, DueOperation]]) -> int:
    return waiting[0][0]
