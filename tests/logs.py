"""Logs of one route as they might be: mostly what its actors would append, partly what a late, broken or hostile one would.

The writer knows the state of the route (as actors do) and picks: now something that fits the state, now anything with any field.
It takes every choice from a `Picker`, so seeded random numbers and Hypothesis drive the same code.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tests.history import GROUP, LEASE_MS, OF_A_GROUP, QUIET_MS, T0, TENANT, WINDOW_MS, contract, entry, event

from landed.core.contract import Compensation, OperationKey, contract_json
from landed.core.events import Entry
from landed.core.fold import empty_route, fold
from landed.core.state import Operation, Route, choices_of
from landed.core.vocabulary import UNWINDING_OR_AFTER, ActionClass, Choice, EscalationReason, ForwardOutcome, OnAbsent, State

T = TypeVar("T")


class Picker(Protocol):
    def pick(self, among: Sequence[T]) -> T:
        """One of *among*; the first is the dullest."""
        ...


class Seeded:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, among: Sequence[T]) -> T:
        return among[int(self._random.random() * len(among))]


OPERATIONS = ("X", "Y", "compensate:X")
ANY_OUTCOME = (ForwardOutcome.SUCCEEDED, ForwardOutcome.FAILED, ForwardOutcome.UNKNOWN)
UNDO, UNDO_ALWAYS = Compensation(tool="cancel_refund"), Compensation(tool="cancel_refund", safe_when=ANY_OUTCOME)
TERMS: tuple[dict[str, Any], ...] = (
    {},
    {"on_absent": OnAbsent.ESCALATE, "max_attempts": 1},
    {"action_class": ActionClass.SAFE_REPLAY, "max_attempts": 3},
    {
        "action_class": ActionClass.DEDUPE_SUPPORTED,
        "operation_key": OperationKey(header="Idempotency-Key", lifetime=90.0),
        "max_attempts": 3,
    },
    {"retry_rejected": True, "compensation": (UNDO_ALWAYS,)},
    {"on_absent": OnAbsent.OFFER_RETRY, "longest_processing": 12.0, "compensation": (UNDO_ALWAYS,)},
    {"compensation": ()},
)
TEXTS = tuple(contract_json(contract(**terms)) for terms in TERMS)
UNDONE_BY = tuple(["cancel_refund"] if terms.get("compensation") != () else [] for terms in TERMS)
CLAIMS = ("k1", "k2", "k3", "k4")
REFERENCES = (None, "r1", "r2")
DEPENDENCIES: tuple[list[str] | None, ...] = ([], None, ["X"])
PAUSES = (0, 1, 0, LEASE_MS // 2, LEASE_MS + 1, WINDOW_MS, QUIET_MS + 1)
Said = tuple[str, str | None, dict[str, Any]]


class Writer:
    """Writes a log, one record after the other."""

    def __init__(self, picker: Picker) -> None:
        self.pick = picker.pick
        self.route: Route = empty_route(TENANT, GROUP)
        self.log: list[Entry] = []
        self.now_ms = T0

    def write(self) -> Entry:
        self.now_ms += self.pick(PAUSES)
        if self.log and self.pick(range(12)) == 11:
            return self._append(self._again())
        name, operation_id, body = self._fitting() if self.pick(range(6)) < 5 else self._anything()
        said = event(name, operation_id, event_id=f"e{len(self.log)}", **body)
        return self._append(entry(said, at_ms=self.now_ms, offset=len(self.log)))

    def _append(self, one: Entry) -> Entry:
        self.route = fold(self.route, one).route
        self.log.append(one)
        return one

    def _again(self) -> Entry:
        """A record delivered again, or another under its id."""
        old = self.log[self.pick(range(len(self.log)))]
        if self.pick((True, True, False)) or old.event.operation_id is None:
            return entry(old.event, at_ms=self.now_ms, offset=len(self.log))
        forged = event("outcome_confirmed", old.event.operation_id, event_id=old.event.event_id, reference="forged")
        return entry(forged, at_ms=self.now_ms, offset=len(self.log))

    # ---- what the actors of the present state would say -------------------------------------------------------------

    def _fitting(self) -> Said:
        if self.pick(range(14)) == 13:
            return self.pick(_GROUP_EVENTS), None, {}
        op = self._next()
        if op.review is not None and op.state is not State.ESCALATED and self.pick((True, False)):
            return self._decision(op)
        return _BY_STATE[op.state](self, op)

    def _next(self) -> Operation:
        """The operation that somebody works on: an inverse once there is an effect to undo."""
        forward, inverse = self.route.operation("X"), self.route.operation("compensate:X")
        if self.route.group_state in UNWINDING_OR_AFTER and forward.state in _TO_UNDO and self.pick(range(4)) < 3:
            return inverse
        return self.route.operation(self.pick(("X", "X", "X", "Y", "Y", "compensate:X")))

    def _prepare(self, op: Operation) -> Said:
        which = self.pick(range(len(TEXTS)))
        body = {
            "contract": TEXTS[which],
            "compensation": UNDONE_BY[which],
            "depends_on": self.pick(DEPENDENCIES) if op.operation_id == "Y" else [],
            "tool": "cancel_refund" if op.is_inverse else "refund",
        }
        return "operation_prepared", op.operation_id, body

    def _fresh(self, op: Operation) -> str:
        """A claim that was not decided yet, where there is one."""
        used = {answer.claim_id for answer in op.answers} | set(op.withdrawn)
        return self.pick([one for one in CLAIMS if one not in used] or CLAIMS)

    def _grant(self, op: Operation, **body: Any) -> Said:
        number = op.attempts[-1].number + 1 if op.attempts else 1
        return "dispatch_granted", op.operation_id, {"claim_id": self._fresh(op), "attempt": number, **body}

    def _of_last(self, op: Operation, name: str, **body: Any) -> Said:
        last = op.last
        number, claim_id = (last.number, last.claim_id) if last else (1, "k1")
        with_claim = name in ("dispatch_released", "lease_renewed", "lease_expired", "outcome_rejected", "outcome_unknown")
        return name, op.operation_id, {"attempt": number, **({"claim_id": claim_id} if with_claim else {}), **body}

    def _dispatched(self, op: Operation) -> Said:
        lease = op.last.lease_number if op.last else 0
        match self.pick(range(7)):
            case 0:
                source = self.pick(("worker", "webhook"))
                return self._of_last(op, "outcome_confirmed", source=source, reference=self.pick(REFERENCES))
            case 1:
                return self._of_last(op, "outcome_rejected", source=self.pick(("worker", "webhook")))
            case 2 | 3:
                return self._of_last(op, "outcome_unknown", reference=self.pick(REFERENCES))
            case 4:
                self.now_ms = max(self.now_ms, (op.last.lease_end_ms if op.last else 0) + 1)
                return self._of_last(op, "lease_expired", lease_number=lease)
            case 5:
                return self._of_last(op, "lease_renewed", lease_number=lease + 1)
            case _:
                return self._of_last(op, "dispatch_released")

    def _in_doubt(self, op: Operation) -> Said:
        match self.pick(range(9)):
            case 0 | 1:
                if op.last is not None:
                    self.now_ms = max(self.now_ms, op.last.lease_end_ms + self.pick((0, QUIET_MS)))
                return self._probe(op)
            case 2 | 3:
                return self._of_last(op, "absence_established")
            case 4:
                reasons = ("no_probe", "probes_exhausted", "deadline", "conflict")
                return self._of_last(op, "operation_escalated", reason=self.pick(reasons))
            case 5:
                return self._of_last(op, "outcome_confirmed", reference=self.pick(REFERENCES))
            case 6:
                return self._of_last(op, "outcome_rejected", source="probe")
            case 7:
                return self._grant(op, replay=True)
            case _:
                return self._of_last(op, "outcome_unknown", reference=self.pick(REFERENCES))

    def _probe(self, op: Operation) -> Said:
        result = self.pick(("absent", "error", "found"))
        if result != "found":
            return self._of_last(op, "probe_recorded", result=result)
        matched = self.pick((["operation_id"], ["amount"]))
        status = self.pick(("pending", "settled", "failed"))
        reference = self.pick(REFERENCES)
        return self._of_last(op, "probe_recorded", result=result, status=status, reference=reference, matched_on=matched)

    def _settled(self, op: Operation) -> Said:
        match self.pick(range(6)):
            case 0:
                return self._of_last(op, "outcome_confirmed", reference=self.pick(REFERENCES))
            case 1:
                return self._of_last(op, "outcome_rejected", reference=self.pick(REFERENCES))
            case 2:
                return "effect_reverted", op.operation_id, {}
            case 3:
                return self._of_last(op, "operation_escalated", reason=self.pick(_WITHOUT_DOUBT))
            case 4:
                return self._of_last(op, "outcome_unknown", reference=self.pick(REFERENCES))
            case _:
                return self._grant(op)

    def _decision(self, op: Operation) -> Said:
        task = op.review
        if task is None:
            return self._anything()
        self.now_ms += self.pick((0, QUIET_MS))
        body = {"review_id": task.review_id, "choice": str(self.pick(choices_of(task, op))), "reference": self.pick(REFERENCES)}
        return "review_decided", op.operation_id, body

    def _escalated(self, op: Operation) -> Said:
        if self.pick(range(3)) < 2:
            return self._decision(op)
        return self._settled(op)

    def _prepared(self, op: Operation) -> Said:
        match self.pick(range(16)):
            case 13:
                return "dispatch_requested", op.operation_id, {}
            case 14:
                return "operation_cancelled", op.operation_id, {}
            case number if number < 13:
                return self._grant(op)
            case _:
                return "dispatch_refused", op.operation_id, {"claim_id": self._fresh(op)}

    # ---- anything ---------------------------------------------------------------------------------------------------

    def _anything(self) -> Said:
        name = self.pick(_ANYTHING)
        if name in OF_A_GROUP:
            return name, None, {}
        operation_id = self.pick(OPERATIONS)
        return name, operation_id, {field: self.pick(values) for field, values in _FIELDS[name].items()}


_BY_STATE: dict[State, Callable[[Writer, Operation], Said]] = {
    State.NONE: Writer._prepare,
    State.PREPARED: Writer._prepared,
    State.DISPATCHED: Writer._dispatched,
    State.UNKNOWN: Writer._in_doubt,
    State.RECONCILING: Writer._in_doubt,
    State.NOT_FOUND: Writer._settled,
    State.REJECTED: Writer._settled,
    State.CANCELLED: Writer._settled,
    State.CONFIRMED: Writer._settled,
    State.COMPENSATING: Writer._settled,
    State.COMPENSATED: Writer._settled,
    State.ESCALATED: Writer._escalated,
}

_ATTEMPTS, _LEASES, _SOURCES = (1, 2, 3), (0, 1, 2), ("worker", "probe", "webhook", "person")
_FIELDS: dict[str, dict[str, Sequence[Any]]] = {
    "operation_prepared": {"request_hash": ("h1", "h2"), "contract": (*TEXTS, None, "{"), "depends_on": DEPENDENCIES},
    "dispatch_requested": {},
    "dispatch_granted": {
        "claim_id": CLAIMS,
        "attempt": _ATTEMPTS,
        "replay": (False, True),
        "lease_ms": (LEASE_MS, 0, -1, 10 * LEASE_MS),
    },
    "dispatch_refused": {"claim_id": CLAIMS},
    "dispatch_released": {"claim_id": CLAIMS},
    "lease_renewed": {"claim_id": CLAIMS, "attempt": _ATTEMPTS, "lease_number": _LEASES, "lease_ms": (LEASE_MS, 0, 5 * LEASE_MS)},
    "lease_expired": {"claim_id": CLAIMS, "attempt": _ATTEMPTS, "lease_number": _LEASES},
    "outcome_confirmed": {"attempt": (None, *_ATTEMPTS), "source": _SOURCES, "reference": REFERENCES},
    "outcome_rejected": {
        "attempt": (None, *_ATTEMPTS),
        "claim_id": (None, *CLAIMS),
        "source": _SOURCES,
        "reference": REFERENCES,
    },
    "outcome_unknown": {"claim_id": CLAIMS, "attempt": _ATTEMPTS, "reference": REFERENCES},
    "probe_recorded": {"attempt": _ATTEMPTS, "result": ("absent", "ambiguous", "error"), "reference": REFERENCES},
    "absence_established": {"attempt": _ATTEMPTS},
    "effect_reverted": {},
    "operation_cancelled": {},
    "operation_escalated": {"attempt": (0, *_ATTEMPTS), "reason": tuple(str(one) for one in EscalationReason)},
    "review_decided": {"review_id": (1, 2, 3), "choice": tuple(str(one) for one in Choice), "reference": REFERENCES},
    "agent_statement": {},
    "webhook_received": {},
}
_GROUP_EVENTS = ("group_unwinding", "group_unwinding", "group_unwinding", "group_opened", "unwind_requested", "group_closed")
_ANYTHING = (*_FIELDS, "group_unwinding")
_WITHOUT_DOUBT = ("irreversible", "skipped", "absent", "inverse_failed")
_TO_UNDO = (State.CONFIRMED, State.COMPENSATING)


def log_of(picker: Picker, length: int) -> list[Entry]:
    writer = Writer(picker)
    for _ in range(length):
        writer.write()
    return writer.log
