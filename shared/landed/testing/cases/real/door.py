"""The door to the stand-in provider for processes of their own: on 127.0.0.1, for the time of a run.

What the tools of a reconciler process ask for is answered by the world of the case, in its own thread and time.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from landed.sdk.probes import Absent, Ambiguous, Found, ProbeRequest
from landed.testing.cases.provider import Answer, Request
from landed.testing.cases.settling import look_of
from landed.testing.cases.world import World

_LONGEST_S: Final = 20.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call or a look of a service's process."""

    tool: str
    tenant_id: str
    operation_id: str
    keyed: bool = False
    arguments: dict[str, Any] = {}
    look: ProbeRequest | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Its answer: of a call the words of the provider, of a look what it found."""

    kind: str
    said: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    matched_on: tuple[str, ...] = ()
    reference: str | None = None
    status: str = "settled"


class Door:
    """Serves until closed."""

    def __init__(self, world_of: Callable[[str], World | None]) -> None:
        self._world_of = world_of
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])), type=Asked)
                body = msgspec.json.encode(door.answer(asked))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, asked: Asked) -> Said:
        """The answer, as late as the case says."""
        world = self._world_of(asked.tenant_id)
        if world is None:
            return Said(kind="unavailable")
        done: Future[tuple[float, Said]] = Future()
        world.timeline.soon(lambda: done.set_result(_called(world, asked) if asked.look is None else _looked(world, asked)))
        after_s, said = done.result(_LONGEST_S)
        time.sleep(min(after_s, _LONGEST_S))
        return said


def _called(world: World, asked: Asked) -> tuple[float, Said]:
    answer = world.provider.call(
        Request(
            tool=asked.tool,
            op=world.op_of(asked.tenant_id, asked.operation_id),
            subject=(asked.tenant_id, asked.operation_id),
            key=asked.operation_id if asked.keyed else None,
            arguments=asked.arguments,
        )
    )
    return answer.after_s, Said(kind=answer.kind, said=dict(answer.said), fields=dict(answer.fields))


def _looked(world: World, asked: Asked) -> tuple[float, Said]:
    contract, known = world.contract(asked.tool), world.names.get((asked.tenant_id, asked.operation_id))
    if asked.look is None or contract.outcome_probe is None or known is None:
        return 0.0, Said(kind="unavailable")
    operation = world.operation(world.known[known])
    look = look_of(world, contract, contract.outcome_probe.tool, operation)
    after_s, answer = look.ask(asked.look)
    try:
        found = answer()
    except Exception:
        return after_s, Said(kind="unavailable")
    match found:
        case Found():
            fields: Mapping[str, Any] = found.receipt or {}
            return after_s, Said(
                kind="found",
                fields=dict(fields),
                matched_on=found.matched_on,
                reference=found.reference,
                status=found.status,
            )
        case Absent():
            return after_s, Said(kind="absent")
        case Ambiguous():
            return after_s, Said(kind="ambiguous", said={"reason": found.reason})
        case _:
            return after_s, Said(kind="garbage")


def answer_of(said: Said) -> Answer:
    """The answer of a call as it came through the door."""
    return Answer(kind=said.kind, after_s=0.0, said=said.said, fields=said.fields)
