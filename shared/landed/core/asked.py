"""The authorization of an inverse at its claim: what the policy is asked, what no policy may allow, and the ruling as an event.

Pure. The owner of policies asks when the claim would be granted but for this, and appends the event right before its decision.

Source: docs/semantics.md §5 (`compensation_denied`), §8 (Each compensation is authorized when it runs).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from landed.core import events as ev
from landed.core.authorization import Asked, CompensationPolicy, Context, Ruling, context_json, settled_before
from landed.core.compensating import COMPENSATOR
from landed.core.decide import Granted, Refused
from landed.core.inverse import Inputs, expires_at_ms, inputs_for, registered_as, unwind_inputs
from landed.core.policy import COMPENSATION, Policies
from landed.core.projection import PROJECTOR
from landed.core.state import Operation, Route
from landed.core.vocabulary import ActionClass, Decision, ForwardOutcome, Refusal, State

_LATER: Final = frozenset(list(Refusal)[list(Refusal).index(Refusal.COMPENSATION_DENIED) + 1 :]) - {Refusal.LEDGER_UNAVAILABLE}
"""Refusals that come after `compensation_denied`: the first hit wins, so the ruling is asked for before them."""
_REFERENCE_CHARACTERS_MAX: Final = 1024
_REFERENCES_MAX: Final = 64

Engine = Callable[[CompensationPolicy, Asked], Ruling]
"""Asks a policy; see `adapters.authorizing`."""


class OnRecord(NamedTuple):
    """An operation that has a reference on record."""

    tenant_id: str
    operation_id: str
    tool: str | None


class Authorized(msgspec.Struct, frozen=True, kw_only=True):
    """A ruling, with what was asked and under which policy."""

    asked: Asked
    ruling: Ruling

    @property
    def allowed(self) -> bool:
        return self.ruling.decision is Decision.ALLOW

    @property
    def detail(self) -> dict[str, str]:
        """What a refusal says."""
        version = self.asked.context.policy_version
        return {"rule": self.ruling.reason} | ({} if version is None else {"policy_version": version})


def is_to_be_authorized(route: Route, operation: Operation, answer: Granted | Refused) -> bool:
    """Whether the claim that got *answer*, where inverses are allowed, is one of a registered inverse that a ruling may stop."""
    forward = route.forward_of(operation.operation_id)
    if forward is None or operation.tool not in forward.compensation:
        return False
    observed = answer.observe.reason if isinstance(answer, Granted) and answer.observe is not None else None
    refused = answer.reason if isinstance(answer, Refused) else observed
    return refused is None or refused in _LATER


def possible_references(stored_args: str | None) -> tuple[str, ...]:
    """Arguments of an inverse that may be a provider's reference of what it acts on."""
    values = (value for value in _arguments(stored_args).values() if isinstance(value, str | int) and not isinstance(value, bool))
    texts = [text for value in values if 0 < len(text := str(value)) <= _REFERENCE_CHARACTERS_MAX]
    return tuple(dict.fromkeys(texts))[:_REFERENCES_MAX]


def authorized(
    route: Route,
    inverse: Operation,
    claim: ev.Claim,
    policies: Policies,
    engine: Engine,
    *,
    now_ms: int,
    on_record: Iterable[OnRecord] = (),
) -> Authorized:
    """The ruling about *claim* of *inverse* under the present policy; without a policy it is denied.

    Args:
        inverse: with its intent, as folded.
        on_record: operations that have one of its `possible_references` on record, of any tenant.
    """
    forward = route.forward_of(inverse.operation_id)
    if forward is None:
        raise ValueError(f"{inverse.operation_id!r} is no inverse")
    asked = _asked(route, forward, inverse, claim, policies, now_ms=now_ms, foreign=_foreign(route, forward, on_record))
    policy = policies.compensation
    ruling = settled_before(asked) or _window_over(forward, inverse, now_ms=now_ms)
    if ruling is None and policy is None:
        ruling = Ruling(decision=Decision.DENY, reason="no policy says who may perform inverses")
    if ruling is None and policy is not None:
        ruling = engine(policy, asked)
    assert ruling is not None
    return Authorized(asked=asked, ruling=ruling)


def authorization_event(
    route: Route, inverse: Operation, found: Authorized, *, group_id: str | None
) -> ev.CompensationAuthorized:
    """*found* as an event of the inverse, without `event_id`."""
    return ev.CompensationAuthorized(
        event_id="",
        tenant_id=route.tenant_id,
        route=route.route,
        operation_id=inverse.operation_id,
        group_id=group_id,
        actor=PROJECTOR,
        seen_version=inverse.version,
        policy_version=found.asked.context.policy_version,
        inverse_id=inverse.operation_id,
        action=found.asked.action,
        resource=found.asked.resource,
        context=context_json(found.asked.context),
        decision=found.ruling.decision,
        reason=found.ruling.reason,
    )


def _asked(
    route: Route,
    forward: Operation,
    inverse: Operation,
    claim: ev.Claim,
    policies: Policies,
    *,
    now_ms: int,
    foreign: bool,
) -> Asked:
    compensation = registered_as(forward, inverse.tool)
    action = None if compensation is None else compensation.authorization_action
    known = [one.value for one in forward.references if one.confirmed]
    granted = next((one for one in reversed(forward.attempts) if not one.released), None)
    contract = inverse.contract
    return Asked(
        action=action or inverse.effect_type or inverse.tool or "unknown",
        resource=known[-1] if known else forward.operation_id,
        principal=_principal(claim.worker),
        context=Context(
            workflow_id=route.route,
            caused_by_action=route.unwind_reason or "",
            forward_status=_status(forward),
            policy_version=policies.version(COMPENSATION),
            requires_human=contract is None or contract.action_class is ActionClass.IRREVERSIBLE,
            tenant_id=route.tenant_id,
            workflow_type=route.workflow_type,
            forward_policy_version=None if granted is None else granted.policy_version,
            forward_tool=forward.tool or "unknown",
            age_s=None if forward.confirmed_at_ms is None else max(0, now_ms - forward.confirmed_at_ms) / 1000,
            inputs=_arguments(inverse.stored_args),
            approved_by=forward.undo_approved_by,
            evidence=_is_evident(route, forward, inverse),
            foreign_reference=foreign,
        ),
    )


def _principal(worker: str) -> str:
    """The worker's name; the replicas of the compensator are one."""
    return COMPENSATOR if worker.partition(":")[0] == COMPENSATOR else worker


def _status(forward: Operation) -> ForwardOutcome:
    if forward.confirmed_at_ms is not None:
        return ForwardOutcome.SUCCEEDED
    return ForwardOutcome.FAILED if forward.state in (State.REJECTED, State.NOT_FOUND) else ForwardOutcome.UNKNOWN


def _is_evident(route: Route, forward: Operation, inverse: Operation) -> bool:
    """Whether what the inverse is given is what the log knows of the effect; a further attempt sends what the first one sent."""
    compensation = registered_as(forward, inverse.tool)
    if compensation is None or not forward.attempts_counted:
        return False
    if inverse.attempts_counted:
        return True
    given = unwind_inputs(route).get(forward.operation_id, {})
    found = inputs_for(forward, compensation, given=given)
    if not isinstance(found, Inputs):
        return False
    sent = _arguments(inverse.stored_args)
    # What `unwind` gave counts whether or not the contract requires it: else the whole is refunded in place of a part.
    return all(name in sent and sent[name] == found.arguments[name] for name in (*compensation.required_fields, *given))


def _foreign(route: Route, forward: Operation, on_record: Iterable[OnRecord]) -> bool:
    """Whether the reference is also on record elsewhere: with another tenant under any tool, since the log does not know which
    tools are one provider's; with the same tenant under the same tool, for several steps of a trip may share one booking."""
    return any(
        one.tenant_id != route.tenant_id or (one.operation_id != forward.operation_id and one.tool == forward.tool)
        for one in on_record
    )


def _window_over(forward: Operation, inverse: Operation, *, now_ms: int) -> Ruling | None:
    """An inverse that was dispatched once may go on: its window was open then."""
    compensation = registered_as(forward, inverse.tool)
    closes_ms = None if compensation is None else expires_at_ms(forward, compensation)
    if closes_ms is None or now_ms < closes_ms or inverse.attempts_counted or forward.removed_at_ms is not None:
        return None
    return Ruling(decision=Decision.DENY, reason="the window of the inverse has passed")


def _arguments(stored_args: str | None) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(stored_args or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
