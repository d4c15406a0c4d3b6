"""The reconciler of a case: what is due, what is looked up, and what follows, by the core that the real one runs.

A tick does all that can be done now. Each operation is looked at once and sent again once in a tick: what fails or stays open
waits for the next one.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from landed.core import events as ev
from landed.core.backwards import read_backwards
from landed.core.contract import Contract
from landed.core.due import due_at_ms, replay_at_ms
from landed.core.identity import request_hash
from landed.core.reconciliation import (
    Append,
    Probe,
    ProbeAnswer,
    ProbeFailed,
    Replay,
    judge,
    judge_refusal,
    step_now,
)
from landed.core.state import Operation, Route
from landed.core.vocabulary import State
from landed.ports.tables import DueOperation
from landed.sdk.intent import Intent
from landed.sdk.looking import request_for, taken
from landed.sdk.results import Refused, Result
from landed.testing.cases.looks import Look
from landed.testing.cases.timeline import Worker
from landed.testing.cases.world import World

_PROBE_LIMIT_S: Final = 10.0

Send = Callable[[Worker, Intent, Route, Callable[[Result | None], None]], None]
"""Claims and calls as the service *worker*; tells the result."""


class Reconciler:
    """One reconciler process of a case."""

    def __init__(self, world: World, worker: Worker, send: Send) -> None:
        self._world = world
        self._worker = worker
        self._send = send
        self._touched: set[tuple[str, str, str]] = set()

    def tick(self, *, again: frozenset[str] = frozenset()) -> None:
        """Does what can be done now.

        Args:
            again: names of operations that the story sends again now, where the product permits it.
        """
        self._touched.clear()
        batch = self._world.case.setting.get("reconciler_batch")
        taken_now = {(route.tenant_id, op.operation_id) for route, op in self._due()[:batch]}
        while True:
            busy = False
            for route, operation in self._due():
                if (route.tenant_id, operation.operation_id) in taken_now:
                    busy = self._step(route, operation, again=again) or busy
            if not busy:
                return

    def _due(self) -> list[tuple[Route, Operation]]:
        """Every unsettled operation, that which has waited longest first."""
        found: list[tuple[int, int, Route, Operation]] = []
        for route in self._world.routes():
            for operation in route.operations.values():
                due_ms = due_at_ms(operation)
                if due_ms is not None:
                    found.append((due_ms, len(found), route, operation))
        return [(route, operation) for _, _, route, operation in sorted(found, key=lambda one: one[:2])]

    def _once(self, route: Route, operation: Operation, what: str) -> bool:
        key = (route.tenant_id, operation.operation_id, what)
        fresh = key not in self._touched
        self._touched.add(key)
        return fresh

    def _step(self, route: Route, operation: Operation, *, again: frozenset[str]) -> bool:
        contract = operation.contract
        op = self._world.op_of(route.tenant_id, operation.operation_id)
        now_ms = self._world.timeline.now_ms()
        step = step_now(
            operation,
            tenant_id=route.tenant_id,
            route=route.route,
            now_ms=now_ms,
            can_probe=contract is not None and contract.outcome_probe is not None,
            cannot_replay=_cannot_replay(operation),
            group_state=route.group_state,
        )
        if isinstance(step, Append):
            if not self._once(route, operation, f"append {operation.version}"):
                return False
            self._append(route, step.events)
            return True
        in_doubt = operation.state in (State.UNKNOWN, State.RECONCILING)
        if isinstance(step, Probe) and contract is not None and self._once(route, operation, "look"):
            self._look(route, operation, contract)
            return True
        if isinstance(step, Probe) and op in again and in_doubt:
            at_ms = replay_at_ms(operation)
            if at_ms is not None and at_ms <= now_ms and contract is not None:
                step = Replay(reason=contract.action_class)
        if isinstance(step, Replay) and self._once(route, operation, "send"):
            return self._replay(route, operation, step.reason)
        return False

    # ---- looks --------------------------------------------------------------------------------------------------------

    def _look(self, route: Route, operation: Operation, contract: Contract) -> None:
        world = self._world
        due = DueOperation(
            tenant_id=route.tenant_id, route=route.route, group_id=_group(route, operation), operation=operation, due_at_ms=0
        )
        probe = contract.outcome_probe
        if probe is None:
            return
        look = look_of(world, contract, probe.tool, operation)
        after_s, answer = look.ask(request_for(due, contract, _PROBE_LIMIT_S))
        asked_at_ms = world.timeline.now_ms()
        forward = route.forward_of(operation.operation_id) if look.backwards else None
        terms = contract if forward is None or forward.contract is None else forward.contract

        def answered() -> None:
            found: ProbeAnswer = ProbeFailed("timeout")
            if after_s < _PROBE_LIMIT_S:
                found = _taken(answer, terms)
            if forward is not None:
                found = read_backwards(found, forward, terms, asked_at_ms=asked_at_ms)
            said = judge(operation, found, tenant_id=route.tenant_id, route=route.route, asked_at_ms=asked_at_ms, jitter=0.0)
            self._append(route, said)

        if after_s <= 0:
            answered()
        else:
            self._worker.at(world.timeline.now_s + min(after_s, _PROBE_LIMIT_S), answered)

    def _append(self, route: Route, events: tuple[ev.Event, ...]) -> None:
        for event in events:
            if isinstance(event, ev.LeaseExpired):
                event = msgspec.structs.replace(event, event_id=self._world.ids.random_id())
            grouped = any(op.operation_id != route.route for op in route.operations.values())
            if grouped:
                event = msgspec.structs.replace(event, group_id=_group(route, route.operation(event.operation_id or "")))
            self._world.append(event)

    # ---- replays ------------------------------------------------------------------------------------------------------

    def _replay(self, route: Route, operation: Operation, reason: str) -> bool:
        contract = operation.contract
        if contract is None:
            return False
        intent = Intent(
            contract=contract,
            arguments=_stored(operation),
            operation_id=operation.operation_id,
            group_id=_group(route, operation),
            replay_reason=reason,
        )

        def told(result: Result | None) -> None:
            if isinstance(result, Refused):
                self._append(route, judge_refusal(operation, result.reason, tenant_id=route.tenant_id, route=route.route))

        self._send(self._worker, intent, route, told)
        return True


def look_of(world: World, contract: Contract, reader: str, operation: Operation) -> Look:
    """The read that looks for the effect of *operation*; that of an inverse without one of its own reads the forward one's."""
    forward_id = operation.operation_id.removeprefix("compensate:")
    own = world.declared(contract.tool)
    if not operation.is_inverse or own.get("probe") == reader:
        return Look(world.provider, reader, own, op_of=world.op_of)
    forward = next((known for known in world.known.values() if known.operation_id == forward_id), None)
    declared = world.declared(forward.tool) if forward is not None else own
    return Look(world.provider, reader, declared, op_of=world.op_of, subject_of=lambda _: forward_id, backwards=True)


def _taken(answer: Callable[[], object], contract: Contract) -> ProbeAnswer:
    try:
        return taken(answer(), contract)
    except Exception as error:
        return ProbeFailed(type(error).__name__)


def _stored(operation: Operation) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(operation.stored_args or "{}")
    return found


def _cannot_replay(operation: Operation) -> str | None:
    """The request as the log keeps it must be the one that was sent; volatile arguments a tool makes anew."""
    contract = operation.contract
    if contract is None:
        return "no_contract"
    return None if request_hash(contract, _stored(operation)) == operation.request_hash else "arguments_not_stored"


def _group(route: Route, operation: Operation) -> str | None:
    own = operation.operation_id.removeprefix("compensate:")
    return None if route.route == own else route.route
