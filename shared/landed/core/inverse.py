"""One inverse of one operation: which of a list is next, what it is given, and what stands in its way. Pure functions.

Source: docs/semantics.md §4 (Compensation), §8.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from landed.core.contract import Compensation, milliseconds
from landed.core.recovery import inverse_id
from landed.core.state import Operation, Route, has_attempt_left
from landed.core.vocabulary import ActionClass, Decision, EscalationReason, ForwardOutcome, State

REFERENCE: Final = "reference"
"""Name under which an inverse gets the provider's reference of the effect that it undoes."""


class Obstacle(StrEnum):
    """Why a step of a plan is skipped (§8)."""

    IRREVERSIBLE = "irreversible"
    """The contract says that nothing takes the effect back."""
    NO_REGISTERED_COMPENSATION = "no_registered_compensation"
    UNSAFE = "unsafe"
    """The present state is not among those that the contract names as safe."""
    EXPIRED = "expired"
    """The window of the inverse has passed."""
    REQUIRED_FIELDS_MISSING = "required_fields_missing"
    UNAUTHORIZED = "unauthorized"


class Chosen(msgspec.Struct, frozen=True):
    """The inverse that is next for an operation: its place in the list of the contract, counted from 1."""

    number: int
    compensation: Compensation
    inverse_id: str


class Inputs(msgspec.Struct, frozen=True):
    """Arguments of an inverse, by name, and where each comes from."""

    arguments: dict[str, Any]
    sources: dict[str, str]


class Missing(msgspec.Struct, frozen=True):
    """Required fields that no declared source has."""

    fields: tuple[str, ...]


def chosen(route: Route, forward: Operation) -> Chosen | None:
    """The inverse of *forward* that is next; None where its contract registered none.

    The n-th of a list follows only an n-1st that was rejected with an error named in its `next_on`.
    """
    contract = forward.contract
    if contract is None or not contract.compensation:
        return None
    number = 1
    while number < len(contract.compensation) and leads_on(route, forward, number):
        number += 1
    return Chosen(number, contract.compensation[number - 1], inverse_id(forward.operation_id, number))


def registered_as(forward: Operation, tool: str | None) -> Compensation | None:
    """What the contract of *forward* says about the inverse *tool*; None where it registered no such one."""
    registered = () if forward.contract is None else forward.contract.compensation
    return next((one for one in registered if one.tool == tool), None)


class Gone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers of an inverse that say that the effect is gone already: nothing was left to do (§8)."""

    errors: tuple[str, ...]
    only_after_own_try: bool = False
    """Such an answer counts only where an earlier attempt of the inverse was made and not answered for good."""
    looked_up: bool = False
    """A probe, the inverse's own or that of the forward call, tells whether it is so."""


def gone_answers(route: Route, inverse: Operation) -> Gone | None:
    """The answers of *inverse* that say that the effect is gone, as the contract of its forward operation lists them."""
    forward = route.forward_of(inverse.operation_id)
    compensation = None if forward is None else registered_as(forward, inverse.tool)
    if forward is None or compensation is None or not compensation.gone_errors:
        return None
    contracts = [contract for contract in (inverse.contract, forward.contract) if contract is not None]
    return Gone(
        errors=compensation.gone_errors,
        only_after_own_try=compensation.gone_only_after_own_try,
        looked_up=any(contract.outcome_probe is not None for contract in contracts),
    )


def leads_on(route: Route, forward: Operation, number: int) -> bool:
    """Whether the *number*-th inverse of *forward* ended with an error that leads to the next one of the list."""
    inverse = route.operations.get(inverse_id(forward.operation_id, number))
    return inverse is not None and leads_to_next(forward, inverse)


def leads_to_next(forward: Operation, inverse: Operation) -> bool:
    """Whether *inverse* of *forward* was rejected with an error that leads to the next of the list, and there is a next one."""
    registered = forward.contract.compensation if forward.contract else ()
    numbers = [n for n in range(1, len(registered)) if inverse_id(forward.operation_id, n) == inverse.operation_id]
    return bool(numbers) and inverse.state is State.REJECTED and inverse.error_code in registered[numbers[0] - 1].next_on


def inputs_for(
    forward: Operation,
    compensation: Compensation,
    *,
    given: Mapping[str, Any] | None = None,
    wanted: Sequence[str] = (),
) -> Inputs | Missing:
    """Arguments for the inverse: those that it requires, from the first declared source that has all of them.

    Args:
        given: what `unwind` said about this inverse (part of an amount, say); wins over any source.
        wanted: further arguments that the inverse's tool takes; filled where the same source has them, never missing.
    """
    own = dict(given or {})
    required = [name for name in compensation.required_fields if name not in own]
    missing: tuple[str, ...] = tuple(required)
    for source in compensation.input_from:
        fields = _fields(forward, source)
        lacking = tuple(name for name in required if fields.get(name) is None)
        if not lacking:
            names = dict.fromkeys([*required, *(name for name in wanted if name not in own and name in fields)])
            arguments = {name: fields[name] for name in names} | own
            return Inputs(arguments, dict.fromkeys(names, source) | dict.fromkeys(own, "unwind"))
        if len(lacking) <= len(missing):
            missing = lacking
    return Missing(missing) if required else Inputs(own, dict.fromkeys(own, "unwind"))


def _fields(forward: Operation, source: str) -> Mapping[str, Any]:
    """What *source* knows about the effect. Only what stands on the log: a probe's finding is the receipt that it left there."""
    if source == "forward_input":
        return _object(forward.stored_args)
    confirmed = [reference.value for reference in forward.references if reference.confirmed]
    known = {REFERENCE: confirmed[-1]} if confirmed else {}
    return {**known, **_object(forward.receipt)}


def _object(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def expires_at_ms(forward: Operation, compensation: Compensation) -> int | None:
    """When the window of *compensation* closes: so long after the effect was confirmed; None where there is no window."""
    if compensation.expires_after is None or forward.confirmed_at_ms is None:
        return None
    return forward.confirmed_at_ms + milliseconds(compensation.expires_after)


def obstacle(route: Route, forward: Operation, *, now_ms: int, given: Mapping[str, Any] | None = None) -> Obstacle | None:
    """What keeps the inverse of *forward* from being performed, whatever the order; None where nothing does.

    A window that closed and a field that is missing stop an inverse that was not dispatched yet, no later attempt of it.
    """
    contract = forward.contract
    following = chosen(route, forward)
    if following is None:
        said = contract is not None and (contract.no_inverse or contract.action_class is ActionClass.IRREVERSIBLE)
        return Obstacle.IRREVERSIBLE if said else Obstacle.NO_REGISTERED_COMPENSATION
    if forward.state in (State.UNKNOWN, State.RECONCILING) and ForwardOutcome.UNKNOWN not in following.compensation.safe_when:
        return Obstacle.UNSAFE
    inverse = route.operations.get(following.inverse_id)
    if inverse is not None and is_unregistered(forward, inverse):
        return Obstacle.UNAUTHORIZED
    if inverse is not None and inverse.attempts_counted:
        return None
    closes = expires_at_ms(forward, following.compensation)
    if closes is not None and now_ms >= closes and forward.removed_at_ms is None:
        return Obstacle.EXPIRED
    if isinstance(inputs_for(forward, following.compensation, given=given), Missing):
        return Obstacle.REQUIRED_FIELDS_MISSING
    return Obstacle.UNAUTHORIZED if is_denied(inverse) else None


def is_denied(inverse: Operation | None) -> bool:
    """Whether the last ruling about *inverse* denied it; a person who decides that it is performed clears it."""
    return inverse is not None and inverse.authorization is not None and inverse.authorization.decision is Decision.DENY


def is_unregistered(forward: Operation, inverse: Operation) -> bool:
    """Whether a claim of *inverse* was denied since the contract of *forward* did not register its tool (§8)."""
    return bool(inverse.answers) and inverse.tool not in forward.compensation


def unwind_inputs(route: Route) -> dict[str, dict[str, Any]]:
    """What `unwind` said about the inverses of *route*, by forward operation id."""
    return {name: given for name, given in _object(route.unwind_inputs).items() if isinstance(given, dict)}


def condition_met(condition: str, forward: Operation, found: Mapping[str, Any] | None) -> bool:
    """Whether a read made right before an inverse shows what the inverse requires.

    Args:
        condition: `found`; `status WORD`, the field `status` has this text; `unchanged FIELD`, as the receipt has it.
        found: fields of the answer; None where nothing was found.

    What cannot be compared does not hold.
    """
    word, _, name = condition.partition(" ")
    if found is None:
        return False
    match word:
        case "found":
            return True
        case "status":
            return str(found.get("status")) == name
        case "unchanged":
            before = _object(forward.receipt)
            return name in before and name in found and found[name] == before[name]
        case _:
            return False


def came_undone(inverse: Operation) -> bool:
    """Whether *inverse* was confirmed and reverted since: it is proven that nothing of it is left."""
    return inverse.state is State.ESCALATED and inverse.escalated_for is EscalationReason.EFFECT_REVERTED


def retries_left(inverse: Operation) -> bool:
    """Whether the inverse's own policy allows another attempt after it was rejected or proven absent."""
    return inverse.state in (State.REJECTED, State.NOT_FOUND) and has_attempt_left(inverse)
