"""Whose object an answer shows (semantics.md §4, `ownership`): another's reference must never come to stand for our effect."""

from typing import Any

import pytest

from landed import Confirmed, Ledger, Refused, Rejected, Unknown, effect
from landed.adapters.memory import MemoryLedger


def performed(answer: dict[str, Any], ownership: dict[str, str], *, group: str | None = None, **terms: Any) -> Any:
    @effect(effect="refund.create", reference_field="id", ownership=ownership, **terms)
    def refund() -> dict[str, Any]:
        return answer

    memory = MemoryLedger()
    with Ledger.on(memory, tenant="acme") as ledger:
        if group is None:
            return ledger.perform(refund, operation_id="op-1"), memory
        return ledger.group(group, workflow_type="trip").perform(refund, step="refund", operation_id="op-1"), memory


OWN = {"metadata.operation": "{operation_id}", "account": "tenant-{tenant_id}"}


def test_an_answer_that_shows_our_own_object_is_a_success() -> None:
    result, _ = performed({"id": "re_1", "account": "tenant-acme", "metadata": {"operation": "op-1"}}, OWN)
    assert isinstance(result, Confirmed)
    assert result.reference == "re_1"


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "re_1", "account": "tenant-other", "metadata": {"operation": "op-1"}},
        {"id": "re_1", "account": "tenant-acme", "metadata": {"operation": "op-2"}},
        {"id": "re_1", "account": "tenant-acme", "metadata": "op-1"},
        {"id": "re_1"},
    ],
)
def test_an_answer_that_shows_anothers_object_leaves_the_outcome_unknown_and_its_reference_unrecorded(answer: Any) -> None:
    result, memory = performed(answer, OWN)
    assert isinstance(result, Unknown)
    assert (result.reason, result.reference) == ("not_ours", None)
    assert memory.state("op-1", tenant="acme").references == ()


def test_a_group_may_be_named_and_an_operation_without_one_has_none_to_show() -> None:
    by_group = {"batch": "{group_id}"}
    assert isinstance(performed({"id": "re_1", "batch": "trip-7"}, by_group, group="trip-7")[0], Confirmed)
    assert isinstance(performed({"id": "re_1", "batch": "trip-7"}, by_group)[0], Unknown)


def test_a_declared_failure_needs_no_owner() -> None:
    terms: dict[str, Any] = {"success_when": {"status": "done"}, "no_effect_errors": ["declined"]}
    assert isinstance(performed({"status": "declined"}, OWN, **terms)[0], Rejected)


def test_what_a_call_makes_beside_its_resources_is_held_as_well() -> None:
    """§4, `implies`: one writer at a time also of what it makes."""

    @effect(effect="order.ship", resources=["order:{order}"], implies=["label:{order}"], reference_field="id")
    def ship(order: str) -> dict[str, str]:
        raise TimeoutError

    @effect(effect="label.print", resources=["label:{order}"], reference_field="id")
    def print_label(order: str) -> dict[str, str]:
        return {"id": "l1"}

    memory = MemoryLedger()
    with Ledger.on(memory, tenant="acme") as ledger:
        assert isinstance(ledger.perform(ship, operation_id="s1", order="7"), Unknown)
        refused = ledger.perform(print_label, operation_id="l1", order="7")
        assert isinstance(refused, Refused)
        assert refused.reason == "resource_busy"
        assert isinstance(ledger.perform(print_label, operation_id="l2", order="8"), Confirmed)
