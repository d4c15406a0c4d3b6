"""What the tests of the SDK share: a tool that counts its effects, logs that fail in chosen ways, ledgers on a clock by hand."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from landed.adapters.memory import ManualClock, MemoryLedger
from landed.core.authorization import Rule, Rules
from landed.core.events import Event, PolicyChanged
from landed.core.policy import policy_json, policy_route
from landed.core.verdict import Verdict
from landed.ports import Appended, AppendFailed, NothingAppended
from landed.sdk.ledger import Ledger
from landed.sdk.settings import Settings
from landed.sdk.tools import Tool, effect
from landed.wire.ids import with_event_id

TENANT = "acme"


class Counted:
    """A tool with an effect that can be counted; *act* says how its call ends."""

    def __init__(self, act: Callable[[dict[str, Any]], Any] | None = None, **fields: Any) -> None:
        self.effects = 0
        contract = {"effect": "refund.create", "reference_field": "id", "receipt_fields": ("id", "amount"), **fields}

        @effect(tool="refund", **contract)
        def refund(order_id: str = "17", amount: int = 5) -> Any:
            self.effects += 1
            answer = {"id": f"re_{self.effects}", "amount": amount, "order": order_id}
            return answer if act is None else act(answer)

        self.tool: Tool[..., Any] = refund


def raising(error: BaseException) -> Callable[[dict[str, Any]], Any]:
    def act(answer: dict[str, Any]) -> Any:
        raise error

    return act


class Unreachable:
    """A log and inbox that never acknowledge, or fail as told; what was sent is kept."""

    reply_to = "nobody"

    def __init__(self, error: Exception | None = None, *, at_once: bool = False) -> None:
        self.sent: list[Event] = []
        self._error = error
        self._at_once = at_once

    def append(self, event: Event) -> Future[Appended]:
        self.sent.append(event)
        if self._at_once and self._error is not None:
            raise self._error
        future: Future[Appended] = Future()
        if self._error is not None:
            future.set_exception(self._error)
        return future

    def expect(self, claim_id: str) -> Future[Verdict]:
        return Future()

    def forget(self, claim_id: str) -> None: ...

    def close(self, timeout_s: float = 0.0) -> None: ...


class Flaky:
    """A memory ledger whose log can be cut off: events of chosen types are not acknowledged, or never arrive."""

    reply_to = "flaky"

    def __init__(self, memory: MemoryLedger | None = None) -> None:
        self.memory = memory or MemoryLedger()
        self.lost: set[type[Event]] = set()
        """Not appended, and the writer does not learn it."""
        self.unsaid: set[type[Event]] = set()
        """Appended, and the writer does not learn it."""
        self.failing: set[type[Event]] = set()
        """Not appended, and the writer is told that it is unknown."""

    def append(self, event: Event) -> Future[Appended]:
        if type(event) in self.failing:
            failed: Future[Appended] = Future()
            failed.set_exception(AppendFailed("timed out"))
            return failed
        if type(event) in self.lost:
            return Future()
        acknowledged = self.memory.append(event)
        return Future() if type(event) in self.unsaid else acknowledged

    def expect(self, claim_id: str) -> Future[Verdict]:
        return self.memory.expect(claim_id)

    def forget(self, claim_id: str) -> None:
        self.memory.forget(claim_id)

    def close(self, timeout_s: float = 0.0) -> None: ...


def allow_inverses(memory: MemoryLedger) -> None:
    """The tenant's policy allows every inverse that a contract registered."""
    key = "compensation"
    event = PolicyChanged(
        event_id="",
        tenant_id=TENANT,
        route=policy_route(key),
        actor="olga",
        seen_version=0,
        scope=key,
        new=policy_json(Rules(rules=(Rule(id="any"),))),
        who="olga",
        why="test",
    )
    memory.append(with_event_id(event)).result()


def settings(**changes: Any) -> Settings:
    return Settings(**{"bootstrap": None, "tenant": TENANT, "worker": "worker-1", "wait": 0.2, "record_wait": 0.2, **changes})


class ByHand:
    """A ledger in memory on a clock that only the test moves; `background` runs what is due."""

    def __init__(self, backend: Any = None, **changes: Any) -> None:
        self.clock = ManualClock()
        self.memory = MemoryLedger(self.clock)
        self.backend = backend(self.memory) if backend is not None else self.memory
        self.ledger = Ledger(settings(**changes), self.backend, self.backend, clock=self.clock, threaded=False)

    def background(self) -> None:
        self.ledger.parts.schedule.run_due()

    def pass_time(self, seconds: float, *, step: float = 0.5) -> None:
        """Moves the clock on in small steps, and lets the background work at each."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.background()


__all__ = ["TENANT", "ByHand", "Counted", "Flaky", "NothingAppended", "Unreachable", "raising", "settings"]
