"""Values by key that do not fit into memory: in a file that only this process sees and that is gone with it."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_AT_ONCE = 500
"""Keys of one look-up."""


class Spill(Generic[T]):
    """Values of one type by key. Not shared between threads.

    Args:
        kind: what msgspec can write and read.
    """

    def __init__(self, kind: Any) -> None:
        # No name: a file of its own in the system's place for temporary ones, opened when it is needed and never seen by others.
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("CREATE TABLE kept (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def put(self, pairs: Iterable[tuple[bytes, T]]) -> None:
        """Keeps each value under its key, in place of what was there."""
        encode = self._encode
        self._file.execute("BEGIN")
        self._file.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", ((key, encode(value)) for key, value in pairs))
        self._file.execute("COMMIT")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, T]:
        """Those of *keys* that are kept."""
        left, found = list(keys), dict[bytes, T]()
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            asked = ", ".join("?" * len(some))
            for key, value in self._file.execute(f"SELECT key, value FROM kept WHERE key IN ({asked})", some):
                found[key] = self._decode(value)
        return found

    def items(self) -> Iterator[tuple[bytes, T]]:
        """All that is kept, in the order of the bytes of the keys. Nothing may be put meanwhile."""
        for key, value in self._file.execute("SELECT key, value FROM kept ORDER BY key"):
            yield key, self._decode(value)

    def close(self) -> None:
        self._file.close()
