"""A second, simple implementation of semantics.md §2, §3, §8 and §10 on plain dicts: an oracle for the fold.

Written from the norm alone; nothing of the product is imported. An event is a dict: `type`, its envelope and its body. `Refused`
says that a state does not allow an event. Contracts come as JSON in the intent.
"""

import json
from typing import Any

Dict = dict[str, Any]
DEFAULTS: Dict = {
    "max_attempts": 1,
    "retry_rejected": False,
    "on_absent": "escalate",
    "safe_window": 0.0,
    "longest_processing": 0.0,
    "action_class": "compensatable",
    "operation_key": None,
    "compensation": [],
    "minimum_evidence": ["operation_id"],
}
DOUBT_REASONS = ("no_probe", "probes_exhausted", "deadline", "conflict", "absent")
DOUBTFUL = ("dispatched", "unknown", "reconciling")
STARTED = ("unwinding", "unwound", "needs_human")
RECORDED = (
    "dispatch_requested",
    "approval_requested",
    "approval_decided",
    "compensation_authorized",
    "webhook_received",
    "agent_statement",
)
CHOICES = {
    **dict.fromkeys(DOUBT_REASONS, ("confirmed", "rejected", "not_found", "unknown", "cancelled")),
    **dict.fromkeys(("inverse_failed", "skipped", "irreversible"), ("kept", "compensated", "compensating")),
    "effect_reverted": ("rejected", "not_found", "kept", "compensated"),
}


class Refused(Exception):
    """The state does not allow the event."""


def need(holds: object) -> None:
    if not holds:
        raise Refused


def new_operation(name: str) -> Dict:
    return {
        "name": name, "state": "none", "version": 0, "hash": None, "terms": None, "undo": [], "depends": None, "before": [],
        "attempts": [], "decided": [], "withdrawn": [], "refs": {}, "confirmed_attempt": None, "confirmed_at": 0,
        "seen_by_probe": False, "why": None, "task": None, "tasks": 0, "kept": False, "granted_by_review": 0, "final": False,
        "tool": None,
    }  # fmt: skip


class Norm:
    """State of one route, moved by `take`."""

    def __init__(self) -> None:
        self.group = "none"
        self.group_version = 0
        self.ops: dict[str, Dict] = {}
        self.known: set[tuple[str | None, str]] = set()

    def take(self, event: Dict, at: int) -> bool:
        """Whether *event*, appended at *at* (ms), is accepted; a repeat is not."""
        name = event.get("operation_id")
        key = (name, event["event_id"])
        if key in self.known:
            return False
        self.known.add(key)
        kind = event["type"]
        try:
            if name is None:
                self._group(kind)
            else:
                op = self.ops.setdefault(name, new_operation(name))
                was = op["state"]
                (self._of_final if op["final"] else self._of)(op, kind, event, at)
                op["version"] += 1
                self._couple(op, was, kind, event, at)
        except Refused:
            return False
        self._derive()
        return True

    # ---- one operation --------------------------------------------------------------------------------------------------

    def _of_final(self, op: Dict, kind: str, event: Dict, at: int) -> None:
        if kind == "outcome_confirmed":
            note(op, event["reference"], event["attempt"], True)
            self._evidence_of_holder(op, event)
            add_reason(op, "late_effect")
        elif kind == "review_decided":
            need(op["task"] and event["review_id"] == op["tasks"] and event["choice"] == "acknowledged")
            op["task"] = None
        elif kind == "dispatch_refused":
            need(event["claim_id"] not in op["decided"] + op["withdrawn"])
            op["decided"].append(event["claim_id"])
        else:
            need(kind == "dispatch_requested")

    def _of(self, op: Dict, kind: str, event: Dict, at: int) -> None:
        if kind in RECORDED:
            if kind == "dispatch_requested":
                self._first_claim(op)
            return
        getattr(self, "_" + kind)(op, event, at)

    def _first_claim(self, op: Dict) -> None:
        if not op["attempts"] and not op["decided"] and op["depends"] is None and not inverse(op):
            op["before"] = [o["name"] for o in self.ops.values() if o["state"] == "confirmed" and not inverse(o) and o is not op]

    def _operation_prepared(self, op: Dict, event: Dict, at: int) -> None:
        if op["state"] != "none":
            need(op["hash"] == event["request_hash"])
        else:
            need(inverse(op) or self.group in ("none", "open"))
            if self.group == "none":
                self.group = "open"
            op |= {"state": "prepared", "hash": event["request_hash"], "undo": event["compensation"]}
            op |= {"depends": event["depends_on"], "tool": event["tool"]}
            try:
                op["terms"] = DEFAULTS | json.loads(event["contract"])
            except (TypeError, ValueError):
                op["terms"] = None
        if event.get("claim"):
            self._first_claim(op)

    def _dispatch_refused(self, op: Dict, event: Dict, at: int) -> None:
        need(event["claim_id"] not in op["decided"] + op["withdrawn"])
        op["decided"].append(event["claim_id"])

    def _dispatch_granted(self, op: Dict, event: Dict, at: int) -> None:
        need(event["claim_id"] not in op["decided"] + op["withdrawn"])
        need(event["attempt"] == (op["attempts"][-1]["number"] + 1 if op["attempts"] else 1))
        if inverse(op):
            need(self.group in STARTED and may_be_undone(self._forward(op), op["tool"]))
        else:
            need(self.group not in STARTED)
        need("late_effect" not in (op["task"] or []))
        state = op["state"]
        if state in ("unknown", "reconciling"):
            need(event["replay"] and may_replay(op, at, event["lease_ms"]))
        else:
            need(state == "prepared" or (state in ("not_found", "rejected") and attempt_left(op)))
        op["attempts"].append(
            {
                "number": event["attempt"], "claim": event["claim_id"], "granted": at, "end": at + event["lease_ms"], "lease": 0,
                "ended": None, "before": state, "open": True, "released": False, "replay": event["replay"], "answered": False,
            }
        )  # fmt: skip
        op["decided"].append(event["claim_id"])
        op |= {"state": "dispatched", "seen_by_probe": False, "kept": False, "confirmed_attempt": None, "confirmed_at": 0}

    def _dispatch_released(self, op: Dict, event: Dict, at: int) -> None:
        last, claim = last_of(op), event["claim_id"]
        holder = last and not last["released"] and last["claim"] == claim
        doubt = op["state"] in DOUBTFUL or in_doubt_with_people(op)
        if holder and doubt and not last["answered"] and last["number"] not in op["refs"].values():
            if op["state"] == "escalated":
                drop_escalation(op)
            last |= {"released": True, "open": False}
            op["state"] = last["before"]
        else:
            need(claim not in op["decided"] + op["withdrawn"])
        op["withdrawn"].append(claim)

    def _lease_renewed(self, op: Dict, event: Dict, at: int) -> None:
        last = last_of(op)
        need(op["state"] == "dispatched" and event["claim_id"] == last["claim"] and event["attempt"] == last["number"])
        need(event["lease_number"] == last["lease"] + 1 and at < last["end"])
        end = at + event["lease_ms"]
        if op["terms"] and op["terms"]["longest_processing"] > 0:
            end = min(end, last["granted"] + ms(op["terms"]["longest_processing"]))
        last |= {"lease": event["lease_number"], "end": max(end, last["end"])}

    def _lease_expired(self, op: Dict, event: Dict, at: int) -> None:
        last = last_of(op)
        if last and event["attempt"] != last["number"]:
            need(attempt_of(op, event["attempt"]))
            return
        need(op["state"] == "dispatched" and event["claim_id"] == last["claim"])
        need(event["lease_number"] == last["lease"] and at > last["end"])
        op["state"] = "unknown"

    def _outcome_unknown(self, op: Dict, event: Dict, at: int) -> None:
        attempt = attempt_of(op, event["attempt"])
        need(attempt and attempt["claim"] == event["claim_id"])
        brings = event["reference"] is not None and event["reference"] not in op["refs"]
        last = attempt is last_of(op)
        unanswered = not attempt["answered"] and attempt["number"] not in op["refs"].values()
        if op["state"] == "dispatched" and last and not attempt["released"]:
            op["state"] = "unknown"
        elif brings:
            if op["state"] in ("prepared", "not_found", "rejected", "cancelled"):
                add_reason(op, "late_effect")
        else:
            need(not last or (op["state"] in ("unknown", "reconciling", "escalated") and unanswered))
        note(op, event["reference"], event["attempt"], False)
        if attempt["ended"] is None:
            attempt |= {"answered": True, "ended": at}

    def _outcome_confirmed(self, op: Dict, event: Dict, at: int) -> None:
        state, reference = op["state"], event["reference"]
        need(state != "none")
        repeat, empty = reference in op["refs"], not op["refs"]
        note(op, reference, event["attempt"], True)
        self._evidence_of_holder(op, event)
        if state in (*DOUBTFUL, "not_found") or in_doubt_with_people(op):
            number = event["attempt"] or (op["attempts"][-1]["number"] if op["attempts"] else None)
            op |= {"state": "confirmed", "confirmed_attempt": number, "confirmed_at": at}
            drop_escalation(op)
        elif state in ("confirmed", "compensating", "escalated"):
            if reference is not None and not repeat and not empty:
                add_reason(op, "duplicate_effect")
        elif not (state == "compensated" and repeat):
            add_reason(op, "late_effect")

    def _evidence_of_holder(self, op: Dict, event: Dict) -> None:
        attempt = attempt_of(op, event["attempt"])
        if attempt and event["source"] == "worker":
            attempt |= {"open": False, "answered": True, "ended": event["at"]}

    def _outcome_rejected(self, op: Dict, event: Dict, at: int) -> None:
        state, last = op["state"], last_of(op)
        need(state != "none")
        number = event["attempt"]
        if number is None and event["reference"] is not None:
            number = op["refs"].get(event["reference"])
        allowed = state in ("unknown", "reconciling") or in_doubt_with_people(op)
        if state == "dispatched":
            allowed = event["source"] == "worker" and event["claim_id"] == last["claim"]
        alone = all(not one["open"] or one["number"] == number for one in op["attempts"])
        for_all = last and (not last["replay"] or honoured(op))
        if allowed and last and number == last["number"] and alone and for_all:
            op["state"] = "rejected"
            drop_escalation(op)
        elif state in ("confirmed", "compensating", "compensated") or (state == "escalated" and not in_doubt_with_people(op)):
            by_attempt = event["attempt"] is not None and event["attempt"] == op["confirmed_attempt"]
            if by_attempt or (event["reference"], True) in op.get("sure", []):
                add_reason(op, "contradiction")
        attempt = attempt_of(op, number)
        if attempt:
            attempt |= {"open": False, "answered": True}
            if event["source"] == "worker":
                attempt["ended"] = at

    def _probe_recorded(self, op: Dict, event: Dict, at: int) -> None:
        if self._about_an_earlier(op, event):
            return
        need(op["state"] in ("unknown", "reconciling"))
        op["state"] = "reconciling"
        if event["result"] == "found":
            op["seen_by_probe"] = True
            if op["terms"] and set(op["terms"]["minimum_evidence"]) <= set(event["matched_on"]):
                note(op, event["reference"], event["attempt"], False)
        elif event["result"] == "absent":
            op["seen_by_probe"] = False

    def _absence_established(self, op: Dict, event: Dict, at: int) -> None:
        if self._about_an_earlier(op, event):
            return
        need(op["state"] == "reconciling" and not op["refs"] and op["terms"] and at >= quiet_from(op))
        op["state"] = "not_found"
        for attempt in op["attempts"]:
            attempt["open"] = False

    def _operation_escalated(self, op: Dict, event: Dict, at: int) -> None:
        state, reason, last = op["state"], event["reason"], last_of(op)
        if last and event["attempt"] != last["number"] and attempt_of(op, event["attempt"]):
            return
        need(event["attempt"] == (last["number"] if last else 0))
        started = self.group in STARTED
        need(
            (state in ("unknown", "reconciling") and reason in DOUBT_REASONS[:4])
            or (state == "not_found" and reason == "absent" and not started)
            or (state == "compensating" and reason == "inverse_failed" and last)
            or (state == "confirmed" and reason in ("skipped", "irreversible") and started and not op["kept"])
        )
        escalate(op, reason)

    def _effect_reverted(self, op: Dict, event: Dict, at: int) -> None:
        need(op["state"] in ("confirmed", "compensated"))
        escalate(op, "effect_reverted")

    def _operation_cancelled(self, op: Dict, event: Dict, at: int) -> None:
        need(op["state"] == "prepared" and all(one["released"] for one in op["attempts"]))
        op["state"] = "cancelled"

    def _review_decided(self, op: Dict, event: Dict, at: int) -> None:
        choice, state = event["choice"], op["state"]
        need(op["task"] and event["review_id"] == op["tasks"])
        if state == "escalated":
            need(choice in CHOICES[op["why"]])
            need(choice != "compensating" or op["undo"])
        else:
            need(choice == "acknowledged" or (choice == "confirmed" and state == "rejected" and "late_effect" in op["task"]))
        again = choice == "not_found" or (choice == "rejected" and attempt_left(op | {"state": "rejected"}))
        need(not again or at >= safe_from(op))
        if choice == "compensating":
            for other in self._inverses(op):
                undone = other["state"] == "escalated" and other["why"] == "effect_reverted"
                need(not counted(other) or undone or other["state"] in ("rejected", "not_found"))
                need(at >= safe_from(other))
        op |= {"task": None, "why": None}
        if choice == "acknowledged":
            return
        op["state"] = "confirmed" if choice == "kept" else choice
        if choice == "kept":
            op["kept"] = True
        if choice == "not_found":
            op["granted_by_review"] = counted(op) + 1
        if choice == "confirmed":
            note(op, event["reference"], None, True)
            op |= {"confirmed_attempt": op["attempts"][-1]["number"] if op["attempts"] else None, "confirmed_at": at}

    def _operation_erased(self, op: Dict, event: Dict, at: int) -> None:
        op |= {"state": event["final_state"], "final": True}

    def _operation_retired(self, op: Dict, event: Dict, at: int) -> None:
        need(event["final_state"] in ("confirmed", "rejected", "cancelled", "compensated", "not_found"))
        need(op["version"] <= event["seen_version"] or (op["task"] is None and settled(op)))
        op |= {"state": event["final_state"], "final": True}

    def _about_an_earlier(self, op: Dict, event: Dict) -> bool:
        last = last_of(op)
        need(last and attempt_of(op, event["attempt"]))
        return bool(event["attempt"] != last["number"])

    # ---- an inverse and its forward operation ---------------------------------------------------------------------------

    def _forward(self, op: Dict) -> Dict:
        name = op["name"].removeprefix("compensate:")
        return self.ops.get(name) or new_operation(name)

    def _inverses(self, op: Dict) -> list[Dict]:
        return [one for one in self.ops.values() if one["name"] == "compensate:" + op["name"]]

    def _couple(self, op: Dict, was: str, kind: str, event: Dict, at: int) -> None:
        if not inverse(op):
            for other in self._inverses(op) if kind == "review_decided" else ():
                undone = other["state"] == "escalated" and other["why"] == "effect_reverted"
                if event["choice"] == "compensating" and (other["state"] in ("rejected", "not_found", "cancelled") or undone):
                    other |= {"state": "not_found", "task": None, "why": None, "granted_by_review": counted(other) + 1}
                if event["choice"] == "kept" and other["state"] in ("prepared", "escalated"):
                    other |= {"state": "cancelled", "task": None, "why": None}
            return
        forward = self._forward(op)
        if kind == "dispatch_granted":
            forward["state"] = "compensating"
        elif op["state"] == "confirmed" and was != "confirmed":
            if forward["state"] == "compensating" or (forward["state"] == "escalated" and not in_doubt_with_people(forward)):
                forward["state"] = "compensated"
                drop_escalation(forward)
        elif forward["state"] == "compensating" or (
            kind == "effect_reverted" and forward["state"] == "compensated" and not forward["final"]
        ):
            over = op["state"] in ("rejected", "not_found") and not attempt_left(op)
            if over or op["state"] in ("escalated", "cancelled"):
                op["task"] = None
                escalate(forward, "inverse_failed")

    # ---- the group ------------------------------------------------------------------------------------------------------

    def _group(self, kind: str) -> None:
        moves = {
            "group_opened": {"none": "open"} | {s: s for s in ("open", "closed", *STARTED)},
            "group_closed": {"open": "closed"},
            "unwind_requested": {s: s for s in ("none", "open", "closed", *STARTED)},
            "group_unwinding": {"open": "unwinding", "closed": "unwinding"},
        }
        if kind in moves:
            need(self.group in moves[kind])
            self.group = moves[kind][self.group]
            self.group_version += 1

    def _derive(self) -> None:
        if self.group not in STARTED:
            return
        forwards = [op for op in self.ops.values() if not inverse(op)]
        doubt = any(op["state"] in DOUBTFUL for op in self.ops.values())
        if doubt or any(op["state"] == "prepared" for op in forwards) or any(self._to_undo(op, forwards) for op in forwards):
            self.group = "unwinding"
        else:
            self.group = "needs_human" if any(op["task"] for op in self.ops.values()) else "unwound"

    def _to_undo(self, op: Dict, forwards: list[Dict]) -> bool:
        """An inverse is due or under way, or the projector is about to say that there is none."""
        if op["state"] not in ("confirmed", "compensating") or op["kept"]:
            return False
        if not any(one["state"] == "escalated" or one["task"] for one in forwards):
            return True
        if any(in_doubt_with_people(one) for one in forwards):
            return False
        after = [one for one in forwards if op["name"] in (one["before"] if one["depends"] is None else one["depends"])]
        return not op["undo"] or all(nothing_to_undo(one) for one in after)


# ---- words of the norm --------------------------------------------------------------------------------------------------


def ms(seconds: float) -> int:
    return round(seconds * 1000)


def inverse(op: Dict) -> bool:
    return bool(op["name"].startswith("compensate:"))


def last_of(op: Dict) -> Any:
    return op["attempts"][-1] if op["attempts"] else None


def attempt_of(op: Dict, number: int | None) -> Any:
    return next((one for one in op["attempts"] if one["number"] == number), None)


def counted(op: Dict) -> int:
    return sum(not one["released"] for one in op["attempts"])


def attempt_left(op: Dict) -> bool:
    terms = op["terms"]
    if op["final"] or terms is None:
        return False
    allows = terms["retry_rejected"] if op["state"] == "rejected" else terms["on_absent"] in ("retry", "offer_retry")
    return counted(op) < op["granted_by_review"] or (counted(op) < terms["max_attempts"] and allows)


def settled(op: Dict) -> bool:
    return op["state"] in ("confirmed", "rejected", "cancelled", "compensated") or (
        op["state"] == "not_found" and not attempt_left(op)
    )


def in_doubt_with_people(op: Dict) -> bool:
    return op["state"] == "escalated" and op["why"] in DOUBT_REASONS


def nothing_to_undo(op: Dict) -> bool:
    return op["kept"] or op["state"] in ("none", "prepared", "rejected", "not_found", "cancelled", "compensated")


def may_be_undone(forward: Dict, tool: str | None) -> bool:
    listed = [one for one in (forward["terms"] or DEFAULTS)["compensation"] if one["tool"] == tool]
    allowed = {outcome for one in listed for outcome in one.get("safe_when", ["succeeded"])}
    state = forward["state"]
    return (
        state == "compensating"
        or (state == "confirmed" and not forward["kept"])
        or (state in ("unknown", "reconciling") and "unknown" in allowed)
        or (state in ("rejected", "not_found") and "failed" in allowed)
    )


def honoured(op: Dict) -> bool:
    key = op["terms"] and op["terms"]["operation_key"]
    return bool(key) and key.get("honoured", True)


def window(op: Dict) -> int:
    return max(ms(op["terms"]["safe_window"]), ms(op["terms"]["longest_processing"]))


def ended(attempt: Dict) -> int:
    return int(attempt["end"] if attempt["ended"] is None else attempt["ended"])


def quiet_from(op: Dict) -> int:
    return ended(last_of(op)) + window(op)


def safe_from(op: Dict) -> int:
    """When a person's choice may lead to another dispatch: after the last lease and the window."""
    called = [one for one in op["attempts"] if not one["released"]]
    if not called or op["terms"] is None:
        return 0
    return max(int(called[-1]["end"]), ended(called[-1]) + window(op))


def may_replay(op: Dict, at: int, lease: int) -> bool:
    terms, last = op["terms"], last_of(op)
    if terms is None or terms["action_class"] not in ("safe_replay", "dedupe_supported"):
        return False
    if counted(op) >= max(terms["max_attempts"], op["granted_by_review"]) or op["seen_by_probe"]:
        return False
    if at < last["end"] or at < quiet_from(op):
        return False
    if terms["action_class"] == "safe_replay":
        return True
    life = (terms["operation_key"] or {}).get("lifetime")
    first = next(one for one in op["attempts"] if not one["released"])
    return honoured(op) and (life is None or at + lease + ms(terms["longest_processing"]) <= first["granted"] + ms(life))


def note(op: Dict, reference: str | None, attempt: int | None, sure: bool) -> None:
    if reference is None:
        return
    op["refs"][reference] = attempt if attempt is not None else op["refs"].get(reference)
    if sure:
        op.setdefault("sure", []).append((reference, True))


def add_reason(op: Dict, reason: str) -> None:
    op["task"] = [*(op["task"] or []), reason]
    op["tasks"] += 1


def escalate(op: Dict, reason: str) -> None:
    op |= {"state": "escalated", "why": reason}
    add_reason(op, reason)


def drop_escalation(op: Dict) -> None:
    """The task is closed as far as it is about the escalation; marks stay."""
    op["why"] = None
    op["task"] = [one for one in op["task"] or [] if one in ("late_effect", "contradiction", "duplicate_effect")] or None
