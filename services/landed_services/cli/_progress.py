"""How far a long reading is, for a person who watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from landed_services.progress import Progress, Say


@contextmanager
def progress() -> Iterator[Say | None]:
    """Says on a terminal how far a reading is, in one line that goes away; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return

    def say(now: Progress) -> None:
        left = "" if now.left_s is None else f", {now.left_s:.0f} s left"
        print(f"\r{now.done:,} of {now.total:,} offsets, {now.rate:,.0f}/s{left}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
