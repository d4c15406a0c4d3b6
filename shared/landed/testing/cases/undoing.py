"""The compensator of a case: performs the plan of every unwinding group, by the core's plan, one inverse after the other.

It claims inverses as anybody does, so order, STOP, calls in flight and authorization are the ledger's to refuse.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.contract import Compensation, milliseconds
from landed.core.inverse import Missing, chosen, inputs_for, unwind_inputs
from landed.core.plan import StepDecision, plan
from landed.core.state import Operation, Route
from landed.core.vocabulary import UNWINDING_OR_AFTER, Choice, EscalationReason, State
from landed.sdk.intent import Intent
from landed.sdk.results import Result
from landed.testing.cases.contracts import UNDOES, contract_of_inverse
from landed.testing.cases.provider import Request
from landed.testing.cases.settling import Send
from landed.testing.cases.timeline import Worker
from landed.testing.cases.world import World
from landed.wire.ids import with_event_id

COMPENSATOR: Final = "compensator"


class Compensator:
    """One compensator process of a case."""

    def __init__(self, world: World, worker: Worker, send: Send) -> None:
        self._world = world
        self._worker = worker
        self._send = send

    def tick(self) -> bool:
        """Performs what is due of every plan, each inverse once; whether there was anything."""
        busy, tried = False, set[tuple[str, str]]()
        while True:
            progress = False
            for route in self._world.routes():
                if route.group_state in UNWINDING_OR_AFTER:
                    progress = self._route(route, tried) or progress
            if not progress:
                return busy
            busy = True

    def _route(self, route: Route, tried: set[tuple[str, str]]) -> bool:
        given = unwind_inputs(route)
        found = plan(route, now_ms=self._world.timeline.now_ms())
        for step in found.steps:
            key = (route.tenant_id, step.suggested_idempotency_key)
            forward = route.operation(step.operation_id)
            if forward.state is State.ESCALATED:
                return False  # a blocked inverse blocks those after it
            if key in tried or step.decision is StepDecision.RECONCILE:
                return False
            tried.add(key)
            if step.decision is StepDecision.ESCALATE:
                self._skip(route, forward, step.reason)
                return True
            return self._undo(route, forward, given.get(forward.operation_id, {}))
        return False

    # ---- one inverse --------------------------------------------------------------------------------------------------

    def _undo(self, route: Route, forward: Operation, given: Mapping[str, Any]) -> bool:
        world, following = self._world, chosen(route, forward)
        if following is None:
            return False
        compensation, tool = following.compensation, following.compensation.tool
        if world.declared(forward.tool or "").get("undo_handler") is False:
            return self._skip(route, forward, "the inverse is not registered here")
        if not compensation.automatic and forward.state is State.CONFIRMED:
            return self._skip(route, forward, "the inverse needs a person")
        if not self._met(route, forward, compensation):
            if world.timeline.now_ms() >= self._since_ms(route) + milliseconds(
                compensation.requires.wait if compensation.requires else 0
            ):
                return self._skip(route, forward, "its precondition does not hold")
            return False
        inputs = inputs_for(forward, compensation, given=given)
        if isinstance(inputs, Missing):
            return self._skip(route, forward, "required fields are missing")
        arguments: dict[str, Any] = inputs.arguments or {UNDOES: forward.operation_id}
        on_record = route.operations.get(following.inverse_id)
        if on_record is not None and on_record.stored_args is not None:
            arguments = msgspec.json.decode(on_record.stored_args)
        intent = Intent(
            contract=contract_of_inverse(world.contract(tool), forward.contract, arguments),
            arguments=dict(arguments),
            operation_id=following.inverse_id,
            group_id=None if route.route == forward.operation_id else route.route,
        )
        self._send(self._worker, intent, route, _heard)
        return True

    def _met(self, route: Route, forward: Operation, compensation: Compensation) -> bool:
        """Whether what the inverse requires holds right now; a read that fails tells nothing."""
        requires = compensation.requires
        if requires is None:
            return True
        op = self._world.op_of(route.tenant_id, forward.operation_id)
        subject = (route.tenant_id, forward.operation_id)
        answer = self._world.provider.read(Request(tool=requires.read, op=op, subject=subject, key=None), subject=subject)
        if answer.kind != "found":
            return False
        word, _, name = requires.condition.partition(" ")
        if word == "status":
            return str(answer.fields.get("status")) == name
        before: dict[str, Any] = msgspec.json.decode(forward.receipt or "{}")
        return word == "found" or (name in before and answer.fields.get(name) == before[name])

    def _skip(self, route: Route, forward: Operation, why: str) -> bool:
        if forward.state is not State.CONFIRMED:
            return False
        event = ev.OperationEscalated(
            event_id="",
            tenant_id=route.tenant_id,
            route=route.route,
            operation_id=forward.operation_id,
            group_id=None if route.route == forward.operation_id else route.route,
            actor=COMPENSATOR,
            seen_version=forward.version,
            attempt=forward.last.number if forward.last else 0,
            reason=EscalationReason.SKIPPED,
            queue=forward.contract.queue if forward.contract else "default",
            choices=[Choice.KEPT, Choice.COMPENSATED, Choice.COMPENSATING],
            evidence=msgspec.json.encode({"why": why}).decode(),
        )
        self._world.append(with_event_id(event))
        return True

    # ---- what the log says about the unwinding ------------------------------------------------------------------------

    def _since_ms(self, route: Route) -> int:
        for entry in self._world.ledger.entries():
            event = entry.event
            if isinstance(event, ev.GroupUnwinding) and (event.tenant_id, event.route) == (route.tenant_id, route.route):
                return entry.at_ms
        return 0


def _heard(result: Result | None) -> None:
    """What became of the inverse stands on the log."""
