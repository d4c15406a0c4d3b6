"""A bundle: part of a log in one file, to be read anywhere, also by later releases, and refused once it was touched.

A gzip file of JSON lines: head, schemas, records, end. Each line after the head carries a link of a chain, SHA-256 over the link
before it and its own content, so the first line that was changed, taken out or put in is known by its place. The end signs the
last link with the key of the writer that exported; records keep their own MACs.

What a record says is on the log already redacted. Headers that are not the ledger's are left out, and of a record that was not
taken, whose content nobody vouches for, only its place, its digest and the reason are kept.

The schemas of a bundle are used only where its signature is proven: code is generated from schemas, so they are taken from nobody
but the holder of a key.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import msgspec

import landed_schemas
from landed.core.events import CATALOGUE
from landed.wire.codec import Codec
from landed.wire.mac import KeyRing
from landed.wire.records import HEADER_KEY_ID, HEADER_MAC, HEADER_SCHEMA, HEADER_TRACE, HEADER_TYPE, Record
from landed_services.reading import Item, Refused, read_item
from landed_services.replay.errors import BundleRefused, NoBundle

FORMAT: Final = 1
_OURS: Final = frozenset({HEADER_TYPE, HEADER_SCHEMA, HEADER_KEY_ID, HEADER_MAC, HEADER_TRACE})
_SIGNED: Final = b"landed.bundle.v1"
_LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Longest line that is read: the largest record in Base64, several times."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    landed_bundle: int
    """Format."""
    release: str
    """Of landed, that wrote it."""
    topic: str
    partitions: int
    scope: dict[str, str]
    """What was asked for, as text."""
    made_at_ms: int


class _SchemaLine(msgspec.Struct, frozen=True, kw_only=True, tag="schema", tag_field="is"):
    event: str
    avsc: str
    """The schema that records of the bundle were written under, as JSON."""
    link: str = ""


class _RecordLine(msgspec.Struct, frozen=True, kw_only=True, tag="record", tag_field="is", omit_defaults=True):
    partition: int
    offset: int
    at_ms: int | None
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes]] = []
    reason: str | None = None
    """Why the record was not taken; it has no content then."""
    field: str = ""
    digest: str = ""
    link: str = ""


class _EndLine(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="is"):
    key_id: str | None = None
    signature: str | None = None
    link: str = ""


_Line = _SchemaLine | _RecordLine | _EndLine
_HEAD: Final = msgspec.json.Decoder(Head)
_LINE: Final = msgspec.json.Decoder(_Line)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a file."""

    records: int
    schemas: int
    signed_by: str | None
    """Key id; None: this process has no key to sign with."""


def write_bundle(path: Path, head: Head, items: Iterable[Item], ring: KeyRing) -> Written:
    """Writes *items* to *path*, in their order. A file of that name is never overwritten, and a bundle is whole or not there.

    Raises:
        FileExistsError: there is a file of that name.
        OSError: it cannot be written.
    """
    if path.exists():
        raise FileExistsError(path)
    part = path.with_name(path.name + ".part")
    schemas, records, link = _schemas(), 0, hashlib.sha256(msgspec.json.encode(head)).hexdigest()
    try:
        # No time and no name in the gzip header: equal content gives equal bytes.
        with part.open("xb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
            file.write(msgspec.json.encode(head) + b"\n")
            for one in schemas:
                link = _put(file, one, link)
            for item in items:
                link = _put(file, _record_line(item), link)
                records += 1
            signed = ring.sign(_SIGNED, link.encode())
            key_id, signature = (None, None) if signed is None else (signed[0], signed[1].decode())
            _put(file, _EndLine(key_id=key_id, signature=signature), link)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Written(records=records, schemas=len(schemas), signed_by=key_id)


def _put(file: gzip.GzipFile, line: _Line, before: str) -> str:
    link = _link(line, before)
    file.write(msgspec.json.encode(msgspec.structs.replace(line, link=link)) + b"\n")
    return link


def _link(line: _Line, before: str) -> str:
    """Over the content of *line* without its own link."""
    return hashlib.sha256(before.encode() + msgspec.json.encode(msgspec.structs.replace(line, link=""))).hexdigest()


def _schemas() -> list[_SchemaLine]:
    """All that this release reads: a few kilobytes, and no second pass over the records."""
    known = (*_released(), *landed_schemas.schemas().items())
    found = {landed_schemas.fingerprint(schema): (name, schema) for name, schema in known}
    return [_SchemaLine(event=name, avsc=json.dumps(_plain(schema), sort_keys=True)) for name, schema in found.values()]


def _released() -> Iterator[tuple[str, landed_schemas.Schema]]:
    for shipped in landed_schemas.released().values():
        yield from shipped.items()


def _plain(schema: Any) -> Any:
    """*schema* without what the library notes in it for itself."""
    if isinstance(schema, Mapping):
        return {name: _plain(value) for name, value in schema.items() if not name.startswith("__")}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


def _record_line(item: Item) -> _RecordLine:
    record, what = item.record, item.what
    if isinstance(what, Refused):
        return _RecordLine(
            partition=record.partition,
            offset=record.offset,
            at_ms=record.timestamp_ms,
            reason=what.reason,
            field=what.field,
            digest=what.digest,
        )
    return _RecordLine(
        partition=record.partition,
        offset=record.offset,
        at_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=[(name, value) for name, value in record.headers if name in _OURS and value is not None],
    )


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a bundle once all of it was read."""

    head: Head
    records: int
    signed_by: str | None
    """Key id that it was signed under; None: it was not signed."""
    proven: bool
    """Whether this process holds that key and the signature is right. Without the key, a bundle that somebody made anew whole
    cannot be told from a true one."""


class Bundle:
    """A file as a log. Checked whole when it is opened, before anything in it is believed.

    Raises:
        NoBundle: it is no bundle, or of a format that this release does not know.
        BundleRefused: it was changed; names the first bad record.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, ring: KeyRing) -> None:
        self._path, self._ring = path, ring
        self._codec: Codec | None = None
        self.checked: Final = self._check()

    def items(self) -> Iterator[Item]:
        """What the records are to the fold, in the order in which they were exported.

        Raises:
            BundleRefused: the file changed since it was opened, or a record under a key of this process does not bear it out.
        """
        for number, line in self._lines():
            if isinstance(line, _RecordLine):
                yield self._item(line, number)

    def _check(self) -> Checked:
        records, end = 0, None
        schemas: list[_SchemaLine] = []
        for number, line in self._lines():
            if isinstance(line, _SchemaLine):
                schemas.append(line)
            elif isinstance(line, _RecordLine):
                records += 1
            else:
                end = line, number
        # `_lines` gives an end or raises.
        line, number = cast("tuple[_EndLine, int]", end)
        proven = self._proven(line, number)
        if proven:
            self._codec = Codec(landed_schemas.schemas(), (*_released(), *self._newer(schemas)))
        return Checked(head=self._head, records=records, signed_by=line.key_id, proven=proven)

    def _newer(self, schemas: Iterable[_SchemaLine]) -> Iterator[tuple[str, landed_schemas.Schema]]:
        """Schemas of events that this release has, as the bundle wrote them."""
        for line in schemas:
            if line.event in CATALOGUE:
                yield line.event, landed_schemas.parse(line.avsc)

    def _proven(self, end: _EndLine, number: int) -> bool:
        if end.key_id is None or end.signature is None:
            if self._ring.mandatory:
                self._refuse(number, "it is not signed, and keys are set, so a signature is required")
            return False
        refused = self._ring.verify(_SIGNED, self._last_link.encode(), end.key_id, end.signature.encode())
        if refused is not None:
            self._blame()
            self._refuse(number, f"its signature under key {end.key_id}: {refused}")
        return self._ring.holds(end.key_id)

    def _blame(self) -> None:
        """Where the chain was made anew around a changed record: the record's own MAC names it."""
        for _ in self.items():
            pass

    def _lines(self) -> Iterator[tuple[int, _Line]]:
        """Every line after the head with its number, once its link is proven."""
        link, ended, number = "", False, 0
        place = "the head"
        try:
            with gzip.open(self._path, "rb") as file:
                while text := file.readline(_LINE_BYTES_MAX):
                    number += 1
                    if number == 1:
                        self._head = self._read_head(text)
                        link = hashlib.sha256(msgspec.json.encode(self._head)).hexdigest()
                        continue
                    if ended:
                        self._refuse(number, "something follows the end")
                    line = self._read_line(text, number, place)
                    place = _place(line)
                    if _link(line, link) != line.link:
                        self._refuse(number, f"{place} is not what was exported")
                    self._last_link, link = link, line.link
                    ended = isinstance(line, _EndLine)
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if number == 0:
                raise NoBundle(f"{self._path}: is not a bundle: {error}") from error
            self._refuse(number + 1, f"what follows {place} cannot be unpacked")
        if number == 0:
            raise NoBundle(f"{self._path}: is empty")
        if not ended:
            self._refuse(number + 1, f"it breaks off after {place}")

    def _read_head(self, text: bytes) -> Head:
        try:
            head = _HEAD.decode(text)
        except msgspec.MsgspecError as error:
            raise NoBundle(f"{self._path}: is not a bundle: {error}") from error
        if head.landed_bundle != FORMAT:
            raise NoBundle(f"{self._path}: is a bundle of format {head.landed_bundle}; this release reads format {FORMAT}")
        return head

    def _read_line(self, text: bytes, number: int, before: str) -> _Line:
        try:
            return _LINE.decode(text)
        except msgspec.MsgspecError:
            self._refuse(number, f"what follows {before} cannot be read")

    def _item(self, line: _RecordLine, number: int) -> Item:
        record = Record(
            key=line.key,
            value=line.value,
            headers=tuple(line.headers),
            partition=line.partition,
            offset=line.offset,
            timestamp_ms=line.at_ms,
        )
        if line.reason is not None:
            return Item(record=record, what=Refused(reason=line.reason, field=line.field, at_ms=line.at_ms, digest=line.digest))
        item = read_item(record, ring=self._ring, partitions=self._head.partitions, using=self._codec)
        if isinstance(item.what, Refused):
            # It was taken when it was exported.
            self._refuse(number, f"{_place(line)} is not what its writer signed: {item.what.reason}")
        return item

    def _refuse(self, number: int, why: str) -> NoReturn:
        raise BundleRefused(f"{self._path}: line {number}: {why}. Nothing in it is shown.")


def _place(line: _Line) -> str:
    if isinstance(line, _RecordLine):
        return f"record {line.partition}:{line.offset}"
    return f"the schema of {line.event}" if isinstance(line, _SchemaLine) else "the end"
