"""An HTTP/1.1 fault proxy: stands between a caller and a provider and breaks the requests it was told to break.

The question of the whole product is what a caller may believe when an answer is lost, so the faults are told apart by
one thing: whether the provider had done its work when the connection broke. The proxy reads each request whole, then
sends it to the provider on a connection of its own, reads the answer whole (from there on the effect counts as
committed), and only then lets the caller see anything. Therefore no fault depends on timing.

    with FaultProxy("127.0.0.1", provider_port) as proxy:
        proxy.arm(CommitThenDrop(), method="POST", path="/v1/refunds")
        ...                                  # the caller talks to proxy.url and loses one answer
        assert proxy.exchanges[-1].provider_statuses == (200,)

Limits: answers are passed on whole, not streamed; chunked bodies are passed on with a Content-Length; no TLS and no
Upgrade; a caller that sends `Expect: 100-continue` gets that interim line whatever is armed. A request whose caller has
gone still reaches the provider, as it may in a real network. Headers and bodies are never recorded.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Self, assert_never

from msgspec.structs import replace

from landed.testing._faults import Answer, CommitThenDrop, Delay, Duplicate, Exchange, Fault, Reset, Rule, response_of
from landed.testing._http_messages import HEAD_BYTES_MAX, Request, Response, read_request, read_response

__all__ = ["Answer", "CommitThenDrop", "Delay", "Duplicate", "Exchange", "Fault", "FaultProxy", "Reset"]

_START_STOP_SECONDS_MAX: Final = 5.0


class FaultProxy:
    """Listens on 127.0.0.1 and a free port, from `start` (or `with`) until `stop`; for any number of connections.

    `arm`, `disarm`, `exchanges` and `wait_for` may be called from any thread. The proxy runs in a thread of its own.
    """

    def __init__(self, upstream_host: str, upstream_port: int, *, provider_timeout_s: float = 30.0) -> None:
        """*provider_timeout_s* bounds each exchange with the provider; past it the caller's connection is dropped."""
        if not 1 <= upstream_port <= 65_535:
            raise ValueError(f"upstream_port: must be 1 to 65535, not {upstream_port!r}")
        if not provider_timeout_s > 0:
            raise ValueError(f"provider_timeout_s: must be positive, not {provider_timeout_s!r}")
        self._upstream = (upstream_host, upstream_port)
        self._provider_timeout_s = provider_timeout_s
        self._changed = threading.Condition()
        self._rules: list[Rule] = []
        self._exchanges: list[Exchange] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: _Running | None = None

    @property
    def port(self) -> int:
        """Raises RuntimeError unless running."""
        if self._running is None:
            raise RuntimeError("fault proxy: not running")
        return self._running.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All requests seen, in order of arrival; an answer is noted here before the caller sees it."""
        with self._changed:
            return tuple(self._exchanges)

    def arm(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "*",
        containing: bytes = b"",
        nth: int = 1,
        times: int | None = 1,
    ) -> None:
        """Breaks the *nth* request from now on (and the ones after it, *times* in all; None: for good) that matches.

        Args:
            method: compared without regard to case; None matches each.
            path: shell pattern (`*`, `?`, `[..]`) for the path without its query.
            containing: bytes that the body must contain, as on the wire.

        Of several rules that are due for one request the first one armed is applied; all of them count it.
        """
        if nth < 1:
            raise ValueError(f"nth: must be 1 or more, not {nth!r}")
        if times is not None and times < 1:
            raise ValueError(f"times: must be 1 or more, or None, not {times!r}")
        end = math.inf if times is None else nth + times
        with self._changed:
            self._rules.append(Rule(fault, method and method.upper(), path, containing, nth, end))

    def disarm(self) -> None:
        """Forgets all rules; faults under way go on."""
        with self._changed:
            self._rules.clear()

    def wait_for(self, condition: Callable[[tuple[Exchange, ...]], bool], *, timeout_s: float = 5.0) -> tuple[Exchange, ...]:
        """Returns the exchanges as soon as *condition* holds for them. Raises TimeoutError after *timeout_s*."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(tuple(self._exchanges)), timeout_s):
                raise TimeoutError(f"fault proxy: condition not met within {timeout_s} s by {self._exchanges}")
            return tuple(self._exchanges)

    def start(self) -> None:
        """Raises RuntimeError if running, OSError if no port can be had."""
        if self._running is not None:
            raise RuntimeError("fault proxy: already running")
        ready: Future[_Running] = Future()
        threading.Thread(target=self._run, args=(ready,), name="fault-proxy", daemon=True).start()
        self._running = ready.result(_START_STOP_SECONDS_MAX)

    def stop(self) -> None:
        """Cuts every connection and ends, within 5 s or with RuntimeError; does nothing when not running."""
        if self._running is None:
            return
        running, self._running = self._running, None
        running.loop.call_soon_threadsafe(running.stopping.set)
        running.thread.join(_START_STOP_SECONDS_MAX)
        if running.thread.is_alive():
            raise RuntimeError(f"fault proxy: still running {_START_STOP_SECONDS_MAX} s after it was stopped")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, ready: Future[_Running]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[_Running]) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES_MAX, backlog=1024)
        port: int = server.sockets[0].getsockname()[1]
        stopping = asyncio.Event()
        ready.set_result(_Running(asyncio.get_running_loop(), threading.current_thread(), stopping, port))
        await stopping.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()  # asyncio.run then cancels the tasks that serve them

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves the requests of one connection, one after the other."""
        try:
            while (request := await read_request(reader, writer)) is not None:
                if not await self._serve_one(request, writer):
                    return
        except ValueError as error:
            writer.write(response_of(Answer(400, f"fault proxy: {error}\n".encode())).encode(close=True))
        except (OSError, EOFError):
            pass  # the caller has gone: what the provider did stands in the exchanges
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _serve_one(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Applies the fault due for *request*, if any; true when the connection may carry another request."""
        number, fault = self._arrive(request)
        match fault:
            case Reset(after_commit=False):
                return self._reset(number, writer)
            case Answer(after_commit=False):
                return await self._reply(number, response_of(fault), request, writer)
            case Delay(after_commit=False):
                await asyncio.sleep(fault.seconds)
        answer = await self._forward(number, request)
        match fault:
            case Duplicate():
                answer = await self._forward(number, request)
            case CommitThenDrop():
                answer = None
            case Reset():
                return self._reset(number, writer)
            case Answer():
                answer = response_of(fault)
            case Delay(after_commit=True):
                await asyncio.sleep(fault.seconds)
            case Delay() | None:
                pass
            case _:
                assert_never(fault)
        return await self._reply(number, answer, request, writer)

    def _arrive(self, request: Request) -> tuple[int, Fault | None]:
        with self._changed:
            due = [rule for rule in self._rules if rule.due(request)]
            fault = due[0].fault if due else None
            number = len(self._exchanges) + 1
            exchange = Exchange(number=number, method=request.method, path=request.path, at=time.time(), fault=fault)
            self._exchanges.append(exchange)
            self._changed.notify_all()
        return number, fault

    def _note(self, number: int, change: Callable[[Exchange], Exchange]) -> None:
        with self._changed:
            self._exchanges[number - 1] = change(self._exchanges[number - 1])
            self._changed.notify_all()

    async def _forward(self, number: int, request: Request) -> Response | None:
        """The provider's answer, 502 if it cannot be reached, None if it broke off or took too long."""
        writer = None
        try:
            async with asyncio.timeout(self._provider_timeout_s):
                reader, writer = await asyncio.open_connection(*self._upstream, limit=HEAD_BYTES_MAX)
                self._note(number, lambda e: replace(e, sent=e.sent + 1))
                writer.write(request.encode())
                await writer.drain()
                answer = await read_response(reader, request.method)
        except (OSError, EOFError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            self._note(number, lambda e: replace(e, error=reason))
            return response_of(Answer(502, b"fault proxy: provider unreachable\n")) if writer is None else None
        finally:
            if writer is not None:
                writer.transport.abort()
        self._note(number, lambda e: replace(e, provider_statuses=(*e.provider_statuses, answer.status)))
        return answer

    async def _reply(self, number: int, answer: Response | None, request: Request, writer: asyncio.StreamWriter) -> bool:
        # Noted first: whoever has seen the answer (or its loss) finds it in the exchanges.
        self._note(number, lambda e: replace(e, answered=answer and answer.status, done=True))
        if answer is None:
            return False
        writer.write(answer.encode(close=request.last, bodiless=request.method == "HEAD"))
        await writer.drain()
        return not request.last

    def _reset(self, number: int, writer: asyncio.StreamWriter) -> bool:
        self._note(number, lambda e: replace(e, done=True))
        # Lingering for 0 s turns the close into a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    stopping: asyncio.Event
    port: int
