"""Nothing that is not declared reaches the log, a message, a repr or a log line."""

import logging
from typing import Any

import pytest

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.sdk.ledger import Ledger
from landed.sdk.tools import effect
from landed.wire.codec import encode

from .support import TENANT

PLANTED = "planted-secret-4242"


class Leaky(Exception):
    """An error as providers raise them: the secret in its text, its code and wherever else it fits."""

    def __init__(self) -> None:
        super().__init__(f"declined: {PLANTED}")
        self.code = f"declined for card {PLANTED}"
        self.status = f"402 {PLANTED}"
        self.request_id = f"req for {PLANTED}"
        self.body = PLANTED


def fails(card: str, note: str, order_id: str) -> Any:
    raise Leaky


def answers(card: str, note: str, order_id: str) -> Any:
    return {"id": "re_1", "card": card, "note": note}


@pytest.mark.parametrize("function", [fails, answers])
def test_only_declared_arguments_and_receipt_fields_are_on_the_log(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    memory = MemoryLedger()
    tool = effect(
        tool="refund",
        effect="refund.create",
        stored_args=("order_id",),
        free_text_args=("note",),
        reference_field="id",
        receipt_fields=("id",),
    )(function)
    with caplog.at_level(logging.DEBUG), Ledger.on(memory, tenant=TENANT) as ledger:
        result = ledger.perform(tool, operation_id="op", card=PLANTED, note=PLANTED, order_id="17")
        again = ledger.perform(tool, operation_id="op", card=PLANTED, note=PLANTED, order_id="17")
        mismatch = ledger.perform(tool, operation_id="op", card=PLANTED + "!", note=PLANTED, order_id="17")
    for event in memory.events():
        assert PLANTED.encode() not in encode(event)
        assert PLANTED not in repr(event)
    for shown in (result, again, mismatch, memory.state("op")):
        assert PLANTED not in repr(shown)
    assert PLANTED not in caplog.text
    prepared = memory.events("op")[0]
    assert isinstance(prepared, ev.OperationPrepared)
    assert prepared.stored_args == '{"order_id":"17"}'


def test_equal_arguments_give_other_digests_under_another_key() -> None:
    """A digest of a guessable value tells nothing to a reader of the log who lacks the tenant's key."""
    from landed.core.identity import argument_digests

    contract = effect(effect="refund.create")(answers).contract
    arguments = {"card": "4242", "note": "", "order_id": "17"}
    one, other = (argument_digests(contract, arguments, key=key) for key in (b"key of one tenant", b"key of another"))
    assert one.keys() == other.keys() == {"card", "note", "order_id"}
    assert not set(one.values()) & set(other.values())
