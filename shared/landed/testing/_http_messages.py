"""HTTP/1.1 messages read whole from a stream and written anew: as much of RFC 9112 as the fault proxy needs.

A body is held without its framing: chunked bodies, and bodies that end with the connection, are written with a
Content-Length (a trailer is lost). Each reader raises EOFError when the stream ends inside a message and ValueError
when the bytes are no HTTP.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

__all__ = ["HEAD_BYTES_MAX", "Request", "Response", "read_request", "read_response"]

HEAD_BYTES_MAX: Final = 65_536
# True of one connection only, or of a framing that is gone once the body was read.
_PER_CONNECTION: Final = frozenset(
    ("connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding")
)

_Headers = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    """With the query."""
    headers: _Headers
    body: bytes
    length: int | None
    """What Content-Length is to say; None: no such header."""
    last: bool
    """The caller wants no further request on its connection."""

    def encode(self) -> bytes:
        """For a connection of its own, so it asks to close it."""
        return _encode(f"{self.method} {self.path} HTTP/1.1", self.headers, self.length, self.body, close=True)


class Response(Struct, frozen=True, kw_only=True):
    status: int
    reason: str
    headers: _Headers
    body: bytes
    length: int | None

    def encode(self, *, close: bool, bodiless: bool = False) -> bytes:
        """*bodiless*: the answer to a HEAD, whose Content-Length stands without a body."""
        body = b"" if bodiless else self.body
        return _encode(f"HTTP/1.1 {self.status} {self.reason}", self.headers, self.length, body, close=close)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The next request; None when the caller has closed its side. Writes the interim answer to `Expect`."""
    start, headers = await _read_head(reader, at_end_of_stream="")
    if not start:
        return None
    method, path, version = _split(start, "request line")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"request line: HTTP/1.0 or HTTP/1.1 expected, not {version[:20]!r}")
    if _value(headers, "expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await _read_framed(reader, headers)
    connection = _value(headers, "connection").lower()
    return Request(
        method=method,
        path=path,
        headers=_end_to_end(headers),
        body=body or b"",
        length=None if body is None else len(body),
        last="close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection),
    )


async def read_response(reader: asyncio.StreamReader, method: str) -> Response:
    """The final answer to a request of *method*; interim answers (1xx) are passed over."""
    status = 100
    while 100 <= status < 200:
        start, headers = await _read_head(reader)
        _, code, reason = _split(start + " ", "status line")
        if not (code.isascii() and code.isdigit()):
            raise ValueError(f"status line: three digits expected, not {code[:20]!r}")
        status = int(code)
    body: bytes | None = b""
    length: int | None = None
    if method == "HEAD":
        length = _content_length(headers)
    elif status not in (204, 304):
        body = await _read_framed(reader, headers)
        if body is None:
            body = await reader.read()
        length = len(body)
    return Response(status=status, reason=reason.strip(), headers=_end_to_end(headers), body=body or b"", length=length)


def _encode(start: str, headers: _Headers, length: int | None, body: bytes, *, close: bool) -> bytes:
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines.append(f"Connection: {'close' if close else 'keep-alive'}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def _read_head(reader: asyncio.StreamReader, *, at_end_of_stream: str | None = None) -> tuple[str, _Headers]:
    try:
        head = await _read_until(reader, b"\r\n\r\n", "head")
    except asyncio.IncompleteReadError as error:
        if at_end_of_stream is None or error.partial:
            raise
        return at_end_of_stream, ()
    start, *lines = head[:-4].decode("latin-1").split("\r\n")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"header line: colon missing in {line[:20]!r}")
        headers.append((name, value.strip()))
    return start, tuple(headers)


async def _read_framed(reader: asyncio.StreamReader, headers: _Headers) -> bytes | None:
    """The body as its headers frame it; None when they frame none."""
    if _value(headers, "transfer-encoding").lower() == "chunked":
        chunks = []
        while size := int((await _read_until(reader, b"\r\n", "chunk size")).split(b";")[0], 16):
            chunks.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while await _read_until(reader, b"\r\n", "trailer") != b"\r\n":
            pass
        return b"".join(chunks)
    length = _content_length(headers)
    return None if length is None else await reader.readexactly(length)


async def _read_until(reader: asyncio.StreamReader, end: bytes, what: str) -> bytes:
    try:
        return await reader.readuntil(end)
    except asyncio.LimitOverrunError as error:
        raise ValueError(f"{what}: longer than {HEAD_BYTES_MAX} bytes") from error


def _content_length(headers: _Headers) -> int | None:
    text = _value(headers, "content-length")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"Content-Length: digits expected, not {text[:20]!r}")
    return int(text)


def _value(headers: _Headers, name: str) -> str:
    return next((value for given, value in headers if given.lower() == name), "")


def _end_to_end(headers: _Headers) -> _Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in _PER_CONNECTION)


def _split(line: str, what: str) -> tuple[str, str, str]:
    parts = line.split(" ", 2)
    if len(parts) != 3:
        raise ValueError(f"{what}: three parts expected in {line[:40]!r}")
    return parts[0], parts[1], parts[2]
