"""Current state of a route: a group and all its operations, or one operation alone. Values only; `fold.py` makes them.

Times are milliseconds since the epoch, UTC.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from landed.core.contract import Contract, readable_contract
from landed.core.events import Position
from landed.core.vocabulary import (
    DOUBT,
    Choice,
    Decision,
    EscalationReason,
    GroupState,
    Mark,
    Outcome,
    Refusal,
    State,
)

COMPENSATE: Final = "compensate:"
POLICY_ROUTE: Final = "policy:"
"""What the route of a policy begins with; its key follows."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of state values; written without defaults, in field order, so equal states give equal bytes."""


class Attempt(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A granted claim."""

    number: int
    claim_id: str
    granted_at_ms: int
    lease_end_ms: int
    lease_number: int = 0
    """Renewals of the lease."""
    ended_at_ms: int | None = None
    """When the holder answered; None while it has not."""
    state_before: State
    """What a release goes back to."""
    open: bool = True
    """Whether the call may still take effect as far as the log knows (§3)."""
    released: bool = False
    replay: bool = False
    answered: bool = False
    """An `outcome_*` of this attempt is on record."""
    observe: str | None = None
    approval_id: str | None = None
    """Approval that allowed it."""
    resources: tuple[str, ...] = ()
    policy_version: str | None = None
    """Version of the policies that it was granted under."""


class Reference(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A provider reference that was seen, with the attempt that it belongs to where that is known."""

    value: str
    attempt: int | None = None
    confirmed: bool = True
    """False: shown by an unsettled answer, not yet evidence of the effect."""


class ReviewTask(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The open review task of an operation (§10)."""

    review_id: int
    opened_at_ms: int
    reasons: tuple[str, ...]
    """`EscalationReason` or `Mark`, oldest first."""
    queue: str = "default"


class ClaimAnswer(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The first decision of a claim in the log."""

    claim_id: str
    attempt: int | None = None
    """Number of the attempt when granted."""
    reason: Refusal | None = None


class Approval(Value, frozen=True, kw_only=True, omit_defaults=True):
    approval_id: str
    request_hash: str
    expires_at_ms: int
    requested_by: str | None = None
    four_eyes: bool = False
    decision: Decision | None = None
    approver: str | None = None
    policy_version: str | None = None


class Authorization(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The last ruling about an inverse (§8)."""

    decision: Decision
    reason: str
    policy_version: str | None = None


class Operation(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One intended business effect, folded from all its events in log order."""

    operation_id: str
    state: State = State.NONE
    version: int = 0
    """Accepted events."""
    # Intent
    tool: str | None = None
    request_hash: str | None = None
    argument_digests: dict[str, str] = {}
    stored_args: str | None = None
    contract_text: str | None = None
    contract_digest: str | None = None
    effect_type: str | None = None
    compensation: tuple[str, ...] = ()
    depends_on: tuple[str, ...] | None = None
    confirmed_before: tuple[str, ...] = ()
    """Steps of the group that were confirmed when this one was first granted: its implicit prerequisites."""
    step: str | None = None
    replaces: str | None = None
    replaced_by: str | None = None
    resources: tuple[str, ...] = ()
    dry_run: bool = False
    prepared_at_ms: int | None = None
    # Claims and attempts
    attempts: tuple[Attempt, ...] = ()
    answers: tuple[ClaimAnswer, ...] = ()
    withdrawn: tuple[str, ...] = ()
    attempts_by_review: int = 0
    """Number of attempts that counts up to which a reviewer allowed another, whatever the contract says; 0: none did."""
    # Outcome and evidence
    references: tuple[Reference, ...] = ()
    receipt: str | None = None
    confirmed_at_ms: int | None = None
    confirmed_attempt: int | None = None
    removed_at_ms: int | None = None
    no_op: bool = False
    error_code: str | None = None
    settled_at_ms: int | None = None
    checks: int = 0
    """Probes since the last grant, or since a reviewer had them counted anew."""
    last_probe_status: str | None = None
    next_check_at_ms: int | None = None
    doubt_since_ms: int | None = None
    # People
    escalated_for: EscalationReason | None = None
    review: ReviewTask | None = None
    reviews: int = 0
    marks: tuple[Mark, ...] = ()
    kept: bool = False
    undo_approved_by: str | None = None
    """Reviewer who decided that the effect is undone after all."""
    authorization: Authorization | None = None
    """Of an inverse: the last ruling about it."""
    approvals: tuple[Approval, ...] = ()
    news: dict[str, int] = {}
    """The provider's own time (or version) of the newest webhook about each reference; under "", about the operation."""
    claimed_states: tuple[str, ...] = ()
    """What agents told their users, in log order."""
    disagreements: int = 0
    """Statements that disagreed with the state when they were recorded."""
    final: bool = False
    """Erased or retired: claims get the state, nothing else moves it."""
    frozen_at: tuple[Position, ...] = ()
    """Places of records of this operation that this release cannot read: it is frozen until they are folded."""
    # Bookkeeping of the fold
    seen: dict[str, str] = {}
    """Digest of each event by event id."""

    @property
    def contract(self) -> Contract | None:
        """The first accepted contract; None where only its digest is known, or where this release cannot read it."""
        return None if self.contract_text is None else readable_contract(self.contract_text)

    @property
    def last(self) -> Attempt | None:
        """The attempt granted last."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_inverse(self) -> bool:
        return self.operation_id.startswith(COMPENSATE)

    @property
    def attempts_counted(self) -> int:
        """Attempts that count against `max_attempts`: a released one does not."""
        return sum(not attempt.released for attempt in self.attempts)

    @property
    def attempts_allowed(self) -> int:
        contract = self.contract
        return max(contract.max_attempts if contract else 0, self.attempts_by_review)

    @property
    def escalated_for_doubt(self) -> bool:
        return self.state is State.ESCALATED and self.escalated_for in DOUBT


class Route(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A group and all its operations, or one operation without a group."""

    tenant_id: str
    route: str
    group_state: GroupState = GroupState.NONE
    workflow_type: str | None = None
    parent_group: str | None = None
    intent_ref: str | None = None
    unwind_reason: str | None = None
    unwinding_since_ms: int | None = None
    """Append time of its `group_unwinding`."""
    unwind_inputs: str | None = None
    """JSON: what `unwind` said about inverses, by forward operation id."""
    version: int = 0
    """Accepted events of the group itself."""
    frozen_at: tuple[Position, ...] = ()
    """Places of records of the group itself that this release cannot read: all its operations are frozen, also new ones."""
    policy: str | None = None
    """JSON of the policy, on the route of one; None where it was removed."""
    seen: dict[str, str] = {}
    operations: dict[str, Operation] = {}

    def operation(self, operation_id: str) -> Operation:
        """State of *operation_id*; `State.NONE` where the log knows no intent of it."""
        return self.operations.get(operation_id) or Operation(operation_id=operation_id, frozen_at=self.frozen_at)

    def forward_of(self, operation_id: str) -> Operation | None:
        """Forward operation of the inverse *operation_id*; None for a forward operation."""
        forward_id = forward_id_of(operation_id, self.operations)
        return None if forward_id is None else self.operation(forward_id)

    def inverses_of(self, operation_id: str) -> tuple[Operation, ...]:
        """Inverses of *operation_id* on the log: `compensate:X`, `compensate:X:2`, …"""
        begins = COMPENSATE + operation_id
        return tuple(
            op
            for name, op in self.operations.items()
            if name.startswith(begins) and forward_id_of(name, self.operations) == operation_id
        )


def forward_id_of(operation_id: str, known: Mapping[str, Operation] = MappingProxyType({})) -> str | None:
    """`X` for `compensate:X`, and for `compensate:X:n` where `X` is *known* and `X:n` is not an operation itself."""
    if not operation_id.startswith(COMPENSATE):
        return None
    forward = operation_id[len(COMPENSATE) :]
    head, colon, number = forward.rpartition(":")
    if colon and number.isdigit() and forward not in known and head in known:
        return head
    return forward


def has_attempt_left(operation: Operation) -> bool:
    """Whether another attempt is allowed from `not_found` or `rejected` (§3, "attempt left")."""
    contract = operation.contract
    if operation.final or contract is None or operation.attempts_counted >= operation.attempts_allowed:
        return False
    if operation.attempts_counted < operation.attempts_by_review:
        return True
    if operation.state is State.REJECTED:
        return contract.retry_rejected
    if operation.state is State.NOT_FOUND:
        return contract.on_absent != "escalate"
    return True


# Looked up once: naming a member of an enum costs more than asking whether a set holds one.
_SETTLED: Final = frozenset({State.CONFIRMED, State.REJECTED, State.CANCELLED, State.COMPENSATED})
_MAY_BE_SETTLED: Final = frozenset({State.NOT_FOUND})


def is_settled(operation: Operation) -> bool:
    """Whether nothing more is to come by itself (§3, *settled*)."""
    if operation.state in _SETTLED:
        return True
    return operation.state in _MAY_BE_SETTLED and not has_attempt_left(operation)


_OUTCOMES: Final = {
    State.CONFIRMED: Outcome.SUCCEEDED,
    State.REJECTED: Outcome.FAILED,
    State.NOT_FOUND: Outcome.FAILED,
    State.UNKNOWN: Outcome.UNKNOWN,
    State.RECONCILING: Outcome.UNKNOWN,
    State.ESCALATED: Outcome.NEEDS_HUMAN,
    State.COMPENSATING: Outcome.COMPENSATING,
    State.COMPENSATED: Outcome.COMPENSATED,
}


def shown_outcome(operation: Operation) -> Outcome | None:
    """Outcome shown for *operation* (§3); None while there is none."""
    if operation.state is State.CANCELLED:
        return Outcome.UNKNOWN if operation.attempts_counted else Outcome.FAILED
    return _OUTCOMES.get(operation.state)


def choices_of(task: ReviewTask, operation: Operation) -> tuple[Choice, ...]:
    """Choices that *task* offers: those of the reason that led to `escalated`, else those of its marks (§10)."""
    if operation.state is State.ESCALATED and operation.escalated_for is not None:
        return choices_for(operation.escalated_for, operation)
    choices: list[Choice] = [Choice.ACKNOWLEDGED]
    if Mark.LATE_EFFECT in task.reasons and operation.state is State.REJECTED:
        choices.append(Choice.CONFIRMED)
    return tuple(choices)


def choices_for(reason: EscalationReason, operation: Operation) -> tuple[Choice, ...]:
    """Choices of a task that is opened for *reason*. An inverse that nobody registered cannot get another attempt."""
    choices = _CHOICES[reason]
    return choices if operation.compensation else tuple(one for one in choices if one is not Choice.COMPENSATING)


_DOUBT_CHOICES: Final = (Choice.CONFIRMED, Choice.REJECTED, Choice.NOT_FOUND, Choice.UNKNOWN, Choice.CANCELLED)
_INVERSE_CHOICES: Final = (Choice.KEPT, Choice.COMPENSATED, Choice.COMPENSATING)
_CHOICES: Final[dict[EscalationReason, tuple[Choice, ...]]] = {
    **dict.fromkeys(DOUBT, _DOUBT_CHOICES),
    EscalationReason.INVERSE_FAILED: _INVERSE_CHOICES,
    EscalationReason.SKIPPED: _INVERSE_CHOICES,
    EscalationReason.IRREVERSIBLE: _INVERSE_CHOICES,
    EscalationReason.EFFECT_REVERTED: (Choice.REJECTED, Choice.NOT_FOUND, Choice.KEPT, Choice.COMPENSATED),
}
