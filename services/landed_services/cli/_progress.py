"""How far long work is, for a person who watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from landed_services.progress import Progress, Say


@contextmanager
def progress(unit: str = "offsets") -> Iterator[Say | None]:
    """Says on a terminal how far it is, in one line that goes away; None where nobody watches.

    Args:
        unit: what is counted.
    """
    if not sys.stderr.isatty():
        yield None
        return

    def say(now: Progress) -> None:
        digits = 0 if now.rate >= 10 else 1
        left = "" if now.left_s is None else f", {now.left_s:.0f} s left"
        print(
            f"\r{now.done:,} of {now.total:,} {unit}, {now.rate:,.{digits}f}/s{left}\033[K", end="", file=sys.stderr, flush=True
        )

    try:
        yield say
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
