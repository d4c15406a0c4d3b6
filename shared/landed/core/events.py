"""The events of the ledger: immutable facts and decisions, one frozen class for each entry of the catalogue.

Events are named in the past tense; the fold (`fold.py`) says what each of them does to which state. Times are milliseconds since
the epoch, UTC (`*_at_ms`, `*_ms` for a duration). An event knows nothing of its place on the log: that is `Entry`.

Source: docs/events.md; docs/semantics.md §2.
"""

from typing import Final

import msgspec

from landed.core.vocabulary import (
    BytesLeft,
    Choice,
    Decision,
    EffectStatus,
    EscalationReason,
    ProbeResult,
    ReadKind,
    Refusal,
    Source,
    Stakes,
    State,
)


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of nested values."""


class Position(Value, frozen=True, kw_only=True):
    """Place of a record on the log."""

    partition: int
    offset: int


class Claim(Value, frozen=True, kw_only=True):
    """One worker's request to dispatch (§1). `claim_id` is random and new for every call of the tool."""

    claim_id: str
    request_hash: str
    worker: str
    reply_to: str
    """Name of the SDK instance that waits for the verdict."""
    lease_ms: int
    asked_at_ms: int
    """When the caller asked, on its own clock."""
    answer_by_ms: int
    """Nobody waits for an answer after this instant, on the caller's clock. Judged as the log's append time of the claim plus
    (`answer_by_ms` - `asked_at_ms`), so that a caller with a wrong clock is neither refused nor answered too late."""
    approval_id: str | None = None
    retry: bool = False
    replay: bool = False
    replay_reason: str | None = None


class CeilingCount(Value, frozen=True, kw_only=True):
    """One ceiling that a granted claim was counted in."""

    key: str
    window_s: int
    limit: int
    observed: int


class Contained(Value, frozen=True, kw_only=True):
    """One operation that got through before a breaker opened."""

    route: str
    operation_id: str
    group_id: str | None = None


class CallRecord(Value, frozen=True, kw_only=True):
    """What is kept, redacted, of one call of a tool (§6)."""

    dispatched_at_ms: int
    ended_at_ms: int
    provider_request_id: str | None = None
    response_status: str | None = None
    error_class: str | None = None
    error_code: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Envelope that every event carries (§2). Key id and MAC travel beside the bytes, see `landed.wire`."""

    event_id: str
    tenant_id: str
    route: str
    """The group, or the operation itself when it has none; picks the partition."""
    operation_id: str | None = None
    group_id: str | None = None
    actor: str
    seen_version: int = 0
    """Accepted events of the operation that the actor had seen."""
    policy_version: str | None = None


# ---- intent and claims ------------------------------------------------------------------------------------------------


class OperationPrepared(Event, frozen=True, kw_only=True):
    tool: str
    request_hash: str
    argument_digests: dict[str, str]
    """Keyed digest of each top-level argument: names the one that differs."""
    stored_args: str | None = None
    """JSON of the arguments that the contract allows on the log."""
    contract: str | None
    """Canonical JSON of the contract; null where only the digest travels."""
    contract_digest: str
    effect_type: str
    compensation: list[str]
    """Registered inverse tools in order; empty means "no inverse"."""
    depends_on: list[str] | None = None
    """null: depends on every step of the group confirmed before it was claimed."""
    step: str | None = None
    replaces: str | None = None
    resources: list[str] = []
    """Resources that the call needs alone, as the contract's templates name them."""
    dry_run: bool = False
    claim: Claim | None = None


class DispatchRequested(Event, frozen=True, kw_only=True):
    claim: Claim


class DispatchGranted(Event, frozen=True, kw_only=True):
    claim_id: str
    attempt: int
    lease_ms: int
    claim_position: Position
    ceilings: list[CeilingCount] = []
    approval_id: str | None = None
    resources: list[str] = []
    replay: bool = False
    observe: str | None = None
    decided_at_ms: int | None = None
    """The database's clock."""


class DispatchRefused(Event, frozen=True, kw_only=True):
    claim_id: str
    reason: Refusal
    detail: dict[str, str] = {}
    observe: bool = False


class DispatchReleased(Event, frozen=True, kw_only=True):
    claim_id: str
    attempt: int | None = None
    """null: the claim was not decided when it was withdrawn."""
    why: str


class LeaseRenewed(Event, frozen=True, kw_only=True):
    claim_id: str
    attempt: int
    lease_number: int
    """Number of the renewal, from 1."""
    lease_ms: int


class LeaseExpired(Event, frozen=True, kw_only=True):
    claim_id: str
    attempt: int
    lease_number: int
    lease_end_ms: int
    """End of the lease that the actor saw."""


# ---- outcomes and evidence --------------------------------------------------------------------------------------------


class OutcomeConfirmed(Event, frozen=True, kw_only=True):
    attempt: int | None = None
    """null: matched by operation key."""
    claim_id: str | None = None
    source: Source
    webhook_id: str | None = None
    """The news that it follows from, where `source` is webhook."""
    reference: str | None = None
    receipt: str | None = None
    """JSON, redacted."""
    matched_on: list[str] = []
    provider_time_ms: int | None = None
    removed_at_ms: int | None = None
    no_op: bool = False
    call: CallRecord | None = None


class OutcomeRejected(Event, frozen=True, kw_only=True):
    attempt: int | None = None
    claim_id: str | None = None
    reference: str | None = None
    source: Source
    webhook_id: str | None = None
    """The news that it follows from, where `source` is webhook."""
    error_code: str
    evidence: str | None = None
    provider_time_ms: int | None = None
    call: CallRecord | None = None


class OutcomeUnknown(Event, frozen=True, kw_only=True):
    claim_id: str
    attempt: int
    error_class: str
    bytes_left: BytesLeft
    reference: str | None = None
    settles_after_ms: int | None = None
    call: CallRecord | None = None


class ProbeRecorded(Event, frozen=True, kw_only=True):
    attempt: int
    number: int
    read_kind: ReadKind
    result: ProbeResult
    status: EffectStatus | None = None
    reference: str | None = None
    matched_on: list[str] = []
    evidence: str | None = None
    """JSON, redacted."""
    next_check_at_ms: int | None = None


class AbsenceEstablished(Event, frozen=True, kw_only=True):
    attempt: int
    probe_number: int
    last_attempt_ended_at_ms: int
    safe_window_ms: int
    read_kind: ReadKind


class EffectReverted(Event, frozen=True, kw_only=True):
    reference: str | None = None
    source: Source
    webhook_id: str | None = None
    """The news that it follows from, where `source` is webhook."""
    evidence: str | None = None
    provider_time_ms: int | None = None


# ---- people -----------------------------------------------------------------------------------------------------------


class OperationCancelled(Event, frozen=True, kw_only=True):
    by: str
    reason: str


class OperationEscalated(Event, frozen=True, kw_only=True):
    attempt: int
    reason: EscalationReason
    queue: str
    choices: list[Choice]
    evidence: str | None = None


class ReviewDecided(Event, frozen=True, kw_only=True):
    review_id: int
    choice: Choice
    reviewer: str
    reason: str
    reference: str | None = None
    evidence: str | None = None


class ApprovalRequested(Event, frozen=True, kw_only=True):
    approval_id: str
    request_hash: str
    stakes: Stakes
    expires_at_ms: int
    requested_by: str
    four_eyes: bool = False
    """Whoever asked cannot approve."""


class ApprovalDecided(Event, frozen=True, kw_only=True):
    approval_id: str
    request_hash: str
    decision: Decision
    approver: str
    reason: str
    expires_at_ms: int


class AgentStatement(Event, frozen=True, kw_only=True):
    message_digest: str
    claimed_state: str


# ---- news from providers ----------------------------------------------------------------------------------------------


class WebhookReceived(Event, frozen=True, kw_only=True):
    webhook_id: str
    endpoint: str
    reference: str | None = None
    status: str
    provider_time_ms: int | None = None
    digest: str
    tools: list[str] = []
    """Tools that the endpoint may speak of and that read the message so."""
    operation_key: str | None = None
    """The operation id that the message hands back."""
    receipt: str | None = None
    """JSON, redacted: the declared fields."""
    keep_ms: int = 0
    """How long it is matched again."""


class UnmatchedNews(Event, frozen=True, kw_only=True):
    webhook_id: str
    endpoint: str
    reference: str | None = None
    status: str
    provider_time_ms: int | None = None
    digest: str
    tools: list[str] = []
    """Tools that the endpoint may speak of and that read the message so."""
    operation_key: str | None = None
    """The operation id that the message hands back."""
    receipt: str | None = None
    """JSON, redacted: the declared fields."""
    keep_ms: int = 0
    """How long it is matched again."""
    source: Source = Source.WEBHOOK
    """Who brought it: the provider's own message, or a sweep of its list."""


# ---- groups and recovery ----------------------------------------------------------------------------------------------


class GroupOpened(Event, frozen=True, kw_only=True):
    workflow_type: str
    parent_group: str | None = None
    intent_ref: str | None = None


class GroupClosed(Event, frozen=True, kw_only=True):
    by: str


class UnwindRequested(Event, frozen=True, kw_only=True):
    reason: str
    by: str
    inputs: str | None = None
    """JSON: inputs for an inverse, by operation id."""


class GroupUnwinding(Event, frozen=True, kw_only=True):
    reason: str
    by: str
    plan_version: int


class CompensationAuthorized(Event, frozen=True, kw_only=True):
    inverse_id: str
    action: str
    resource: str
    context: str
    """JSON of the request's context (§8)."""
    decision: Decision
    reason: str


# ---- policies, retention, topic ---------------------------------------------------------------------------------------


class PolicyChanged(Event, frozen=True, kw_only=True):
    scope: str
    old: str | None = None
    new: str | None = None
    who: str
    why: str


class BreakerChanged(Event, frozen=True, kw_only=True):
    scope: str
    old: str | None = None
    new: str | None = None
    who: str
    decided_at_ms: int | None = None
    containment: str | None = None
    contained: list[Contained] = []
    contained_count: int = 0


class OperationErased(Event, frozen=True, kw_only=True):
    final_state: State
    keyed_hash: str
    attempts: int
    reference_digests: list[str] = []


class OperationRetired(Event, frozen=True, kw_only=True):
    final_state: State
    keyed_hash: str
    attempts: int
    reference_digests: list[str] = []


class Genesis(Event, frozen=True, kw_only=True):
    partitions: int
    settings: dict[str, str] = {}


class Heartbeat(Event, frozen=True, kw_only=True):
    pass


CATALOGUE: Final[dict[str, type[Event]]] = {
    "operation_prepared": OperationPrepared,
    "dispatch_requested": DispatchRequested,
    "dispatch_granted": DispatchGranted,
    "dispatch_refused": DispatchRefused,
    "dispatch_released": DispatchReleased,
    "lease_renewed": LeaseRenewed,
    "lease_expired": LeaseExpired,
    "outcome_confirmed": OutcomeConfirmed,
    "outcome_rejected": OutcomeRejected,
    "outcome_unknown": OutcomeUnknown,
    "probe_recorded": ProbeRecorded,
    "absence_established": AbsenceEstablished,
    "effect_reverted": EffectReverted,
    "operation_cancelled": OperationCancelled,
    "operation_escalated": OperationEscalated,
    "review_decided": ReviewDecided,
    "approval_requested": ApprovalRequested,
    "approval_decided": ApprovalDecided,
    "webhook_received": WebhookReceived,
    "unmatched_news": UnmatchedNews,
    "agent_statement": AgentStatement,
    "group_opened": GroupOpened,
    "group_closed": GroupClosed,
    "unwind_requested": UnwindRequested,
    "group_unwinding": GroupUnwinding,
    "compensation_authorized": CompensationAuthorized,
    "policy_changed": PolicyChanged,
    "breaker_changed": BreakerChanged,
    "operation_erased": OperationErased,
    "operation_retired": OperationRetired,
    "genesis": Genesis,
    "heartbeat": Heartbeat,
}
"""Every event of the ledger by its name on the log."""

TYPE_OF: Final[dict[type[Event], str]] = {cls: name for name, cls in CATALOGUE.items()}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An event at its place on the log."""

    event: Event
    position: Position
    at_ms: int
    """The log's append time."""
    digest: str
    """SHA-256 (hex) of the event's bytes: tells a repeat from a second event under the same id."""
