"""Contracts as keyword arguments: checked all at once, so that an author sees every broken field and rule in one message."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from landed.core.contract import Compensation, Contract, Effect, OperationKey, Probe, Problem, Verify, Webhook, problems
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
    webhook: Webhook | None
    compensation: Sequence[Compensation]
    follow_up: str | None


_FIELDS = {field.name: field for field in msgspec.structs.fields(Contract)}
_SHORT = {"effect": "kind", "verify": "tool", "outcome_probe": "tool"}


def contract_from_fields(function_name: str, contract: Contract | None, fields: Mapping[str, Any]) -> Contract:
    """The contract of a function, from a ready one or from fields.

    Raises:
        ContractError: lists every field and rule that is broken.
    """
    made: Contract | None = contract
    found = [Problem(name, "is in the contract already: give the contract or fields, not both") for name in fields]
    if contract is None:
        made, found = _made(function_name, fields)
    if made is not None:
        found += problems(made)
    if made is None or found:
        raise ContractError(f"contract of {made.tool if made else fields.get('tool', function_name)!r}", found)
    return made


def _made(function_name: str, fields: Mapping[str, Any]) -> tuple[Contract | None, list[Problem]]:
    found: list[Problem] = []
    values: dict[str, Any] = {"tool": function_name}
    for name, value in fields.items():
        field = _FIELDS.get(name)
        if field is None:
            found.append(Problem(name, "is not a field of a contract"))
            continue
        if name in _SHORT and isinstance(value, str):
            value = {_SHORT[name]: value}
        try:
            values[name] = msgspec.convert(msgspec.to_builtins(value), field.type)
        except (msgspec.ValidationError, TypeError) as error:
            found.append(_problem(name, error))
    if "effect" not in fields:
        found.append(Problem("effect", "is required: what the tool does, `resource.verb`"))
    return (None if found else Contract(**values)), found


def _problem(name: str, error: Exception) -> Problem:
    """*error* of a nested value with the path put in front, in the product's form."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem(name, f"is of a wrong type ({type(error).__name__})")
    text, _, path = str(error).partition(" - at `$")
    return Problem(name + path.rstrip("`"), text[:1].lower() + text[1:])
