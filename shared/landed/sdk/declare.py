"""Contracts as keyword arguments: checked all at once, so that an author sees every broken field and rule in one message."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from landed.core.contract import Compensation, Contract, Effect, OperationKey, Probe, Problem, Verify, Webhook
from landed.core.contract_form import contract_of, document_of
from landed.core.vocabulary import ActionClass, EqualCalls, OnAbsent, Stakes
from landed.sdk.errors import ContractError


class ContractFields(TypedDict, total=False):
    """Fields of a `Contract` by name; durations are seconds. A test compares them with `Contract`."""

    tool: str
    effect: Effect | str
    action_class: ActionClass | str
    stakes: Stakes | str
    read_only: bool
    dry_run: str | None
    identity_args: Sequence[str]
    volatile_args: Sequence[str]
    free_text_args: Sequence[str]
    business_key: str | None
    operation_key: OperationKey | None
    stored_args: Sequence[str]
    personal: Sequence[str]
    equal_calls: EqualCalls | str | None
    resources: Sequence[str]
    implies: Sequence[str]
    unit: str
    supersedes: bool
    reference_field: str | None
    receipt_fields: Sequence[str]
    success_when: Mapping[str, str]
    verify: Verify | str | None
    no_effect_errors: Sequence[str]
    already_exists_errors: Sequence[str]
    settles_after: float | None
    reference_pattern: str | None
    ownership: Mapping[str, str]
    lease: float
    longest_processing: float
    max_attempts: int
    retry_rejected: bool
    unique_field: str | None
    outcome_probe: Probe | str | None
    first_check_after: float
    backoff: float
    max_interval: float
    safe_window: float
    max_checks: int
    deadline: float
    minimum_evidence: Sequence[str]
    removed_when: Sequence[str]
    on_absent: OnAbsent | str
    queue: str
    webhook: Webhook | str | None
    compensation: Compensation | Sequence[Compensation]
    no_inverse: bool
    follow_up: str | None


def contract_from_fields(function_name: str, contract: Contract | None, fields: Mapping[str, Any]) -> Contract:
    """The contract of a function, from a ready one or from fields.

    Raises:
        ContractError: lists every field and rule that is broken.
    """
    # A ready contract goes the same way: the types of its values were checked by nobody.
    document = fields if contract is None else document_of(contract)
    made, found = contract_of(document, tool=function_name)
    if contract is not None:
        found += [Problem(name, "is in the contract already: give the contract or fields, not both") for name in fields]
    if made is None or found:
        name = made.tool if made else document.get("tool", function_name)
        raise ContractError(f"contract of {name!r}", found)
    return made
