"""The driver of `protocol.py` that waits in the caller's task."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Final, TypeVar, assert_never

from landed.sdk.classify import CallOutcome, Raised, raised
from landed.sdk.drivers import Doors, call_here, returned, waited
from landed.sdk.operation import CURRENT
from landed.sdk.requests import Ask, Call, Hear, Look, NotBegun, Post, Record, Request
from landed.testing.failure_points import reach

T = TypeVar("T")


class AsyncDriver:
    """Pumps generators of the protocol in the caller's task; a cancellation is thrown into the generator and goes on.

    Sync tools run in the default executor of the loop.
    """

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._bell: _Bell | None = None

    async def run(self, steps: Generator[Request, Any, T]) -> T:
        reply: Any = None
        error: BaseException | None = None
        while True:
            try:
                request = steps.send(reply) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            reply = error = None
            try:
                reply = await self._do(request)
            except BaseException as caught:
                error = caught

    async def _do(self, request: Request) -> Any:
        doors = self._doors
        match request:
            case Ask():
                try:
                    return await self._waited(doors.ask(request), request.wait_s)
                finally:
                    doors.inbox.forget(request.claim_id)
            case Hear():
                try:
                    return await self._waited(doors.inbox.expect(request.claim_id), request.wait_s) is not None
                finally:
                    doors.inbox.forget(request.claim_id)
            case Record():
                return await self._waited(doors.outbox.post(request.event), request.wait_s)
            case Post():
                doors.outbox.post(request.event)
                return None
            case Call():
                if inspect.iscoroutinefunction(request.function):
                    return await self._call(request)
                return await self._call_in_thread(request)
            case Look():
                return await self._look(request)
            case _:
                assert_never(request)

    async def _call(self, call: Call) -> CallOutcome | NotBegun:
        reset = CURRENT.set(call.operation)
        limit = asyncio.timeout(None)
        watch = _Watch(call, limit)
        try:
            async with limit:
                watch.start()
                reason = call.check()
                if reason is not None:
                    return NotBegun(reason)
                reach("sdk.before_call")
                answer = await call.function(**call.arguments)
                reach("sdk.after_call")
                return returned(answer, call.operation)
        except self._doors.suspend_on:
            raise
        except Exception as error:
            return Raised(error_class="lease_over") if limit.expired() else raised(error)
        finally:
            watch.stop()
            CURRENT.reset(reset)

    async def _call_in_thread(self, call: Call) -> CallOutcome | NotBegun:
        """A thread cannot be stopped: whoever stops waiting leaves it running, and its outcome is recorded when it ends."""
        loop = asyncio.get_running_loop()
        run = functools.partial(contextvars.copy_context().run, call_here, call, self._doors.suspend_on)
        future: Future[CallOutcome | NotBegun] = Future()

        def work() -> None:
            try:
                outcome = run()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        try:
            loop.run_in_executor(None, work)
        except RuntimeError:
            return NotBegun("no thread takes the call any more")
        try:
            while not await self._done_within(future, max(0.0, call.lease.remaining_s())):
                if call.lease.remaining_s() <= 0:
                    self._leave_running(call, future)
                    return Raised(error_class="lease_over")
        except BaseException:
            self._leave_running(call, future)
            raise
        return future.result()

    def _leave_running(self, call: Call, future: Future[CallOutcome | NotBegun]) -> None:
        call.left_running = True

        def ended(done: Future[CallOutcome | NotBegun]) -> None:
            error = done.exception()
            if error is None:
                call.late(done.result())
            elif isinstance(error, self._doors.suspend_on):
                call.late(NotBegun("suspended"))
            else:
                call.late(raised(error))

        future.add_done_callback(ended)

    async def _waited(self, future: Future[T], timeout_s: float) -> T | None:
        return waited(future, 0) if await self._done_within(future, timeout_s) else None

    async def _done_within(self, future: Future[Any], timeout_s: float) -> bool:
        """Whether *future* is done within *timeout_s*. Cancelling the waiting task leaves *future* alone: others complete it."""
        if future.done():
            return True
        loop = asyncio.get_running_loop()
        bell = self._bell
        if bell is None or bell.loop is not loop:
            bell = self._bell = _Bell(loop)
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(lambda _: bell.ring(waiter))
        timer = loop.call_later(timeout_s, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
        return future.done()

    async def _look(self, request: Look) -> object:
        try:
            async with asyncio.timeout(request.wait_s):
                if inspect.iscoroutinefunction(request.function):
                    return await request.function(request.request)
                return await asyncio.to_thread(request.function, request.request)
        except Exception:
            return None


class _Watch:
    """Ends a time limit when the lease is over; the lease may be renewed meanwhile."""

    def __init__(self, call: Call, limit: asyncio.Timeout) -> None:
        self._lease = call.lease
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        remaining_s = self._lease.remaining_s()
        if remaining_s > 0:
            self._timer = self._loop.call_later(remaining_s, self.start)
        else:
            self._limit.reschedule(self._loop.time())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Bell:
    """Wakes tasks of one loop from other threads: with one signal for all that are ready before the loop answers it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._ready: deque[asyncio.Future[None]] = deque()
        self._rung = False

    def ring(self, waiter: asyncio.Future[None]) -> None:
        self._ready.append(waiter)
        if not self._rung:
            self._rung = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self.loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        # First this: who gets ready from now on rings again.
        self._rung = False
        while self._ready:
            _wake(self._ready.popleft())


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
