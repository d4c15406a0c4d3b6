"""What both drivers of `protocol.py` share, and the one that waits in the caller's thread; `async_driver.py` waits in a task."""

import inspect
from collections.abc import Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar, assert_never

from landed.core.verdict import Verdict
from landed.ports import Appended, EventLog, NothingAppended, VerdictInbox
from landed.sdk.classify import CallOutcome, Raised, Returned, raised
from landed.sdk.operation import CURRENT, CurrentOperation
from landed.sdk.outbox import Outbox
from landed.sdk.requests import Ask, Call, Hear, Look, NotBegun, Post, Record, Request
from landed.testing.failure_points import reach

T = TypeVar("T")


class Doors:
    """Starts what needs no waiting; both drivers share it."""

    def __init__(self, log: EventLog, inbox: VerdictInbox, outbox: Outbox, suspend_on: tuple[type[BaseException], ...]) -> None:
        self._log = log
        self.inbox = inbox
        self.outbox = outbox
        self.suspend_on = suspend_on

    def ask(self, request: Ask) -> Future[Verdict]:
        """A future of the verdict; cancelled at once when the claim certainly did not reach the log."""
        try:
            verdict = self.inbox.expect(request.claim_id)
        except Exception:
            return _not_asked()

        def acknowledged(ack: Future[Appended]) -> None:
            # "Unknown whether it is on the log" is no answer: the verdict may still come.
            if isinstance(ack.exception(), NothingAppended):
                verdict.cancel()
            reach("sdk.claim_acknowledged")

        try:
            acknowledgement = self._log.append(request.event)
            reach("sdk.claim_sent")
            acknowledgement.add_done_callback(acknowledged)
        except Exception:
            # A log that cannot even be asked: fail closed, whatever its reason.
            verdict.cancel()
        return verdict


def _not_asked() -> Future[Verdict]:
    never: Future[Verdict] = Future()
    never.cancel()
    return never


def returned(answer: Any, operation: CurrentOperation) -> CallOutcome:
    if inspect.iscoroutine(answer):
        answer.close()
        return Raised(error_class="CoroutineNeverAwaited")
    return Returned(
        answer=answer,
        response_status=operation.response_status,
        provider_request_id=operation.provider_request_id,
    )


def call_here(call: Call, suspend_on: tuple[type[BaseException], ...]) -> CallOutcome | NotBegun:
    """Calls a sync tool in this thread. What is no `Exception`, or is in *suspend_on*, goes on."""
    reset = CURRENT.set(call.operation)
    try:
        reason = "the caller is gone" if call.left_running else call.check()
        if reason is not None:
            return NotBegun(reason)
        reach("sdk.before_call")
        answer = call.function(**call.arguments)
        reach("sdk.after_call")
        return returned(answer, call.operation)
    except suspend_on:
        raise
    except Exception as error:
        return raised(error)
    finally:
        CURRENT.reset(reset)


class SyncDriver:
    """Pumps generators of the protocol in the caller's thread."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def run(self, steps: Generator[Request, Any, T]) -> T:
        reply: Any = None
        error: BaseException | None = None
        while True:
            try:
                request = steps.send(reply) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            reply = error = None
            try:
                reply = self._do(request)
            except BaseException as caught:
                error = caught

    def _do(self, request: Request) -> Any:
        doors = self._doors
        match request:
            case Ask():
                try:
                    return waited(doors.ask(request), request.wait_s)
                finally:
                    doors.inbox.forget(request.claim_id)
            case Hear():
                try:
                    return waited(doors.inbox.expect(request.claim_id), request.wait_s) is not None
                finally:
                    doors.inbox.forget(request.claim_id)
            case Record():
                return waited(doors.outbox.post(request.event), request.wait_s)
            case Post():
                doors.outbox.post(request.event)
                return None
            case Call():
                return call_here(request, doors.suspend_on)
            case Look():
                return _looked(request)
            case _:
                assert_never(request)


def waited(future: Future[T], timeout_s: float) -> T | None:
    try:
        return future.result(timeout_s)
    except FutureTimeout:
        return None
    except Exception:
        return None  # given up: it failed for longer than anybody waits


def _looked(request: Look) -> object:
    try:
        return request.function(request.request)
    except Exception:
        return None
