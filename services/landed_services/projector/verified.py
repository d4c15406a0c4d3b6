"""What a verification found equal, in a file: a nightly one compares what is new since then, and a sample of the rest.

The file says nothing about a database that was folded anew, or by another release: after either, all is compared once more.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

FORMAT: Final = 1


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What was equal when."""

    landed_verified: int = FORMAT
    release: str
    topic_id: str
    at_ms: int
    """When it was found, milliseconds since the epoch, UTC."""
    until: dict[int, int] = {}
    """Offset of each partition up to which the tables are the fold of the log."""


def remembered(path: Path, *, release: str, topic_id: str) -> Remembered | None:
    """What the file at *path* says of that topic; None where there is none, or it is of another topic, release or format.

    Raises:
        ValueError: it is no such file: it is not overwritten.
        OSError: it cannot be read.
    """
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Remembered)
    except msgspec.DecodeError:
        raise ValueError("is not a file that a verification wrote") from None
    same = found.landed_verified == FORMAT and found.release == release and found.topic_id == topic_id
    return found if same else None


def remember(path: Path, what: Remembered) -> None:
    """Writes the file at *path*, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(what)) + b"\n")
    os.replace(beside, path)
