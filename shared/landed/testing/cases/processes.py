"""One process of an agent: the real protocol of the SDK, pumped on the timeline instead of in a thread.

What a driver does in real time (wait for a verdict, call the tool, wait for an acknowledgement) is here a callback that is due
later; the protocol, its leases, its outbox and what it says about an answer are the product's own.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol

from landed.ports import EventLog, Ids, VerdictInbox
from landed.sdk.drivers import Doors
from landed.sdk.intent import Intent
from landed.sdk.leases import Lease, Leases
from landed.sdk.outbox import Outbox
from landed.sdk.protocol import Options
from landed.sdk.protocol import Protocol as LedgerProtocol
from landed.sdk.reads import read
from landed.sdk.requests import Request
from landed.sdk.settings import Secret
from landed.sdk.token import Execute
from landed.testing.cases.provider import Answer
from landed.testing.cases.timeline import Worker, WorkerSchedule

_KEEP_TRYING_S: Final = 300.0
_RECORD_WAIT_S: Final = 5.0
_HEARS_FOR_SURE: Final = 20
"""Nothing that is told here is lost: who waits for a person asks again by itself more seldom than on a real network."""
DIGEST_KEY: Final = Secret(b"the digest key of every case, it is no secret")


class GaveUp(BaseException):
    """The caller stops waiting, as a cancelled task does."""


class _Died(BaseException):
    """The process is gone: nothing that follows reaches anybody."""


class Looking(Protocol):
    """A read of the provider: its answer, and how long it takes."""

    def ask(self, request: Any) -> tuple[float, Callable[[], object]]: ...


class Run(Protocol):
    """What is under way in a process."""

    def die(self) -> None: ...


Transport = Callable[[Mapping[str, Any]], Answer]
"""Sends a call with these arguments to the provider."""
Steps = Generator[Request, Any, Any]


class _Leases(Leases):
    """Renews leases but those that a contract declares: they are not renewed."""

    def __init__(self, *args: Any, unrenewed: frozenset[str], **named: Any) -> None:
        super().__init__(*args, **named)
        self._unrenewed = unrenewed

    def keep(self, token: Execute) -> Lease:
        if token.contract.tool in self._unrenewed:
            return Lease(token, self._clock)
        return super().keep(token)


class Counting:
    """Ids that are the same in every run."""

    def __init__(self) -> None:
        self._given = 0

    def random_id(self) -> str:
        self._given += 1
        return f"{self._given:032x}"


class Process:
    """The SDK as one worker has it, for one tenant."""

    def __init__(
        self,
        worker: Worker,
        log: EventLog,
        inbox: VerdictInbox,
        ids: Ids,
        *,
        tenant_id: str,
        wait_s: float,
        unrenewed: frozenset[str],
    ) -> None:
        self.worker: Final = worker
        self.tenant_id: Final = tenant_id
        self.life: Final = worker.life
        self.inbox: Final = inbox
        self._ids = ids
        schedule = WorkerSchedule(worker)
        self.outbox: Final = Outbox(log, schedule, worker, keep_trying_s=_KEEP_TRYING_S)
        self.doors: Final = Doors(log, inbox, self.outbox, ())
        self.leases: Final = _Leases(log, schedule, worker, actor=worker.name, unrenewed=unrenewed)
        options = Options(
            tenant_id=tenant_id,
            worker=worker.name,
            reply_to=inbox.reply_to,
            wait_s=wait_s,
            record_wait_s=_RECORD_WAIT_S,
            digest_key=DIGEST_KEY,
            suspend_on=(),
        )
        self.protocol: Final = LedgerProtocol(options, clock=worker, ids=ids, leases=self.leases, outbox=self.outbox)
        self.tasks: list[Run] = []

    def perform(self, intent: Intent, verify: Looking | None) -> Steps:
        return self.protocol.perform(intent, _never, verify)  # type: ignore[arg-type]

    def read(self, intent: Intent) -> Steps:
        return read(intent, _never, tenant_id=self.tenant_id, claim_id=self._ids.random_id(), clock=self.worker)

    def die(self) -> None:
        """Everything that is under way here is gone."""
        for task in list(self.tasks):
            task.die()


def _never(**arguments: Any) -> None:
    raise AssertionError("a simulated call goes to the provider, not to a function")
