"""The closed sets of words of the ledger: states, outcomes, reasons; used in events, tables, metrics and messages alike.

Source: docs/semantics.md §2–§10.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """State of one operation; `NONE` is an id of which the log knows events but no intent."""

    NONE = "none"
    PREPARED = "prepared"
    DISPATCHED = "dispatched"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    RECONCILING = "reconciling"
    NOT_FOUND = "not_found"
    ESCALATED = "escalated"
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


IN_DOUBT: Final = frozenset({State.DISPATCHED, State.UNKNOWN, State.RECONCILING})


class GroupState(StrEnum):
    """State of a group; an operation without a group is a group of its own."""

    NONE = "none"
    OPEN = "open"
    CLOSED = "closed"
    UNWINDING = "unwinding"
    UNWOUND = "unwound"
    NEEDS_HUMAN = "needs_human"


ADMITS_FORWARD: Final = frozenset({GroupState.NONE, GroupState.OPEN, GroupState.CLOSED})
UNWINDING_OR_AFTER: Final = frozenset({GroupState.UNWINDING, GroupState.UNWOUND, GroupState.NEEDS_HUMAN})


class Outcome(StrEnum):
    """What is shown as the outcome of an operation (§3)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NEEDS_HUMAN = "needs_human"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


class ForwardOutcome(StrEnum):
    """Outcome of a forward operation as `safe_when` of a compensation names it (§4)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Refusal(StrEnum):
    """Why a claim is refused. **The order of the members is the precedence of §5**: the first hit wins."""

    CLAIM_EXPIRED = "claim_expired"
    INVALID_REQUEST = "invalid_request"
    ROUTE_MISMATCH = "route_mismatch"
    REQUEST_MISMATCH = "request_mismatch"
    OPERATION_FROZEN = "operation_frozen"
    # What the state already answers; none of these dispatches.
    IN_FLIGHT = "in_flight"
    UNRESOLVED = "unresolved"
    ALREADY_CONFIRMED = "already_confirmed"
    NEEDS_HUMAN = "needs_human"
    CANCELLED = "cancelled"
    COMPENSATED = "compensated"
    REPLACED = "replaced"
    ALREADY_REJECTED = "already_rejected"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    RETRY_OFFERED = "retry_offered"
    # What a new dispatch needs.
    NO_CONTRACT = "no_contract"
    GROUP_UNWINDING = "group_unwinding"
    GROUP_CLOSED = "group_closed"
    PREREQUISITE_UNCONFIRMED = "prerequisite_unconfirmed"
    COMPENSATION_UNSAFE = "compensation_unsafe"
    FORWARD_IN_FLIGHT = "forward_in_flight"
    # `unresolved` (STOP) of an inverse stands here; it is the same word as above.
    NOT_DUE = "not_due"
    COMPENSATION_DENIED = "compensation_denied"
    OPEN_INTENT = "open_intent"
    POLICY_DENIED = "policy_denied"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_EXPIRED = "approval_expired"
    RESOURCE_BUSY = "resource_busy"
    SURGE_EXCEEDED = "surge_exceeded"
    # Not a decision about the claim: what cannot be checked is refused.
    LEDGER_UNAVAILABLE = "ledger_unavailable"


class EscalationReason(StrEnum):
    """Why automation stopped (`operation_escalated`, and `effect_reverted` for an effect that went away)."""

    NO_PROBE = "no_probe"
    PROBES_EXHAUSTED = "probes_exhausted"
    DEADLINE = "deadline"
    CONFLICT = "conflict"
    ABSENT = "absent"
    INVERSE_FAILED = "inverse_failed"
    SKIPPED = "skipped"
    IRREVERSIBLE = "irreversible"
    EFFECT_REVERTED = "effect_reverted"


DOUBT: Final = frozenset(
    {
        EscalationReason.NO_PROBE,
        EscalationReason.PROBES_EXHAUSTED,
        EscalationReason.DEADLINE,
        EscalationReason.CONFLICT,
        EscalationReason.ABSENT,
    }
)
"""Reasons that leave in doubt whether the effect exists."""


class Mark(StrEnum):
    """What the fold sets beside the state when late or contradicting evidence arrives; each opens a review task."""

    LATE_EFFECT = "late_effect"
    CONTRADICTION = "contradiction"
    DUPLICATE_EFFECT = "duplicate_effect"


class Choice(StrEnum):
    """What a reviewer may choose (§10)."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    KEPT = "kept"
    COMPENSATED = "compensated"
    COMPENSATING = "compensating"
    ACKNOWLEDGED = "acknowledged"


class ActionClass(StrEnum):
    """What may be done to a call again or backwards (§4)."""

    SAFE_REPLAY = "safe_replay"
    DEDUPE_SUPPORTED = "dedupe_supported"
    COMPENSATABLE = "compensatable"
    IRREVERSIBLE = "irreversible"


class Stakes(StrEnum):
    """What is at stake; all but `none` need approval or a hand-off on conflict."""

    MONEY = "money"
    DELETION = "deletion"
    PERMISSION = "permission"
    COMMUNICATION = "communication"
    NONE = "none"


class Reversible(StrEnum):
    YES = "true"
    NO = "false"
    CONDITIONAL = "conditional"


class OnAbsent(StrEnum):
    """What follows proven absence."""

    RETRY = "retry"
    OFFER_RETRY = "offer_retry"
    ESCALATE = "escalate"


class EqualCalls(StrEnum):
    """How equal calls under different ids are taken; without it an unsettled equal call is `open_intent`."""

    FOLD = "fold"
    DISTINCT = "distinct"


class ReadKind(StrEnum):
    """Where a probe reads; only `authoritative` reads prove absence."""

    AUTHORITATIVE = "authoritative"
    REPLICA = "replica"
    CACHE = "cache"
    SEARCH_INDEX = "search_index"


class Source(StrEnum):
    """Who brought a piece of evidence."""

    WORKER = "worker"
    PROBE = "probe"
    WEBHOOK = "webhook"
    PERSON = "person"
    INVERSE = "inverse"
    SWEEP = "sweep"


class BytesLeft(StrEnum):
    """Whether any byte of the request left the caller."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class ProbeResult(StrEnum):
    FOUND = "found"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"
    ERROR = "error"


class EffectStatus(StrEnum):
    """Status of an effect that a probe found."""

    SETTLED = "settled"
    PENDING = "pending"
    FAILED = "failed"
    REMOVED = "removed"


class Decision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
