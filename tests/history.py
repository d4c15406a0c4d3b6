"""Short ways to write a log down: events with sensible bodies, entries with rising places, and a history that folds them.

Times are milliseconds; a history starts at `T0` and stands still unless a test moves it.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from landed.core import events as ev
from landed.core.contract import (
    Compensation,
    Contract,
    Effect,
    OperationKey,
    Probe,
    contract_json,
)
from landed.core.fold import Folded, empty_route, fold
from landed.core.state import Operation, Route
from landed.core.vocabulary import ActionClass, OnAbsent

T0 = 1_000_000
TENANT = "acme"
GROUP = "trip"
LEASE_MS = 10_000
WINDOW_MS = 5_000
QUIET_MS = LEASE_MS + WINDOW_MS
"""From a grant to the moment from which its absence may be established, where its holder never answered."""


def contract(**changes: Any) -> Contract:
    """A refund that can be looked up, tried twice and undone; *changes* are fields of the contract."""
    fields: dict[str, Any] = {
        "tool": "refund",
        "effect": Effect(kind="refund.create"),
        "outcome_probe": Probe(tool="find_refund"),
        "safe_window": WINDOW_MS / 1000,
        "max_attempts": 2,
        "on_absent": OnAbsent.RETRY,
        "compensation": (Compensation(tool="cancel_refund"),),
    }
    return Contract(**fields | changes)


REPLAYABLE: dict[str, Any] = {"action_class": ActionClass.SAFE_REPLAY}
DEDUPED: dict[str, Any] = {
    "action_class": ActionClass.DEDUPE_SUPPORTED,
    "operation_key": OperationKey(header="Idempotency-Key", lifetime=60.0),
}


def claim(claim_id: str = "k1", **changes: Any) -> ev.Claim:
    fields: dict[str, Any] = {
        "claim_id": claim_id,
        "request_hash": "h1",
        "worker": "w1",
        "reply_to": "sdk-1",
        "lease_ms": LEASE_MS,
        "asked_at_ms": T0,
        "answer_by_ms": T0 + 5_000,
    }
    return ev.Claim(**fields | changes)


BODIES: dict[str, dict[str, Any]] = {
    "operation_prepared": {
        "tool": "refund",
        "request_hash": "h1",
        "argument_digests": {"amount": "d1"},
        "contract": None,
        "contract_digest": "cd",
        "effect_type": "refund.create",
        "compensation": ["cancel_refund"],
        "depends_on": [],
    },
    "dispatch_requested": {"claim": claim()},
    "dispatch_granted": {
        "claim_id": "k1",
        "attempt": 1,
        "lease_ms": LEASE_MS,
        "claim_position": ev.Position(partition=0, offset=0),
    },
    "dispatch_refused": {"claim_id": "k1", "reason": "surge_exceeded"},
    "dispatch_released": {"claim_id": "k1", "why": "never called"},
    "lease_renewed": {"claim_id": "k1", "attempt": 1, "lease_number": 1, "lease_ms": LEASE_MS},
    "lease_expired": {"claim_id": "k1", "attempt": 1, "lease_number": 0, "lease_end_ms": T0 + LEASE_MS},
    "outcome_confirmed": {"attempt": 1, "source": "probe", "reference": "r1"},
    "outcome_rejected": {"attempt": 1, "claim_id": "k1", "source": "worker", "error_code": "card_declined"},
    "outcome_unknown": {"claim_id": "k1", "attempt": 1, "error_class": "timeout", "bytes_left": "unknown"},
    "probe_recorded": {"attempt": 1, "number": 1, "read_kind": "authoritative", "result": "absent"},
    "absence_established": {
        "attempt": 1,
        "probe_number": 1,
        "last_attempt_ended_at_ms": T0,
        "safe_window_ms": WINDOW_MS,
        "read_kind": "authoritative",
    },
    "effect_reverted": {"source": "webhook", "reference": "r1"},
    "operation_cancelled": {"by": "anna", "reason": "withdrawn"},
    "operation_escalated": {"attempt": 1, "reason": "no_probe", "queue": "default", "choices": []},
    "review_decided": {"review_id": 1, "choice": "acknowledged", "reviewer": "anna", "reason": "seen"},
    "approval_requested": {
        "approval_id": "a1",
        "request_hash": "h1",
        "stakes": "money",
        "expires_at_ms": T0 + 60_000,
        "requested_by": "w1",
    },
    "approval_decided": {
        "approval_id": "a1",
        "request_hash": "h1",
        "decision": "allow",
        "approver": "anna",
        "reason": "checked",
        "expires_at_ms": T0 + 60_000,
    },
    "webhook_received": {"webhook_id": "wh1", "endpoint": "psp", "status": "succeeded", "digest": "d"},
    "unmatched_news": {"webhook_id": "wh1", "endpoint": "psp", "status": "succeeded", "digest": "d"},
    "agent_statement": {"message_digest": "m", "claimed_state": "confirmed"},
    "group_opened": {"workflow_type": "trip"},
    "group_closed": {"by": "anna"},
    "unwind_requested": {"reason": "later_step_failed", "by": "anna"},
    "group_unwinding": {"reason": "later_step_failed", "by": "anna", "plan_version": 1},
    "compensation_authorized": {
        "inverse_id": "compensate:X",
        "action": "refund.cancel",
        "resource": "order/1",
        "context": "{}",
        "decision": "allow",
        "reason": "within window",
    },
    "policy_changed": {"scope": "tool:refund", "who": "anna", "why": "incident"},
    "breaker_changed": {"scope": "acme", "who": "anna"},
    "operation_erased": {"final_state": "confirmed", "keyed_hash": "kh", "attempts": 1},
    "operation_retired": {"final_state": "confirmed", "keyed_hash": "kh", "attempts": 1},
    "genesis": {"partitions": 12},
    "heartbeat": {},
}
"""A plausible body of every event of the catalogue; a test names only the fields that matter to it."""

OF_A_GROUP = ("group_opened", "group_closed", "unwind_requested", "group_unwinding")
OF_NEITHER = ("policy_changed", "breaker_changed", "genesis", "heartbeat", "unmatched_news")


def event(name: str, operation_id: str | None = "X", *, event_id: str, **body: Any) -> ev.Event:
    """Event *name* with the fields of *body* in place of those of `BODIES`."""
    envelope: dict[str, Any] = {"event_id": event_id, "tenant_id": TENANT, "route": GROUP, "actor": "test"}
    if name in OF_A_GROUP:
        envelope["group_id"] = GROUP
    elif name not in OF_NEITHER:
        envelope["operation_id"] = operation_id
    return msgspec.convert({**envelope, **BODIES[name], **body}, ev.CATALOGUE[name])


def entry(said: ev.Event, *, at_ms: int = T0, offset: int = 0) -> ev.Entry:
    digest = hashlib.sha256(repr(said).encode()).hexdigest()
    return ev.Entry(event=said, position=ev.Position(partition=0, offset=offset), at_ms=at_ms, digest=digest)


class History:
    """A log of one route that is folded as it grows."""

    def __init__(self) -> None:
        self.route: Route = empty_route(TENANT, GROUP)
        self.log: list[ev.Entry] = []
        self.results: list[Folded] = []
        self.now_ms = T0

    def wait(self, ms: int) -> "History":
        self.now_ms += ms
        return self

    def add(self, name: str, operation_id: str | None = "X", *, event_id: str | None = None, **body: Any) -> Folded:
        """Appends an event and folds it."""
        said = event(name, operation_id, event_id=event_id or f"e{len(self.log)}", **body)
        return self.take(entry(said, at_ms=self.now_ms, offset=len(self.log)))

    def take(self, said: ev.Entry) -> Folded:
        result = fold(self.route, said)
        self.route = result.route
        self.log.append(said)
        self.results.append(result)
        return result

    def must(self, name: str, operation_id: str | None = "X", **body: Any) -> "History":
        """Appends an event that the fold has to accept: a step towards the state that a test starts from."""
        result = self.add(name, operation_id, **body)
        assert result.accepted, f"{name} was refused: {result.reason}"
        return self

    def op(self, operation_id: str = "X") -> Operation:
        return self.route.operation(operation_id)

    # ---- whole steps ----------------------------------------------------------------------------------------------------

    def prepare(self, operation_id: str = "X", *, terms: dict[str, Any] | None = None, **body: Any) -> "History":
        """Intent of *operation_id* under `contract(**terms)`."""
        return self.must("operation_prepared", operation_id, contract=contract_json(contract(**terms or {})), **body)

    def grant(self, operation_id: str = "X", claim_id: str | None = None, **body: Any) -> "History":
        """The next attempt of *operation_id*, for claim `k<attempt>` where no other is named."""
        attempts = self.op(operation_id).attempts
        number = attempts[-1].number + 1 if attempts else 1
        return self.must("dispatch_granted", operation_id, claim_id=claim_id or f"k{number}", attempt=number, **body)

    def expire(self, operation_id: str = "X") -> "History":
        """The lease of the last attempt runs out."""
        last = self.op(operation_id).attempts[-1]
        self.now_ms = max(self.now_ms, last.lease_end_ms + 1)
        return self.must(
            "lease_expired",
            operation_id,
            claim_id=last.claim_id,
            attempt=last.number,
            lease_number=last.lease_number,
            lease_end_ms=last.lease_end_ms,
        )

    def absent(self, operation_id: str = "X") -> "History":
        """Absence of the last attempt is proven after its window."""
        last = self.op(operation_id).attempts[-1]
        self.now_ms = max(self.now_ms, last.granted_at_ms + QUIET_MS + 1)
        self.must("probe_recorded", operation_id, attempt=last.number)
        return self.must("absence_established", operation_id, attempt=last.number)

    def unwind(self) -> "History":
        return self.must("group_unwinding", None)


Build = Callable[[History], History]


def digest_of(route: Route) -> bytes:
    """Bytes that are equal for equal states."""
    return msgspec.msgpack.encode(route)
