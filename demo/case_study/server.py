"""The provider of the case study: bookings, cancellations, charges and mails, as records of a process of its own.

`POST /records` makes one more record, whatever was there before: what is sent twice shows. Cards whose number ends in 0002 are
declined. `GET /records` lists them all, with `?operation_id=` those of one operation; after `POST /look-ups/off` that is answered
503 until `POST /look-ups/on`; after `POST /cancellations/off` one that comes is made, and answered, only after
`POST /cancellations/on`. The script reads the whole list, which always answers.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDS: list[dict[str, Any]] = []
LOCK = threading.Lock()
LOOK_UPS, CANCELLATIONS = threading.Event(), threading.Event()
SWITCHES = {"look-ups": LOOK_UPS, "cancellations": CANCELLATIONS}


class Server(ThreadingHTTPServer):
    request_queue_size = 256  # a hundred callers come at once


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        wanted = parse_qs(urlsplit(self.path).query).get("operation_id")
        if wanted and not LOOK_UPS.is_set():
            self.answer(503, {"error": "look_ups_off"})
            return
        with LOCK:
            found = [one for one in RECORDS if not wanted or one["operation_id"] in wanted]
        self.answer(200, {"data": found})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name, _, turned = self.path.strip("/").partition("/")
        if name in SWITCHES:
            (SWITCHES[name].set if turned == "on" else SWITCHES[name].clear)()
            self.answer(200, {})
            return
        asked = json.loads(body)
        if str(asked.get("card", "")).endswith("0002"):
            self.answer(402, {"error": "card_declined"})
            return
        if "undoes" in asked:
            CANCELLATIONS.wait()
        with LOCK:
            made = {"id": f"{asked['kind'].replace(' ', '_')}_{len(RECORDS) + 1}", **asked}
            made.pop("card", None)
            RECORDS.append(made)
        self.answer(200, made)

    def answer(self, status: int, body: dict[str, Any]) -> None:
        said = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Standard error is for what goes wrong."""


def main() -> None:
    for switch in SWITCHES.values():
        switch.set()
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    while os.read(0, 4096):  # ends with its parent, however that ended
        pass


if __name__ == "__main__":
    main()
