"""The same request once more, rebuilt from nothing but what the log keeps; or why it cannot be.

Same operation, same key, same arguments: whatever of them is not on the log, or is not as the function takes it, bars the replay.

Source: docs/semantics.md §4 (`stored_args`), §7 (Replay).
"""

from typing import Any

import msgspec

from landed.core.contract import Contract
from landed.core.errors import LandedError
from landed.core.identity import RequestError, request_hash
from landed.core.state import Operation
from landed.sdk.intent import Intent
from landed.sdk.tools import Tool


class CannotReplay(LandedError):
    """The request cannot be sent again by this process; the first argument is one word that says why."""

    @property
    def why(self) -> str:
        return str(self.args[0])


def arguments_of(tool: Tool[..., Any] | None, operation: Operation) -> tuple[Tool[..., Any], Contract, dict[str, Any]]:
    """Tool, contract and arguments of the request of *operation*, as it was sent, without the operation key.

    Raises:
        CannotReplay: `not_registered`, `no_contract`, `tool_changed`, `arguments_not_stored`, or `request_mismatch`.
    """
    contract = operation.contract
    if contract is None:
        raise CannotReplay("no_contract")
    if tool is None:
        raise CannotReplay("not_registered")
    if tool.contract.operation_key != contract.operation_key or tool.contract.verify != contract.verify:
        # It would go out under another key, or be taken for settled by another rule, than the one that its attempts share.
        raise CannotReplay("tool_changed")
    try:
        stored = msgspec.json.decode(operation.stored_args or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        raise CannotReplay("arguments_not_stored") from None
    needed = set(tool.arguments) - {tool.key_argument}
    if not needed <= stored.keys():
        raise CannotReplay("arguments_not_stored")
    if not stored.keys() <= needed:
        raise CannotReplay("tool_changed")
    try:
        same = request_hash(contract, stored) == operation.request_hash
    except RequestError:
        same = False
    if not same:
        raise CannotReplay("request_mismatch")
    return tool, contract, stored


def cannot_replay(tool: Tool[..., Any] | None, operation: Operation) -> str | None:
    """Why the request of *operation* cannot be sent again by a process that has *tool*, in one word; None where it can."""
    try:
        arguments_of(tool, operation)
    except CannotReplay as error:
        return error.why
    return None


def replay_of(tool: Tool[..., Any] | None, operation: Operation, *, group_id: str | None, reason: str) -> Intent:
    """The intent to send the request of *operation* again, under its own contract.

    Raises:
        CannotReplay: see `arguments_of`.
    """
    _, contract, arguments = arguments_of(tool, operation)
    return Intent(
        contract=contract,
        arguments=arguments,
        operation_id=operation.operation_id,
        group_id=group_id,
        replay_reason=reason,
    )
