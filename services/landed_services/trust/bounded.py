"""Runs the team's own code with a bound on its time."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T], *, name: str) -> T:
    """What *call* returns, raises what it raises.

    Raises:
        TimeoutError: it takes longer than *limit_s* seconds; it cannot be ended from outside and is left behind.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:
            raised.append(error)

    # A daemon: what hangs must not keep the process from ending.
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    if not returned:
        raise TimeoutError
    return returned[0]
