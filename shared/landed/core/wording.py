"""What a person is told about an operation: one label and one sentence, made from the state alone, never from a model's words.

A sentence says what is not certain, what will not happen twice, and what comes next. Source: docs/semantics.md §3, §10.
"""

from landed.core.due import replay_at_ms
from landed.core.state import Operation, Route, has_attempt_left, shown_outcome
from landed.core.vocabulary import UNWINDING_OR_AFTER, Decision, GroupState, Mark, Outcome, State


def label(operation: Operation, group_state: GroupState = GroupState.OPEN) -> str:
    """What a person sees (§3, last column)."""
    match operation.state:
        case State.NONE | State.PREPARED:
            return "Not started"
        case State.DISPATCHED | State.UNKNOWN | State.RECONCILING | State.COMPENSATING:
            return "Processing safely"
        case State.CONFIRMED:
            return "Done"
        case State.REJECTED:
            return "Failed before effect"
        case State.NOT_FOUND:
            retry = has_attempt_left(operation) and group_state not in UNWINDING_OR_AFTER and _retries_itself(operation)
            return "Processing safely" if retry else "Failed before effect"
        case State.ESCALATED:
            return "Needs review"
        case State.CANCELLED:
            return "Cancelled" if shown_outcome(operation) is Outcome.FAILED else "Declined: the effect may exist"
        case State.COMPENSATED:
            return "Recovered"


def _retries_itself(operation: Operation) -> bool:
    contract = operation.contract
    return contract is not None and contract.on_absent == "retry"


def sentence(operation: Operation, group_state: GroupState = GroupState.OPEN) -> str:
    """One sentence for people: what is certain, what will not happen twice, what comes next."""
    text = _questioned(operation) or _approval(operation) or _repeatable(operation) or _SENTENCES[operation.state]
    if operation.state is State.NOT_FOUND and label(operation, group_state) == "Processing safely":
        text = _questioned(operation) or "It was proven that nothing happened; it is tried once more under the same identity."
    if operation.state is State.CONFIRMED and operation.removed_at_ms is not None:
        text = "The effect happened and was removed since; nothing is sent again."
    if operation.confirmed_at_ms is None and operation.attempts and operation.state in _OF_UNKNOWN:
        text = _OF_UNKNOWN[operation.state]
    if operation.state is State.CANCELLED and operation.attempts_counted:
        text = "It was declined after a call was made: the effect may exist. Nothing more is sent."
    for reason in dict.fromkeys(operation.review.reasons if operation.review is not None else ()):
        if reason in set(Mark):
            text += " " + _MARKS[Mark(reason)]
    return text


_WITHOUT_EFFECT = frozenset({State.PREPARED, State.REJECTED, State.NOT_FOUND, State.CANCELLED, State.COMPENSATED})


def _questioned(operation: Operation) -> str | None:
    """What is told in place of a certainty that evidence has put in question."""
    open_reasons = operation.review.reasons if operation.review is not None else ()
    if operation.state is State.CONFIRMED and Mark.CONTRADICTION in open_reasons:
        return "It is on record as done, and that is in question. Nothing is sent again."
    if operation.state is State.CONFIRMED and Mark.DUPLICATE_EFFECT in operation.marks:
        return "It happened, by the evidence more than once; a repeated request gets the same receipt."
    if operation.state in _WITHOUT_EFFECT and Mark.LATE_EFFECT in open_reasons:
        return "On record there is no effect, and that is in question. Nothing is sent until a person has decided."
    return None


def _repeatable(operation: Operation) -> str | None:
    """What is told of a request in doubt that may be sent again by itself, since that makes no second effect."""
    if operation.state not in (State.UNKNOWN, State.RECONCILING) or replay_at_ms(operation) is None:
        return None
    return "It is not certain whether it happened. If need be the same request is sent again, which makes no second effect."


def _approval(operation: Operation) -> str | None:
    """Where a request stands that a person has to approve before it is sent."""
    if operation.state is not State.PREPARED or not operation.approvals:
        return None
    newest = operation.approvals[-1]
    if newest.decision is Decision.DENY:
        return "A person denied it and nothing was sent."
    if newest.decision is Decision.ALLOW:
        return "It was approved and has not run; it runs when it is presented again while the approval holds."
    return "It waits for a person to approve it and nothing was sent. Without an answer in time it is refused."


_SENTENCES = {
    State.NONE: "Nothing is on record.",
    State.PREPARED: "The request is on record and nothing was sent.",
    State.DISPATCHED: "The call may be under way; no second one is sent. The answer is awaited.",
    State.CONFIRMED: "It happened, once, with evidence; a repeated request gets the same receipt.",
    State.REJECTED: "It was refused and had no effect.",
    State.UNKNOWN: "It is not certain whether it happened. It is not sent again; the provider is being asked.",
    State.RECONCILING: "It is not certain whether it happened. It is not sent again; the provider is being asked.",
    State.NOT_FOUND: "It was proven that nothing happened. Nothing is sent by itself.",
    State.ESCALATED: "Automation stopped and a person decides, with the evidence. Nothing is sent until then.",
    State.CANCELLED: "It was withdrawn before anything was sent.",
    State.COMPENSATING: "It happened and is being undone, once. The result is awaited.",
    State.COMPENSATED: "It happened and was undone, with evidence.",
}
_OF_UNKNOWN = {
    State.COMPENSATING: "It is not certain whether it happened; it is being undone, once. The result is awaited.",
    State.COMPENSATED: "Whether it happened or not, nothing of it is left, with evidence.",
}
"""What is told of an inverse that is safe although nobody knows the effect (`safe_when: unknown`)."""
_MARKS = {
    Mark.LATE_EFFECT: "Evidence of an effect arrived late: a person looks at it.",
    Mark.CONTRADICTION: "Two pieces of evidence contradict each other: a person looks at it.",
    Mark.DUPLICATE_EFFECT: "A second effect showed up: a person looks at it.",
}

GROUP_LABELS = {
    GroupState.NONE: "Processing safely",
    GroupState.OPEN: "Processing safely",
    GroupState.CLOSED: "Processing safely",
    GroupState.UNWINDING: "Processing safely",
    GroupState.UNWOUND: "Recovered",
    GroupState.NEEDS_HUMAN: "Needs review",
}


def group_label(route: Route) -> str:
    """What a person sees of a group (§8)."""
    return GROUP_LABELS[route.group_state]
