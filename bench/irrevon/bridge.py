"""The one door to the benchmark's destination: what its adapter offers, by HTTP on 127.0.0.1, so that other processes reach it.

A request whose answer the benchmark drops gets none: the connection is closed. The oracle's view is not served.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from irrevon.adapters.base import Adapter, DispatchOrder
from irrevon.errors import CapabilityUnsupported

from bench.irrevon.asked import ASKED_BY

DEADLINE_S: Final = 10.0
_REFUSALS: Final = {"RETRYABLE": 429, "TERMINAL": 400}


class Bridge:
    """Serves an adapter for each tenant, from `__init__` to `close`."""

    def __init__(self) -> None:
        self.on_sent: Callable[[], bool] = lambda: False
        """Called when the destination has done what it was asked, before anybody is told; True: nobody is told."""
        self.on_look: Callable[[int], bool] = lambda pid: False
        """Called with the process id of whoever looks, before it is told; True: it is not told."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """Requests that reached the destination, by tenant and client reference."""
        self.looks: Counter[int] = Counter()
        """Looks, by process id."""
        self._adapters: dict[str, Adapter] = {}
        self._one_at_a_time = threading.Lock()
        """The destination is not made for threads."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, tenant: str, adapter: Adapter) -> None:
        self._adapters[tenant] = adapter

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def dispatch(self, tenant: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Status and answer; None: the answer is lost."""
        ref = asked["client_ref"]
        order = DispatchOrder(operation_id=ref, effect_type="order.create", payload=asked["payload"], client_ref=ref)
        with self._one_at_a_time:
            self.sent[tenant, ref] += 1
            done = self._adapters[tenant].dispatch(order, DEADLINE_S)
        if self.on_sent():
            return None
        if done.transport_outcome == "FAILED":
            return _REFUSALS[done.failure_kind or "TERMINAL"], {}
        return (200, {"accepted": "yes", "destination_ref": done.destination_ref}) if done.transport_outcome == "OK" else None

    def look(self, tenant: str, ref: str, pid: int) -> tuple[int, dict[str, Any]] | None:
        with self._one_at_a_time:
            self.looks[pid] += 1
            try:
                seen = self._adapters[tenant].status_query(client_ref=ref, deadline_s=DEADLINE_S)
            except CapabilityUnsupported:
                return 405, {}
        if self.on_look(pid):
            return None
        return (503, {}) if seen.result == "INDETERMINATE" else (200, {"references": list(seen.destination_refs)})


def _handler(bridge: Bridge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            self._answer(bridge.dispatch(self._tenant, asked))

        def do_GET(self) -> None:
            (ref,) = parse_qs(urlsplit(self.path).query)["client_ref"]
            self._answer(bridge.look(self._tenant, ref, int(self.headers[ASKED_BY])))

        @property
        def _tenant(self) -> str:
            return unquote(urlsplit(self.path).path.split("/")[1])

        def _answer(self, said: tuple[int, dict[str, Any]] | None) -> None:
            self.close_connection = True
            if said is None:
                return
            status, body = said
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
