"""The compensator of a case: does what the core says is next about every unwinding group, one inverse after the other.

It claims inverses as anybody does, so order, STOP, calls in flight and authorization are the ledger's to refuse.
"""

from typing import Any, Final

import msgspec

from landed.core.compensating import UNMET, HandOver, Leave, Means, Perform, handed_over, next_actions
from landed.core.contract import Contract, Requires
from landed.core.state import Operation, Route
from landed.sdk.intent import Intent
from landed.sdk.results import Result
from landed.testing.cases.contracts import UNDOES, contract_of_inverse
from landed.testing.cases.provider import Request
from landed.testing.cases.settling import Send
from landed.testing.cases.timeline import Worker
from landed.testing.cases.world import World
from landed.wire.ids import with_event_id


class Compensator:
    """One compensator process of a case."""

    def __init__(self, world: World, worker: Worker, send: Send) -> None:
        self._world: Final = world
        self._worker: Final = worker
        self._send: Final = send
        # Undo is automatic and allowed by default, where there is code for it.
        self._means: Final = Means(contract_of=self._registered, wanted=lambda tool: (), allowed=lambda tool: True)
        self._without_code: Final = {
            tool
            for declared in world.case.contracts.values()
            if declared.get("undo_handler") is False
            for tool in ([declared["undo"]] if isinstance(declared.get("undo"), str) else declared.get("undo", ()))
        }

    def _registered(self, tool: str) -> Contract | None:
        return None if tool in self._without_code else self._world.contract(tool)

    def tick(self) -> bool:
        """Does what is due in every group, each inverse once; whether there was anything."""
        busy, tried = False, set[tuple[str, str]]()
        while True:
            progress = False
            for route in self._world.routes():
                progress = self._route(route, tried) or progress
            if not progress:
                return busy
            busy = True

    def _route(self, route: Route, tried: set[tuple[str, str]]) -> bool:
        for action in next_actions(route, self._means, now_ms=self._world.timeline.now_ms()):
            key = (route.tenant_id, action.inverse_id if isinstance(action, Perform) else action.operation_id)
            if key in tried:
                continue
            tried.add(key)
            forward = route.operation(action.operation_id)
            match action:
                case Perform():
                    return self._perform(route, forward, action)
                case HandOver() | Leave():
                    # Where nobody of the story performs it, what is left to others is left to a person.
                    return self._hand_over(route, forward, action.why)
                case _:
                    continue
        return False

    # ---- one inverse --------------------------------------------------------------------------------------------------

    def _perform(self, route: Route, forward: Operation, action: Perform) -> bool:
        if action.requires is not None and not self._met(route, forward, action.requires):
            gives_up_ms = action.gives_up_at_ms
            if gives_up_ms is not None and self._world.timeline.now_ms() >= gives_up_ms:
                return self._hand_over(route, forward, UNMET)
            return False
        arguments: dict[str, Any] = action.arguments or {UNDOES: forward.operation_id}
        intent = Intent(
            contract=contract_of_inverse(
                self._world.contract(action.tool), forward.contract, arguments, self._world.declared(action.tool)
            ),
            arguments=dict(arguments),
            operation_id=action.inverse_id,
            group_id=None if route.route == forward.operation_id else route.route,
            # Of an inverse that is proven absent the compensator takes the retry that the ledger offers.
            retry=True,
        )
        self._send(self._worker, intent, route, _heard)
        return True

    def _met(self, route: Route, forward: Operation, requires: Requires) -> bool:
        """Whether what the inverse requires holds right now; a read that fails tells nothing."""
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

    def _hand_over(self, route: Route, forward: Operation, why: str) -> bool:
        event = handed_over(route, forward, why, group_id=None if route.route == forward.operation_id else route.route)
        if event is None:
            return False
        self._world.append(with_event_id(event))
        return True


def _heard(result: Result | None) -> None:
    """What became of the inverse stands on the log."""
