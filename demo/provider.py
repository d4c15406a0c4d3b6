"""The demo's provider: a Stripe-compatible server in its own process, and a client that never retries.

The client tells apart what a caller may conclude from a failure:

    ProviderError
    ├── NotSent        no byte left this process: nothing can have happened there
    ├── ResponseLost   bytes left and no usable answer came back: it may or may not have happened
    └── HttpError      the provider answered with a status other than 2xx

localstripe ignores Idempotency-Key: whoever sends a refund twice has two. What makes a refund findable is its metadata,
which the provider stores and lists; it cannot be searched by it, so a probe lists the refunds of the charge and compares.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

__all__ = ["Charge", "Client", "HttpError", "NotSent", "Provider", "ProviderError", "Refund", "ResponseLost"]

_SERVER: Final = Path(__file__).with_name("localstripe_server.py")
_PAGE_SIZE: Final = 100
# localstripe takes any key of this shape and any card; neither is a secret.
_API_KEY: Final = "sk_test_demo"
_CARD: Final = {"number": "4242424242424242", "exp_month": "12", "exp_year": "2050", "cvc": "123"}


class ProviderError(Exception):
    """Base of all failures of a call to the provider."""


class NotSent(ProviderError):
    """The connection was not made: refused, unreachable, or not accepted in time."""


class ResponseLost(ProviderError):
    """The connection broke, time ran out, or a 2xx answer did not hold what it must."""


class HttpError(ProviderError):
    """An answer other than 2xx. *code* is the provider's `error.code`, else its `error.type`, else None."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(f"HTTP {status} {code or '(no code)'}: {message}")
        self.status = status
        self.code = code
        self.message = message


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    amount: int
    """In the currency's smallest unit (cents)."""
    currency: str
    status: str


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    charge: str
    amount: int
    """In the currency's smallest unit (cents)."""
    currency: str
    status: str
    created: int
    """Seconds since the epoch, UTC."""
    metadata: dict[str, str]


class _Page(msgspec.Struct, frozen=True):
    data: list[Refund]
    has_more: bool


_A = TypeVar("_A", bound=msgspec.Struct)


class Client:
    """Sends each call once, on a connection of its own. *base_url* is the provider's or a proxy's before it."""

    def __init__(self, base_url: str, *, timeout_s: float = 10.0) -> None:
        """*timeout_s* bounds the connect and each wait for bytes. Raises ValueError for any but http://host:port."""
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None or parts.path not in ("", "/"):
            raise ValueError(f"base_url: must be http://host:port, not {base_url!r}")
        self._address = (parts.hostname, parts.port)
        self._timeout_s = timeout_s

    def create_charge(self, amount: int, currency: str = "eur") -> Charge:
        """A captured card payment of *amount* cents, from a payment method made for it: something to refund."""
        method = self._call("POST", "/v1/payment_methods", {"type": "card", **_fields("card", _CARD)}, _Created)
        form = {"amount": str(amount), "currency": currency, "source": method.id}
        return self._call("POST", "/v1/charges", form, Charge)

    def create_refund(self, charge: str, amount: int, metadata: Mapping[str, str]) -> Refund:
        """Refunds *amount* cents of *charge*. A second call is a second refund, whatever the metadata."""
        form = {"charge": charge, "amount": str(amount), **_fields("metadata", metadata)}
        return self._call("POST", "/v1/refunds", form, Refund)

    def list_refunds(self, *, charge: str | None = None, metadata: Mapping[str, str] | None = None) -> tuple[Refund, ...]:
        """All refunds (of *charge*, carrying all of *metadata*) from as many pages as there are, in the provider's order.

        Raises HttpError 404 for a charge that does not exist.
        """
        found: list[Refund] = []
        query = {"limit": str(_PAGE_SIZE)} | ({"charge": charge} if charge is not None else {})
        more = True
        while more:
            page = self._call("GET", f"/v1/refunds?{urlencode(query)}", None, _Page)
            found += page.data
            more = page.has_more and bool(page.data)
            if more:
                query["starting_after"] = page.data[-1].id
        wanted = dict(metadata or {}).items()
        return tuple(refund for refund in found if wanted <= refund.metadata.items())

    def _call(self, method: str, path: str, form: Mapping[str, str] | None, answer: type[_A]) -> _A:
        status, body = self._exchange(method, path, form)
        if not 200 <= status < 300:
            code, message = _reason(body)
            raise HttpError(status, code, message)
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.MsgspecError as error:
            raise ResponseLost(f"{method} {path}: answer {status} is not a {answer.__name__}: {error}") from error

    def _exchange(self, method: str, path: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {_API_KEY}"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise NotSent(f"{method} {path}: {_text(error)}") from error
            try:
                connection.request(method, path, None if form is None else urlencode(form), headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                # Also when sending itself failed: a part may have arrived, and what arrived may have been enough.
                raise ResponseLost(f"{method} {path}: {_text(error)}") from error
        finally:
            connection.close()


class Provider:
    """localstripe in a child process, empty at each start; it ends with `stop`, or when this process ends.

    A child that inherits this process' open pipes (a plain fork) keeps it alive for as long; subprocess does not.
    """

    def __init__(self, server: Path = _SERVER) -> None:
        self._program = server
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """http://127.0.0.1:port. Raises RuntimeError unless started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        if self._process is None:
            raise RuntimeError("provider: not started")
        return self._port

    def start(self, *, timeout_s: float = 20.0) -> None:
        """Returns once it accepts connections. Raises RuntimeError with the last ten lines of its errors if it fails."""
        if self._process is not None:
            raise RuntimeError("provider: already started")
        if self._program == _SERVER and importlib.util.find_spec("localstripe") is None:
            raise RuntimeError("provider: localstripe is missing; install it with: pip install 'landed[demo]'")
        with tempfile.TemporaryFile() as errors:
            # A session of its own: an interrupt from the keyboard is for the demo, which then stops it in order.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(self._program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                self._port = _announced_port(self._process, timeout_s)
            except (OSError, ValueError, KeyError) as error:
                self.stop()
                errors.seek(0)
                last = errors.read().decode(errors="replace").splitlines()[-10:]
                raise RuntimeError("\n".join([f"provider: no port within {timeout_s} s", *last])) from error

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """Asks it to end by closing its input, kills it after *timeout_s*, and waits; does nothing when not started."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()  # our own child, not yet waited for: the pid cannot be another's
            process.wait(timeout_s)
        finally:
            process.stdout.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class _Created(msgspec.Struct, frozen=True):
    id: str


def _announced_port(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise TimeoutError("nothing announced")
        more = os.read(process.stdout.fileno(), 4096)
        if not more:
            raise ValueError(f"ended early, having said {line!r}")
        line += more
    return int(json.loads(line)["port"])


def _reason(body: bytes) -> tuple[str | None, str]:
    try:
        error: dict[str, Any] = msgspec.json.decode(body, type=dict[str, dict[str, Any]])["error"]
    except (msgspec.MsgspecError, KeyError):
        return None, body[:200].decode(errors="replace")
    return error.get("code") or error.get("type"), str(error.get("message", ""))


def _fields(name: str, values: Mapping[str, str]) -> dict[str, str]:
    """The provider's notation for nested form fields."""
    return {f"{name}[{key}]": value for key, value in values.items()}


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
