"""A reconciler on a ledger in memory: the real fold, the real loop, real probes, and clocks that the test moves."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

from landed import Execute, Ledger, ProbeRequest, ToolRegistry, current_operation, intent_of
from landed.adapters.memory import ManualClock, MemoryLedger
from landed.adapters.system import RandomIds
from landed.core import events as ev
from landed.core.contract import Effect, Probe
from landed.core.reconciliation import due_at_ms, priority
from landed.core.state import Operation
from landed.ports import Appended, AppendFailed
from landed.ports.tables import DueOperation
from landed.sdk.parts import Parts
from landed.sdk.settings import Settings
from landed_services.reconciler.loop import Reconciler
from landed_services.reconciler.probes import ProbeRunner
from landed_services.reconciler.replays import ReplayRunner
from landed_services.work.budgets import Budgets

TENANT = "acme"
BOUNDS: dict[str, Any] = {
    "lease": 2.0,
    "first_check_after": 0.0,
    "backoff": 1.0,
    "max_interval": 1.0,
    "safe_window": 5.0,
    "longest_processing": 2.0,
    "max_checks": 20,
}


_PATIENCE_S = 1.0


class Due:
    """The view of a memory ledger; `stale` stops it where it is, as a projector that is down does."""

    def __init__(self, memory: MemoryLedger) -> None:
        self._memory = memory
        self._shown: list[DueOperation] | None = None

    def stale(self) -> None:
        self._shown = self._all()

    def fresh(self) -> None:
        self._shown = None

    def _all(self) -> list[DueOperation]:
        known = {
            (one.event.tenant_id, one.event.route, one.event.group_id, one.event.operation_id)
            for one in self._memory.entries()
            if one.event.operation_id is not None and isinstance(one.event, ev.OperationPrepared)
        }
        found = []
        for tenant_id, route, group_id, name in known:
            operation = self._memory.route(route, tenant=tenant_id).operation(name or "")
            at_ms = due_at_ms(operation)
            if at_ms is not None:
                urgent = priority(operation)
                assert urgent is not None
                place = (*urgent, tenant_id, route, operation.operation_id)
                found.append(
                    DueOperation(
                        tenant_id=tenant_id,
                        route=route,
                        group_id=group_id,
                        group_state=self._memory.route(route, tenant=tenant_id).group_state,
                        operation=operation,
                        due_at_ms=at_ms,
                        place=place,
                    )
                )
        return sorted(found, key=lambda one: one.place)

    def due(
        self, *, now_ms: int, limit: int, after: Sequence[object] | None = None, closed_tools: Collection[str] = ()
    ) -> Sequence[DueOperation]:
        shown = self._all() if self._shown is None else self._shown
        wanted = [one for one in shown if one.operation.state == "dispatched" or one.operation.tool not in closed_tools]
        return [one for one in wanted if one.due_at_ms <= now_ms and (after is None or one.place > tuple(after))][:limit]

    def next_due_ms(self) -> int | None:
        return min((one.due_at_ms for one in self._all()), default=None)


class Log:
    """The memory ledger as a log that may stop to acknowledge."""

    def __init__(self, memory: MemoryLedger) -> None:
        self._memory = memory
        self.error: AppendFailed | None = None
        self.silent = False
        self.slow: list[tuple[ev.Event, Future[Appended]]] | None = None
        """Where it is a list, events wait in it until `arrive`."""

    def arrive(self) -> None:
        waiting, self.slow = self.slow or [], None
        for event, future in waiting:
            future.set_result(self._memory.append(event).result())

    def append(self, event: ev.Event) -> Future[Appended]:
        future: Future[Appended] = Future()
        if self.error is not None:
            future.set_exception(self.error)
            return future
        if self.slow is not None:
            self.slow.append((event, future))
            return future
        return future if self.silent else self._memory.append(event)

    def close(self, timeout_s: float) -> None: ...


class World:
    """One ledger, one reconciler, and a provider's probe."""

    def __init__(
        self,
        look: Callable[[ProbeRequest], Any],
        *,
        at_once: int = 4,
        limit_s: float = 0.3,
        batch: int = 64,
        on: "World | None" = None,
    ) -> None:
        """
        Args:
            on: a second reconciler, with a clock of its own, on the ledger and with the tools of that world.
        """
        self.looks: list[str] = []
        self.calls: list[str] = []
        """Operations that the tool was called for, in order."""
        self.answer: Callable[[], Any] = lambda: {"id": "re_1"}
        self.registry = on.registry if on else ToolRegistry()
        self._look = look
        self.clock, self.reconcilers_clock = on.clock if on else ManualClock(), ManualClock()
        if on:
            self.reconcilers_clock.advance((on.reconcilers_clock.now_ms() - self.reconcilers_clock.now_ms()) / 1000)
        self.memory = on.memory if on else MemoryLedger(self.clock)
        self.due = on.due if on else Due(self.memory)
        self.log = on.log if on else Log(self.memory)
        self.probes = ProbeRunner(self.registry, time_limit_s=limit_s, at_once=at_once)
        settings = Settings(bootstrap=None, tenant="nobody", worker="reconciler-1", wait=2.0)
        self.replays = ReplayRunner(self.registry, Parts(settings, self.memory, self.memory, clock=self.clock, threaded=False))
        self.budgets = Budgets(self.registry.providers, None, self.reconcilers_clock)
        self.reconciler = Reconciler(
            self.log,
            self.due,
            self.probes,
            self.reconcilers_clock,
            RandomIds(),
            budgets=self.budgets,
            replays=self.replays,
            batch=batch,
        )

    def tool(self, name: str = "refund", **contract: Any) -> Any:
        @self.registry.effect(
            tool=name,
            effect=Effect(kind=f"{name}.create"),
            outcome_probe=Probe(tool=f"find.{name}"),
            stored_args=("order",),
            **{**BOUNDS, **contract},
        )
        def make(order: str = "7") -> Any:
            self.calls.append(current_operation().id)
            return self.answer()

        @make.probe
        def find(request: ProbeRequest) -> Any:
            self.looks.append(request.operation_id)
            return self._look(request)

        return make

    def begun(self, tool: Any, operation_id: str, group_id: str | None = None) -> Execute:
        """The operation as a caller leaves it that is killed during its call: `dispatched`, and nobody answers."""
        settings = Settings(bootstrap=None, tenant=TENANT, worker="w")
        with Ledger(settings, self.memory, self.memory, clock=self.clock, threaded=False) as ledger:
            token = ledger.begin(intent_of(tool.contract, {"order": "7"}, operation_id=operation_id, group_id=group_id))
            assert isinstance(token, Execute), token
            return token

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.reconcilers_clock.advance(seconds)

    def work(self, *, seconds: float = 0.05, ticks: int = 1) -> None:
        """Ticks for as long as the probes need, in real time; the ledger's time stands still.

        A machine that is slow gets more than *seconds*: what was begun in them is waited for, unless it hangs.
        """
        until = time.monotonic() + seconds
        while ticks > 0 or time.monotonic() < until or (self._under_way() and time.monotonic() < until + _PATIENCE_S):
            self.reconciler.tick()
            ticks -= 1
            time.sleep(0.005)

    def _under_way(self) -> bool:
        return any(places._running or places._done for places in (self.probes._places, self.replays._places))

    def until(self, operation_id: str, state: str, *, timeout_s: float = 30.0, step_s: float = 0.5) -> Operation:
        """Lets the ledger's time pass in small steps until the operation is in *state*."""
        deadline = time.monotonic() + timeout_s
        while (operation := self.operation(operation_id)).state != state:
            assert time.monotonic() < deadline, (operation.state, self.names(operation_id))
            self.work(seconds=0.02)
            self.pass_time(step_s)
        return operation

    def operation(self, operation_id: str) -> Operation:
        return self.memory.state(operation_id)

    def names(self, operation_id: str | None = None) -> list[str]:
        return [ev.TYPE_OF[type(event)] for event in self.memory.events(operation_id)]

    def close(self) -> None:
        self.probes.close()
        self.replays.close()


def hanging(until: threading.Event, *hung: str) -> Callable[[ProbeRequest], Any]:
    """A look that does not come back for operations whose id starts with one of *hung*, before *until* is set."""

    def look(request: ProbeRequest) -> Any:
        from landed import Found

        if request.operation_id.startswith(hung):
            until.wait(30)
        return Found(reference="re_1", matched_on=("operation_id",))

    return look
