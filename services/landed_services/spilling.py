"""Values that do not fit into memory: in files that only this process sees and that are gone with it."""

import os
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

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
        weakref.finalize(self, self._file.close)
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


class Spool(Generic[T]):
    """Values in the order in which they were added, to be read any number of times: the first ones in memory, then in a file.

    Args:
        kind: what msgspec can write and read.
        held_max: values in memory; beyond it all are in the file.
        path: where the file is to be, to be read with `spooled` by another process; None: where nobody else sees it.
    """

    def __init__(self, kind: Any, *, held_max: int = 10_000, path: Path | None = None) -> None:
        self._path = path
        self._held: list[T] = []
        self._held_max = held_max
        self._file: BinaryIO | None = None
        self._count = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def add(self, value: T) -> None:
        self._count += 1
        self._held.append(value)
        if len(self._held) > self._held_max:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            # Closed with this value.
            self._file = cast("BinaryIO", tempfile.TemporaryFile() if self._path is None else self._path.open("w+b"))  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        self._file.seek(0, os.SEEK_END)
        encoded = [self._encode(value) for value in self._held]
        self._file.write(b"".join([part for data in encoded for part in (len(data).to_bytes(4, "big"), data)]))
        self._held.clear()

    def finish(self) -> None:
        """Has all that was added in the file."""
        self._write()
        assert self._file is not None
        self._file.flush()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Nothing may be added meanwhile, and one reading has to end before the next begins."""
        if self._file is not None:
            self._file.seek(0)
            yield from _values(self._file, self._decode)
        yield from self._held


def spooled(kind: Any, path: Path) -> Iterator[Any]:
    """What a `Spool` of *kind* left in the file at *path*."""
    with path.open("rb") as file:
        yield from _values(file, msgspec.msgpack.Decoder(kind).decode)


def _values(file: BinaryIO, decode: Callable[[bytes], Any]) -> Iterator[Any]:
    while size := file.read(4):
        yield decode(file.read(int.from_bytes(size, "big")))
