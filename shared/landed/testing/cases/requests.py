"""Requests as they leave an agent's process, and how the team's own code takes the answers."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from landed.core.identity import request_hash
from landed.core.state import COMPENSATE, Route
from landed.core.vocabulary import State
from landed.sdk.intent import Intent
from landed.testing.cases.batches import Item
from landed.testing.cases.contracts import REFERENCE
from landed.testing.cases.provider import Answer, Request
from landed.testing.cases.world import Known, World


def request_of(world: World, known: Known, intent: Intent, arguments: Mapping[str, Any]) -> Request:
    """The request as it leaves: under the key of the operation where the contract has one."""
    undoes = None
    if known.operation_id.startswith(COMPENSATE):
        undoes = (known.tenant_id, intent.operation_id.removeprefix(COMPENSATE))
    return Request(
        tool=intent.contract.tool,
        op=known.op,
        subject=(known.tenant_id, intent.operation_id),
        key=None if intent.contract.operation_key is None else intent.operation_id,
        arguments=arguments,
        request_hash=request_hash(intent.contract, arguments),
        undoes=undoes,
    )


def taken_as(route: Route, intent: Intent, declared: Mapping[str, Any]) -> Callable[[Answer], Answer]:
    """How the team's own code takes an answer of a call forward: an error that says that it is gone already acknowledges a
    removal, one that says that it exists acknowledges what an own try made that nobody answered. Under a key, and of an inverse,
    the ledger tells that by itself (§4, §8)."""
    operation = route.operation(intent.operation_id)
    is_inverse = intent.operation_id.startswith(COMPENSATE)
    own_try = any(not attempt.released for attempt in operation.attempts)
    unanswered = operation.state in (State.UNKNOWN, State.RECONCILING, State.NOT_FOUND)
    gone = () if is_inverse or (declared.get("gone_only_after_own_try") and not own_try) else declared.get("gone_errors", ())
    exists = () if intent.contract.key_honoured or not unanswered else intent.contract.already_exists_errors

    def taken(answer: Answer) -> Answer:
        said = answer.said.get("code") or str(answer.said.get("http", ""))
        if answer.kind != "error" or (said not in gone and said not in exists):
            return answer
        return msgspec.structs.replace(answer, kind="ok", fields={REFERENCE: "gone"})

    return taken


def request_of_items(items: list[Item]) -> Request:
    first = items[0]
    key = first.intent.contract.operation_key
    return Request(
        tool=first.intent.contract.tool,
        op=first.known.op,
        subject=(first.known.tenant_id, first.known.operation_id),
        key=None if key is None else first.known.operation_id,
        items={item.known.op: (item.known.tenant_id, item.known.operation_id) for item in items},
    )
