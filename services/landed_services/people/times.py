"""Times as people read them."""

from datetime import UTC, datetime


def utc(at_ms: int) -> str:
    """*at_ms* (milliseconds since the epoch) as `2026-01-31 12:00:05 UTC`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def age(seconds: float) -> str:
    """*seconds* as `12 s`, `5 min`, `3.0 h` or `2.0 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
