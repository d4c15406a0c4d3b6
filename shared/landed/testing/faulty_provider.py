"""A provider with chosen faults, on 127.0.0.1: what a drill or a test tries a contract on where there is no staging.

    with FaultyProvider(honours_key=False, lag_s=0.5) as provider:
        ...                      # POST {provider.url}/effects, GET {provider.url}/effects?operation_id=...

An effect is made by `POST /effects` with a JSON object; `Idempotency-Key`, else its field `operation_id`, is the key. Effects are
listed by `GET /effects`, oldest first, those of one operation with `?operation_id=`. Nothing is stored beyond the process.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

_BODY_BYTES_MAX: Final = 1 << 20


class FaultyProvider:
    """Effects and how they are shown; listens from `start` (or `with`) until `stop`, for any number of callers.

    Args:
        honours_key: a second request under a key makes no second effect and gets the first answer.
        key_lifetime_s: seconds after which a key is forgotten; None: never.
        lag_s: seconds until an effect shows in lists.
        forgets: after how many looks that saw an effect of an operation one says that there is none; 0: never.
        renames: lists show another id than the answer did.
    """

    def __init__(
        self,
        *,
        honours_key: bool = True,
        key_lifetime_s: float | None = None,
        lag_s: float = 0.0,
        forgets: int = 0,
        renames: bool = False,
    ) -> None:
        self.honours_key = honours_key
        self.key_lifetime_s = key_lifetime_s
        self.lag_s = lag_s
        self.forgets = forgets
        self.renames = renames
        self._lock = threading.Lock()
        self._effects: list[dict[str, Any]] = []
        self._shown_at: dict[str, float] = {}
        self._looks: dict[str, int] = {}
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Raises RuntimeError unless running."""
        if self._server is None:
            raise RuntimeError("faulty provider: not running")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def effects(self) -> list[dict[str, Any]]:
        """All effects, also those that no list shows yet, oldest first."""
        with self._lock:
            return [dict(effect) for effect in self._effects]

    def make(self, fields: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """Makes an effect as a request does; what it answers."""
        key = key or fields.get("operation_id")
        with self._lock:
            if self.honours_key and key is not None:
                for known in self._effects:
                    age_s = time.time() - known["created_ms"] / 1000
                    if known["key"] == key and (self.key_lifetime_s is None or age_s < self.key_lifetime_s):
                        return dict(known)
            number = len(self._effects) + 1
            effect = {**fields, "id": f"ef_{number}", "key": key, "created_ms": time.time_ns() // 1_000_000}
            self._effects.append(effect)
            self._shown_at[effect["id"]] = time.monotonic() + self.lag_s
            return dict(effect)

    def listed(self, operation_id: str | None = None) -> list[dict[str, Any]]:
        """Effects as a list shows them now, all or those of one operation."""
        with self._lock:
            now = time.monotonic()
            found = [dict(one) for one in self._effects if self._shown_at[one["id"]] <= now]
            if operation_id is not None:
                found = [one for one in found if one.get("operation_id") == operation_id]
                looks = self._looks[operation_id] = self._looks.get(operation_id, 0) + bool(found)
                if self.forgets and found and looks > self.forgets:
                    return []
        return [{**one, "id": f"{one['id']}x"} for one in found] if self.renames else found

    def start(self) -> None:
        """Raises RuntimeError if running, OSError if no port can be had."""
        if self._server is not None:
            raise RuntimeError("faulty provider: already running")
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="faulty-provider", daemon=True).start()

    def stop(self) -> None:
        """Does nothing when not running."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyProvider
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/effects" or not length.isdigit() or int(length) > _BODY_BYTES_MAX:
            return self._answer(404, {"error": "not_found"})
        try:
            fields = json.loads(self.rfile.read(int(length)))
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            return self._answer(400, {"error": "not_an_object"})
        return self._answer(200, self.owner.make(fields, self.headers.get("Idempotency-Key")))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path != "/effects":
            return self._answer(404, {"error": "not_found"})
        operation_id = parse_qs(parts.query).get("operation_id", [None])[0]
        return self._answer(200, {"data": self.owner.listed(operation_id)})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted by their effects, not printed."""
