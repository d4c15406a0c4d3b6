"""One run of the SDK's protocol on the timeline, from a presentation to what the caller is told.

What a driver does in real time (wait for a verdict, call the tool, wait for an acknowledgement) is here a callback that is due
later.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, assert_never

from landed.sdk.classify import CallOutcome, Returned, raised
from landed.sdk.drivers import returned
from landed.sdk.leases import Lease
from landed.sdk.operation import CurrentOperation
from landed.sdk.requests import Ask, Call, Hear, Look, NotBegun, Post, Record
from landed.testing.cases.processes import GaveUp, Looking, Process, Steps, Transport
from landed.testing.cases.provider import Answer

_HEARS_FOR_SURE: Final = 20
"""Nothing that is told here is lost: who waits for a person asks again by itself more seldom than on a real network."""


class _Died(BaseException):
    """The process is gone: nothing that follows reaches anybody."""


class Task:
    """One run of the protocol, from a presentation to what the caller is told."""

    def __init__(
        self,
        process: Process,
        steps: Steps,
        *,
        transport: Transport,
        told: Callable[[Any], None],
        dispatch_at: float | None = None,
    ) -> None:
        """
        Args:
            told: gets the result; None when the caller went away before there was one.
            dispatch_at: when the worker would send, in seconds of the case; None: at once.
        """
        self._process = process
        self._steps = steps
        self._transport = transport
        self._told = told
        self._dispatch_at = dispatch_at
        self._waits = 0
        self._call: Call | None = None
        self._sent = False
        self.lease: Lease | None = None
        self.over = False
        self._dead = False
        process.tasks.append(self)

    # ---- what happens to it -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._pump()

    def give_up(self) -> None:
        """The caller stops waiting. A call under way goes on in its thread."""
        if self.over:
            return
        if self._call is not None:
            self._call.left_running = True
        self._waits += 1
        self._pump(error=GaveUp())

    def rewrite(self, arguments: Mapping[str, Any]) -> bool:
        """The arguments of the granted call change before it is sent; whether there is such a call (one that was sent stays)."""
        if self._call is None:
            return False
        if not self._sent:
            live: dict[str, Any] = self._call.arguments  # type: ignore[assignment]
            live.clear()
            live.update(arguments)
        return True

    def die(self) -> None:
        """The process is gone in the middle of it: whatever it would still do is not done."""
        if self.over:
            return
        self._dead = self.over = True
        self._waits += 1
        self._process.tasks.remove(self)
        error: BaseException | None = _Died()
        try:
            while True:
                if error is None:
                    self._steps.send(None)
                else:
                    self._steps.throw(error)
                error = None
        except (_Died, StopIteration):
            return

    # ---- the pump -----------------------------------------------------------------------------------------------------

    def _pump(self, reply: Any = None, error: BaseException | None = None) -> None:
        while not self._dead:
            try:
                request = self._steps.send(reply) if error is None else self._steps.throw(error)
            except StopIteration as stop:
                return self._end(stop.value)
            except GaveUp:
                return self._end(None)
            reply = error = None
            match request:
                case Ask():
                    asked = self._process.doors.ask(request)
                    if not self._arrived(asked, request.wait_s, request.claim_id):
                        return None
                    reply = _result(asked)
                    self._process.inbox.forget(request.claim_id)
                case Hear() if self._process.worker.timeline.closing:
                    return None  # the story is over, and nobody has decided
                case Hear():
                    heard = self._process.inbox.expect(request.claim_id)
                    if not self._arrived(heard, request.wait_s * _HEARS_FOR_SURE, request.claim_id):
                        return None
                    reply = _result(heard)
                case Record():
                    posted = self._process.outbox.post(request.event)
                    if not self._arrived(posted, request.wait_s):
                        return None
                    reply = _result(posted)
                case Post():
                    self._process.outbox.post(request.event)
                case Call():
                    return self._called(request)
                case Look():
                    return self._look(request)
                case _:
                    assert_never(request)
        return None

    def _end(self, result: Any) -> None:
        self.over = True
        if self in self._process.tasks:
            self._process.tasks.remove(self)
        self._told(result)

    def _resume_at(self, due_s: float, callback: Callable[[], None]) -> None:
        self._waits += 1
        mine = self._waits

        def due() -> None:
            if self._waits == mine and not self._dead:
                callback()

        self._process.worker.at(due_s, due)

    def _arrived(self, future: Future[Any], wait_s: float, claim_id: str | None = None) -> bool:
        """Whether *future* is done now; else the task goes on when it is, or when *wait_s* have passed."""
        worker = self._process.worker
        if future.done() and worker.timeline.now_s >= worker.paused_until_s:
            return True
        self._waits += 1
        mine = self._waits

        def go_on(*_: object) -> None:
            if self._waits == mine and not self._dead:
                self._waits += 1
                if claim_id is not None:
                    self._process.inbox.forget(claim_id)
                self._pump(_result(future))

        worker.at(worker.timeline.now_s + wait_s, go_on)
        future.add_done_callback(lambda _: worker.soon(go_on))
        return False

    # ---- calls --------------------------------------------------------------------------------------------------------

    def _called(self, call: Call) -> None:
        self._call, self.lease = call, call.lease
        worker = self._process.worker
        at_s = max(worker.timeline.now_s, self._dispatch_at or 0.0)
        if at_s <= worker.timeline.now_s and worker.paused_until_s <= worker.timeline.now_s:
            self._send(call)
        else:
            self._resume_at(at_s, lambda: self._send(call))

    def _send(self, call: Call) -> None:
        reason = call.check()
        if reason is not None:
            self._call = None
            return self._pump(NotBegun(reason))
        self._sent = True
        answer = self._transport(call.arguments)
        if answer.after_s <= 0:
            return self._answered(call, answer)
        worker = self._process.worker
        return worker.at(worker.timeline.now_s + answer.after_s, lambda: self._answered(call, answer))

    def answer_now(self, answer: Answer) -> None:
        """Another answer to the call that is under way arrives, such as to a request that the transport repeated."""
        if self._call is not None:
            self._answered(self._call, answer)

    def _answered(self, call: Call, answer: Answer) -> None:
        if self._call is not call or self._dead:
            return  # answered before
        self._call = None
        outcome = outcome_of(answer, call.operation)
        if call.left_running:
            call.late(outcome)
        else:
            self._waits += 1
            self._pump(outcome)

    def _look(self, request: Look) -> None:
        looking: Looking = request.function  # type: ignore[assignment]
        after_s, answer = looking.ask(request.request)
        now_s = self._process.worker.timeline.now_s
        if after_s > request.wait_s:
            return self._resume_at(now_s + request.wait_s, self._pump)
        return self._resume_at(now_s + after_s, lambda: self._pump(_looked(answer)))


def outcome_of(answer: Answer, operation: CurrentOperation | None) -> CallOutcome:
    try:
        status = answer.said.get("http")
        if operation is None:
            return Returned(answer=answer.outcome())
        if status is not None:
            operation.note(response_status=status)
        return returned(answer.outcome(), operation)
    except Exception as error:
        return raised(error)


def _looked(answer: Callable[[], object]) -> object:
    try:
        return answer()
    except Exception:
        return None


def _result(future: Future[Any]) -> Any:
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()
