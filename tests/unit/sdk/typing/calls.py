"""Calls that type checkers must accept or refuse; read by test_types.py, never run. A refused line says so in a comment."""

from collections.abc import Mapping
from typing import Any, assert_never, assert_type

from landed import (
    AsyncLedger,
    Confirmed,
    Escalated,
    Execute,
    Found,
    Ledger,
    Probe,
    ProbeRequest,
    Refused,
    Rejected,
    Result,
    Tool,
    Unknown,
    effect,
)


@effect(effect="refund.create", stored_args=["order_id"], outcome_probe=Probe(tool="find"))
def refund(order_id: str, amount: int = 5) -> dict[str, str]:
    return {"id": order_id}


@effect(effect="refund.create", colour="red")  # refused: call-arg
def unknown_field() -> None: ...


@effect(effect="refund.create", lease="soon")  # refused: arg-type
def wrong_type() -> None: ...


@refund.probe
def find(request: ProbeRequest) -> Found:
    return Found(matched_on=("operation_id",))


@refund.probe  # refused: type-var
def no_probe(request: str) -> str:
    return request


assert_type(refund.function(order_id="17"), dict[str, str])
refund.function(order=17)  # refused: call-arg


def sync(ledger: Ledger, tool: Tool[..., Any], token: Execute) -> str:
    result = ledger.perform(tool, operation_id="op", order_id="17")
    assert_type(result, Result)
    print(result.receipt)  # refused: union-attr
    ledger.perform(tool, operation_id=17)  # refused: arg-type
    ledger.perform(lambda: 5)  # refused: arg-type
    token.attempt = 7  # refused: misc
    match result:
        case Confirmed():
            assert_type(result.receipt, Mapping[str, Any] | None)
            return str(result.reference)
        case Rejected() | Unknown() | Escalated() | Refused():
            return str(result.reason)
        case _:
            assert_never(result)


async def as_tasks(ledger: AsyncLedger, tool: Tool[..., Any]) -> None:
    assert_type(await ledger.perform(tool, operation_id="op"), Result)
    group = ledger.group("trip-7", workflow_type="trip")
    assert_type(await group.perform(tool, step="hotel"), Result)
    ledger.group("trip-7")  # refused: call-arg
