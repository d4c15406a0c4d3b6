"""A receiver of notifications on this machine: fails, hangs or accepts, and notes what came."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from standardwebhooks import Webhook

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


class Delivery(msgspec.Struct, frozen=True):
    webhook_id: str
    body: bytes
    answered: str

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class ReceiverServer(ThreadingHTTPServer):
    """Answers the first deliveries as `plan` says (`500`, `302`, `hang`, `drip`, …), every later one with 204."""

    daemon_threads = True

    def __init__(self, plan: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan = list(plan)
        self.lock = threading.Lock()
        self.deliveries: list[Delivery] = []
        self.closed = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hooks"

    def of(self, kind: str) -> list[Delivery]:
        with self.lock:
            return [one for one in self.deliveries if one.message["type"] == kind]


class _Handler(BaseHTTPRequestHandler):
    server: ReceiverServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        # Raises where the signature is wrong: then nothing is noted and the test sees it.
        Webhook(SECRET).verify(body, dict(self.headers.items()))
        with self.server.lock:
            answer = self.server.plan.pop(0) if self.server.plan else "204"
            self.server.deliveries.append(Delivery(self.headers["webhook-id"], body, answer))
        if answer == "hang":
            self.server.closed.wait(30)
            return
        if answer == "drip":
            try:
                self.wfile.write(b"HTTP/1.1 ")
                while not self.server.closed.wait(0.1):
                    self.wfile.write(b"2")
            except OSError:
                return
            return
        self.send_response(int(answer))
        if answer.startswith("3"):
            self.send_header("location", self.server.url)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving(*plan: str) -> Iterator[ReceiverServer]:
    server = ReceiverServer(list(plan))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()
