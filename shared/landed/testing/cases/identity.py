"""Who an operation of a case is: tenant, group and operation id, from its workflow, step, message or name; and its intent.

Source: the head of a file of cases ("Names"); docs/semantics.md §1.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.state import COMPENSATE
from landed.sdk.intent import Intent, hash_of, intent_of
from landed.testing.cases.contracts import OWN_ARGUMENT, UNDOES, contract_of_inverse
from landed.testing.cases.loading import arguments_in, expanded
from landed.testing.cases.world import AGENT, TENANT, Known, World
from landed.wire.ids import with_event_id

_PRESENT: Final = frozenset({"call", "call_many", "call_again"})
UNNAMED: Final = "some.tool"
"""Tool of an operation of which no step says what it calls."""


class Identities:
    """Names of one case and what they stand for."""

    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._linked: Final = _linked(world)

    def known(self, op: str, fields: Mapping[str, Any]) -> Known:
        """Who *op* is: the identity that it got first stays, arguments and the rest are as said last."""
        world = self._world
        if op.startswith(COMPENSATE):
            return self._inverse(op, fields)
        known = world.known.get(op)
        merged = {**(known.fields if known is not None else {}), **fields}
        arguments = self._arguments(op, fields, known)
        tool = merged.get("tool") or self._tool_elsewhere(op)
        tenant_id = merged.get("tenant", TENANT)
        group_id = merged.get("group", merged.get("workflow", merged.get("message", self._linked.get(op))))
        operation_id = self._name(op, merged, tool, arguments)
        if known is None or (known.tenant_id, known.operation_id) != (tenant_id, operation_id):
            found = Known(
                op=op,
                tenant_id=tenant_id,
                group_id=group_id,
                operation_id=operation_id,
                tool=tool,
                arguments=arguments,
                fields=merged,
            )
            world.known.setdefault(op, found)
            world.names.setdefault((tenant_id, operation_id), op)
            self._open_group(found)
            return found
        known.arguments, known.fields = arguments, merged
        return known

    def _inverse(self, op: str, fields: Mapping[str, Any]) -> Known:
        """The undo of an operation, performed by whoever presents it: in the group of what it undoes."""
        world = self._world
        forward = world.find(op.removeprefix(COMPENSATE))
        if forward is None:
            undone = op.removeprefix(COMPENSATE)
            forward = self.known(undone, self.presented_with(undone))
        operation_id = COMPENSATE + forward.operation_id
        registered = world.contract(forward.tool).compensation
        tool = fields.get("tool") or (registered[0].tool if registered else forward.tool)
        stored = world.ledger.route(forward.route, tenant=forward.tenant_id).operation(operation_id).stored_args
        arguments = msgspec.json.decode(stored) if stored else {UNDOES: forward.operation_id}
        found = Known(
            op=op,
            tenant_id=forward.tenant_id,
            group_id=forward.group_id,
            operation_id=operation_id,
            tool=tool,
            arguments=dict(fields.get("args") or arguments),
            fields=dict(fields),
        )
        world.known[op] = found
        return found

    def presented_with(self, op: str) -> dict[str, Any]:
        """Words of the first step that presents *op*, now or later."""
        for step in self._world.case.steps:
            if op in step.ops and step.do in _PRESENT:
                return {name: value for name, value in step.fields.items() if name not in ("op", "ops", "text")}
        return {}

    def _tool_elsewhere(self, op: str) -> str:
        """The tool that another step names for *op*; where none does, one that the case says nothing else about."""
        for step in self._world.case.steps:
            if op in step.ops and step.get("tool") is not None:
                tool: str = step.get("tool")
                return tool
        return UNNAMED

    def _arguments(self, op: str, fields: Mapping[str, Any], known: Known | None) -> dict[str, Any]:
        if fields.get("args") is not None:
            return dict(fields["args"])
        if "args_text" in fields:
            return arguments_in(fields["args_text"])
        return {OWN_ARGUMENT: op} if known is None else dict(known.arguments)

    def _name(self, op: str, merged: Mapping[str, Any], tool: str, arguments: Mapping[str, Any]) -> str:
        case, message = self._world.case, merged.get("message")
        contract = self._world.contract(tool)
        if message is not None and contract.equal_calls == "fold":
            intent = intent_of(contract, self.sent(tool, arguments), operation_id="equal")
            return f"{message}:{hash_of(intent)[:32]}"
        if message is None and "workflow" in merged and "step" in merged:
            name = f"{merged['workflow']}:{merged['step']}"
        else:
            name = f"{case.id}:{op}"
        told_apart = [f"{argument}={arguments.get(argument)}" for argument in contract.identity_args]
        if told_apart and "step" not in merged:
            name = f"{case.id}:{tool}"
        return ":".join([name, *told_apart])

    def _open_group(self, known: Known) -> None:
        parent = known.fields.get("parent")
        if parent is not None and known.group_id is not None:
            self._world.append(group_opened(known.tenant_id, known.group_id, parent=parent))

    def sent(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        key = self._world.contract(tool).operation_key
        filled = None if key is None else key.argument
        return {name: value for name, value in arguments.items() if name != filled}

    def intent(self, known: Known, fields: Mapping[str, Any], *, retry: bool) -> Intent:
        depends_on = known.fields.get("depends_on")
        replaces = known.fields.get("replaces")
        names = None if depends_on is None else tuple(self.id_of(n) for one in depends_on for n in expanded(one))
        contract = self._world.contract(known.tool)
        if known.op.startswith(COMPENSATE):
            forward = self._world.find(known.op.removeprefix(COMPENSATE))
            registered_by = None if forward is None else self._world.contract(forward.tool)
            contract = contract_of_inverse(contract, registered_by, known.arguments, self._world.declared(known.tool))
        return intent_of(
            contract,
            self.sent(known.tool, known.arguments),
            operation_id=known.operation_id,
            group_id=known.group_id,
            step=known.fields.get("step"),
            depends_on=names,
            replaces=None if replaces is None else self.id_of(replaces),
            retry=retry,
        )

    def id_of(self, op: str) -> str:
        known = self._world.known.get(op)
        return f"{self._world.case.id}:{op}" if known is None else known.operation_id


def group_opened(tenant_id: str, group_id: str, *, parent: str | None = None) -> ev.GroupOpened:
    return with_event_id(
        ev.GroupOpened(
            event_id="",
            tenant_id=tenant_id,
            route=group_id,
            group_id=group_id,
            actor=AGENT,
            workflow_type="workflow",
            parent_group=parent,
        )
    )


def _linked(world: World) -> dict[str, str]:
    """Group of operations that name each other (`replaces`, `depends_on`) and no group: they belong to one."""
    found: dict[str, str] = {}
    for step in world.case.steps:
        named = [step.get("replaces"), *(n for one in step.get("depends_on") or () for n in expanded(one))]
        others = [name for name in named if name is not None]
        if others:
            found |= dict.fromkeys([*step.ops, *others], f"{world.case.id}:linked")
    return found
