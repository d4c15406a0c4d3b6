"""Points of a log as people write them: `2026-11-30T09:17:05Z`, or `3:812` for an offset of a partition."""

import re
from datetime import UTC, datetime
from typing import Final

from landed_services.replay.scope import Cut

FORM: Final = (
    "must be a time with its date, such as 2026-11-30T09:17:05 (UTC where no zone is said), or partition:offset, such as 3:812"
)
_OFFSET: Final = re.compile(r"(\d{1,9}):(\d{1,18})")


def point(text: str) -> Cut:
    """The point that *text* names. A time takes in all that was appended in its last millisecond.

    Raises:
        ValueError: it names none; says the rule.
    """
    if (found := _OFFSET.fullmatch(text.strip())) is not None:
        return Cut(partition=int(found[1]), offset=int(found[2]))
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(FORM) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    # Not by `timestamp`, whose fractions are binary: a millisecond would be lost now and then.
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    at_ms = since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000
    if at_ms < 0:
        raise ValueError("must not lie before 1970")
    return Cut(at_ms=at_ms)
