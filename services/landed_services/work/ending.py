"""How a process ends that runs until it is asked to."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


def until_signal(run: Callable[[threading.Event], None]) -> None:
    """Calls *run* in the main thread with an event that is set when the process is asked to end (SIGTERM, SIGINT)."""
    stop = threading.Event()

    def ask_to_end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        run(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
