"""What is going on, for whoever wants to show it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happens while servers start; downloads also say how far they are."""

    text: str
    bytes_done: int = 0
    bytes_total: int = 0  # 0: not a download


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Show nothing."""


def to_stderr(step: Step) -> None:
    """Print each step as a line on standard error, of a download its end only."""
    if not step.bytes_total:
        print(step.text, file=sys.stderr, flush=True)


def serialised(progress: Progress) -> Progress:
    """*progress*, called by one thread at a time."""
    lock = threading.Lock()

    def call(step: Step) -> None:
        with lock:
            progress(step)

    return call
