"""What the fault proxy can do to a request, for which requests, and what it reports."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from http.client import responses

from msgspec import Struct

from landed.testing._http_messages import Request, Response

__all__ = ["Answer", "CommitThenDrop", "Delay", "Duplicate", "Exchange", "Fault", "Reset", "Rule", "response_of"]


class CommitThenDrop(Struct, frozen=True):
    """The provider answers in full; the caller's connection is closed without a byte."""


class Reset(Struct, frozen=True):
    """The caller's connection is reset (RST): before the provider sees the request, or after it has answered."""

    after_commit: bool = False


class Delay(Struct, frozen=True):
    """Waits *seconds*: before the provider sees the request (a late effect), or before its answer is passed on."""

    seconds: float
    after_commit: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"seconds: must be finite and not negative, not {self.seconds!r}")


class Duplicate(Struct, frozen=True):
    """The provider gets the request twice, one after the other; the caller gets the second answer."""


class Answer(Struct, frozen=True):
    """The caller gets this answer (a throttle, an error): instead of the provider's, or without asking it."""

    status: int
    body: bytes = b""
    after_commit: bool = False

    def __post_init__(self) -> None:
        if not 200 <= self.status <= 599:
            raise ValueError(f"status: must be 200 to 599, not {self.status!r}")


Fault = CommitThenDrop | Reset | Delay | Duplicate | Answer


class Exchange(Struct, frozen=True, kw_only=True):
    """What became of one request; replaced by a fuller value as facts come in, until *done*."""

    number: int
    """Order of arrival, from 1."""
    method: str
    path: str
    """With the query, as on the wire."""
    at: float
    """When the request had arrived whole: seconds since the epoch, UTC."""
    fault: Fault | None
    """What the proxy did to it; None: passed on unharmed."""
    sent: int = 0
    """Copies that the provider was sent; 0: it cannot have acted."""
    provider_statuses: tuple[int, ...] = ()
    """Status of every answer that the provider finished, in order."""
    answered: int | None = None
    """Status that the caller was sent; None: not a byte."""
    error: str | None = None
    """What went wrong between proxy and provider without being armed."""
    done: bool = False
    """The proxy has nothing left to do for this request."""


class Rule(Struct):
    """Which requests a fault is for; the only value here that changes: it counts."""

    fault: Fault
    method: str | None
    path: str
    containing: bytes
    first: int
    end: float
    seen: int = 0

    def due(self, request: Request) -> bool:
        """Counts *request* if it matches; true when it is one of those to break."""
        if self.method not in (None, request.method) or self.containing not in request.body:
            return False
        if not fnmatchcase(request.path.partition("?")[0], self.path):
            return False
        self.seen += 1
        return self.first <= self.seen < self.end


def response_of(answer: Answer) -> Response:
    kind = "application/json" if answer.body[:1] in (b"{", b"[") else "text/plain"
    return Response(
        status=answer.status,
        reason=responses.get(answer.status, ""),
        headers=(("Content-Type", kind),),
        body=answer.body,
        length=len(answer.body),
    )
