"""Times as people give them."""

from __future__ import annotations

import datetime
import re

from ._exit import CommandFailed, Exit

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def instant(option: str, text: str, now_ms: int) -> int:
    """Milliseconds since the epoch, UTC, of a time (`2026-11-30T08:00`), or of a span before now (`7d`, `36h`, `10m`)."""
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now_ms - int(span[1]) * _SECONDS[span[2]] * 1000
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{option}: must be a time as 2026-11-30T08:00 or a span as 7d, not {text!r}", Exit.USAGE) from None
    aware = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    return round(aware.timestamp() * 1000)
