"""The record key: `tenant/route/operation/event_id/nonce`, each part percent-encoded; no two records share one.

Everything but the unreserved characters of RFC 3986 (letters, digits, `-._~`) is encoded, byte by byte of its UTF-8, in
upper-case hexadecimal. So a key has exactly one spelling and exactly four slashes. The operation is empty where there is
none; tenant and route are empty only in records of the topic itself (genesis, heartbeat).

A key of its own for each record, since compaction keeps the last record of a key while the fold obeys the first.
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from landed.wire.errors import DecodeError, EncodeError
from landed.wire.reasons import Reason

KEY_BYTES_MAX: Final = 16_384
"""Longest record key, in bytes. Three ids of 180 characters, each of them twelve bytes when encoded, fit in."""

# The one spelling: an escape is upper-case, and never one of a character that stands for itself.
_CANONICAL: Final = re.compile(rb"(?:[A-Za-z0-9\-._~/]++|%(?!2[DE]|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])[0-9A-F]{2})*+")
_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
"""What stands for itself, and the slash."""
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9\-._~]*")


class RecordKey(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a record key, decoded."""

    tenant_id: str
    route: str
    operation_id: str | None
    event_id: str
    nonce: str
    """Chosen at random by the writer for each record; a second copy of an event has another one."""


def build_key(key: RecordKey) -> bytes:
    """The bytes of *key*.

    Raises:
        EncodeError: event id or nonce is empty, a text holds a lone surrogate, or the whole is too long.
    """
    for name in ("event_id", "nonce"):
        if not getattr(key, name):
            raise EncodeError(name, "must not be empty")
    built = b"/".join(
        (
            route_prefix(key.tenant_id, key.route),
            encoded("operation_id", key.operation_id or ""),
            encoded("event_id", key.event_id),
            encoded("nonce", key.nonce),
        )
    )
    if len(built) > KEY_BYTES_MAX:
        raise EncodeError("key", f"must be at most {KEY_BYTES_MAX} bytes, is {len(built)}")
    return built


def parse_key(key: bytes) -> RecordKey:
    """The parts of *key*; `build_key` gives the same bytes again.

    Raises:
        DecodeError: `key_malformed`: not five parts, no event id, no nonce, not the one spelling, or too long.
    """
    escaped = key.translate(None, _PLAIN)
    if len(key) > KEY_BYTES_MAX or (escaped and not _CANONICAL.fullmatch(key)):
        raise DecodeError(Reason.KEY_MALFORMED)
    parts = key.decode("ascii").split("/")
    if len(parts) != 5:
        raise DecodeError(Reason.KEY_MALFORMED)
    if escaped:
        try:
            parts = [unquote(part, errors="strict") for part in parts]
        except UnicodeDecodeError:
            raise DecodeError(Reason.KEY_MALFORMED) from None
    tenant_id, route, operation_id, event_id, nonce = parts
    if not event_id or not nonce:
        raise DecodeError(Reason.KEY_MALFORMED, "nonce" if event_id else "event_id")
    return RecordKey(tenant_id=tenant_id, route=route, operation_id=operation_id or None, event_id=event_id, nonce=nonce)


def speaks_for(key: bytes, tenant_id: str, route: str, operation_id: str | None, event_id: str) -> bool:
    """Whether *key* is the one of that event, told without taking it apart; False where an id needs an escape.

    Args:
        tenant_id, route, event_id: not empty.
        operation_id: None or not empty.
    """
    said = f"{tenant_id}/{route}/{operation_id or ''}/{event_id}/"
    # Characters that all stand for themselves, and four slashes: then nothing within an id can be read in another way.
    if not said.isascii() or key.translate(None, _PLAIN) or key.count(b"/") != 4 or len(key) > KEY_BYTES_MAX:
        return False
    return len(key) > len(said) and key.startswith(said.encode("ascii"))


@lru_cache(maxsize=16_384)
def route_prefix(tenant_id: str, route: str) -> bytes:
    """The first two parts of a record key with the slash between them: what picks the partition."""
    return encoded("tenant_id", tenant_id) + b"/" + encoded("route", route)


def encoded(name: str, part: str) -> bytes:
    """*part* percent-encoded. Raises EncodeError, naming the field *name*, where it holds a lone surrogate."""
    if _UNRESERVED.fullmatch(part):
        return part.encode("ascii")
    try:
        return quote(part, safe="").encode("ascii")
    except UnicodeEncodeError:
        raise EncodeError(name, "must not hold a lone surrogate, which UTF-8 cannot carry") from None
