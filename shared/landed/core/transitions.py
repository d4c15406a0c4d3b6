"""The state machine of an operation and of a group: the one place where a transition is defined.

Theory
------
The log cannot be argued with: an event is on it, whatever the state. So the table is *total*. For an event it holds rows, in
order; the first row whose states include the present one and whose guards all hold applies. When none does, the event changes
nothing: it is kept, marked refused with the reason of the first guard that failed (or `not_allowed_in_<state>`), and counted.

Three rules carry the guarantee that one intention has at most one effect:

* Only `dispatch_granted` leads to `dispatched`, and only from a state in which nothing can be in flight that was not declared
  repeatable: never dispatched, proven absent, rejected, released, or a replay that the contract permits (`replay_permitted`).
* A state of doubt (`unknown`, `reconciling`, `escalated` for doubt) is left only by evidence, or by a person.
* Evidence of an effect is never dropped: where it comes too late to move the state it sets a mark (`late_effect`,
  `duplicate_effect`, `contradiction`), and a mark opens a review task.

`to` is the new state; `KEEP` leaves it as it is, `BEFORE_GRANT` goes back to the state before the last grant, `AS_CHOSEN` follows
the reviewer, `AS_RECORDED` takes the state that the event itself names. What else an event writes is in `fold.py`.

Source: docs/semantics.md §3, §8, §10.
"""

from enum import Enum
from typing import Final, NamedTuple

from landed.core import guards as g
from landed.core.vocabulary import GroupState, Mark, State


class To(Enum):
    KEEP = "unchanged"
    BEFORE_GRANT = "the state before the grant"
    AS_CHOSEN = "as the reviewer chose"
    AS_RECORDED = "the final state that the event names"


class Row(NamedTuple):
    event: str
    states: frozenset[State]
    to: State | To
    guards: tuple[g.Guard, ...] = ()
    mark: Mark | None = None


S = State
ANY: Final = frozenset(State)
DOUBT: Final = frozenset({S.UNKNOWN, S.RECONCILING})


def _row(event: str, states: frozenset[State] | set[State], to: State | To, *guards: g.Guard, mark: Mark | None = None) -> Row:
    return Row(event, frozenset(states), to, guards, mark)


_RECORDED: Final = (
    "dispatch_requested",
    "approval_requested",
    "approval_decided",
    "compensation_authorized",
    "webhook_received",
    "agent_statement",
)


def _news(event: str, states: frozenset[State] | set[State], to: State | To, *guards: g.Guard, mark: Mark | None = None) -> Row:
    """A row of evidence that a webhook may have brought: what an older message says is history."""
    return _row(event, states, to, g.newest_news, *guards, mark=mark)


TABLE: Final[tuple[Row, ...]] = (
    # Intent
    _row("operation_prepared", {S.NONE}, S.PREPARED, g.group_admits_intent),
    _row("operation_prepared", ANY - {S.NONE}, To.KEEP, g.same_request),
    # Recorded in any state, moving nothing
    *(_row(event, ANY, To.KEEP) for event in _RECORDED),
    _row("dispatch_refused", ANY, To.KEEP, g.claim_open),
    # Claims
    _row("dispatch_granted", {S.PREPARED}, S.DISPATCHED, g.claim_open, g.next_attempt, g.group_admits_grant, g.no_late_effect),
    _row(
        "dispatch_granted",
        {S.NOT_FOUND, S.REJECTED},
        S.DISPATCHED,
        g.claim_open,
        g.next_attempt,
        g.group_admits_grant,
        g.no_late_effect,
        g.attempt_left,
    ),
    _row(
        "dispatch_granted",
        DOUBT,
        S.DISPATCHED,
        g.claim_open,
        g.next_attempt,
        g.group_admits_grant,
        g.no_late_effect,
        g.replay_permitted,
    ),
    _row(
        "dispatch_released",
        DOUBT | {S.DISPATCHED, S.ESCALATED},
        To.BEFORE_GRANT,
        g.names_last_claim,
        g.nothing_answered,
        g.escalated_for_doubt,
    ),
    _row("dispatch_released", ANY, To.KEEP, g.claim_undecided),
    _row("lease_renewed", {S.DISPATCHED}, To.KEEP, g.names_last_claim, g.names_last_attempt, g.next_lease, g.lease_running),
    _row("lease_expired", {S.DISPATCHED}, S.UNKNOWN, g.names_last_claim, g.names_current_lease, g.lease_over),
    _row("lease_expired", ANY, To.KEEP, g.names_earlier_attempt),
    # Outcomes
    _row("outcome_unknown", {S.DISPATCHED}, S.UNKNOWN, g.names_last_claim, g.names_last_attempt),
    _row(
        "outcome_unknown",
        {S.NONE, S.PREPARED, S.NOT_FOUND, S.REJECTED, S.CANCELLED},
        To.KEEP,
        g.known_holder,
        g.brings_new_reference,
        mark=Mark.LATE_EFFECT,
    ),
    _row("outcome_unknown", ANY, To.KEEP, g.known_holder, g.brings_new_reference),
    _row("outcome_unknown", DOUBT | {S.ESCALATED}, To.KEEP, g.known_holder, g.names_last_attempt, g.nothing_answered),
    _row("outcome_unknown", ANY, To.KEEP, g.known_holder, g.names_earlier_attempt),
    _news("outcome_confirmed", DOUBT | {S.DISPATCHED, S.NOT_FOUND}, S.CONFIRMED),
    _news("outcome_confirmed", {S.ESCALATED}, S.CONFIRMED, g.escalated_for_doubt),
    _news("outcome_confirmed", {S.CONFIRMED, S.COMPENSATING, S.ESCALATED}, To.KEEP, g.reference_on_record),
    _news("outcome_confirmed", {S.CONFIRMED, S.COMPENSATING, S.ESCALATED}, To.KEEP, g.no_reference_on_record),
    _news("outcome_confirmed", {S.CONFIRMED, S.COMPENSATING, S.ESCALATED}, To.KEEP, mark=Mark.DUPLICATE_EFFECT),
    _news("outcome_confirmed", {S.PREPARED, S.REJECTED, S.CANCELLED}, To.KEEP, mark=Mark.LATE_EFFECT),
    _news("outcome_confirmed", {S.COMPENSATED}, To.KEEP, g.names_reference_on_record),
    _news("outcome_confirmed", {S.COMPENSATED}, To.KEEP, mark=Mark.LATE_EFFECT),
    _news(
        "outcome_rejected",
        DOUBT | {S.DISPATCHED, S.ESCALATED},
        S.REJECTED,
        g.names_last_attempt,
        g.holder_or_settled,
        g.escalated_for_doubt,
        g.no_other_open_attempt,
        g.rejection_speaks_for_all,
    ),
    _news(
        "outcome_rejected",
        {S.CONFIRMED, S.COMPENSATING, S.COMPENSATED, S.ESCALATED},
        To.KEEP,
        g.not_escalated_for_doubt,
        g.speaks_of_confirmed_effect,
        mark=Mark.CONTRADICTION,
    ),
    _news("outcome_rejected", ANY - {S.NONE}, To.KEEP),
    # Reconciliation
    _row("probe_recorded", DOUBT, S.RECONCILING, g.names_last_attempt),
    _row("probe_recorded", ANY, To.KEEP, g.names_earlier_attempt),
    _row(
        "absence_established",
        {S.RECONCILING},
        S.NOT_FOUND,
        g.names_last_attempt,
        g.no_reference_on_record,
        g.absence_window_passed,
    ),
    _row("absence_established", ANY, To.KEEP, g.names_earlier_attempt),
    # People
    _row("operation_escalated", DOUBT, S.ESCALATED, g.names_last_attempt, g.reason_is_doubt),
    _row("operation_escalated", {S.NOT_FOUND}, S.ESCALATED, g.names_last_attempt, g.reason_is_absent, g.group_not_unwinding),
    _row("operation_escalated", {S.COMPENSATING}, S.ESCALATED, g.names_last_attempt, g.reason_is_inverse_failed),
    _row(
        "operation_escalated",
        {S.CONFIRMED},
        S.ESCALATED,
        g.speaks_of_last_or_no_attempt,
        g.reason_is_blocked_inverse,
        g.not_kept,
        g.group_unwinding,
    ),
    _row("operation_escalated", ANY, To.KEEP, g.names_earlier_attempt),
    _news("effect_reverted", {S.CONFIRMED, S.COMPENSATED}, S.ESCALATED),
    _row("operation_cancelled", {S.PREPARED}, S.CANCELLED, g.nothing_dispatched),
    _row("review_decided", ANY, To.AS_CHOSEN, g.names_open_task, g.choice_offered, g.choice_is_safe),
    # Retention
    _row("operation_erased", ANY, To.AS_RECORDED),
    _row("operation_retired", ANY, To.AS_RECORDED, g.may_retire),
)

FINAL_TABLE: Final[tuple[Row, ...]] = (
    _row("dispatch_requested", ANY, To.KEEP),
    _row("dispatch_refused", ANY, To.KEEP, g.claim_open),
    _row("outcome_confirmed", ANY, To.KEEP, mark=Mark.LATE_EFFECT),
    _row("review_decided", ANY, To.KEEP, g.names_open_task, g.choice_acknowledges),
)
"""Rows of an operation that is erased or retired: claims get its state, evidence raises `late_effect` (which a person can only
acknowledge), all else is refused (§2)."""


def _by_event(table: tuple[Row, ...]) -> dict[str, tuple[Row, ...]]:
    return {event: tuple(row for row in table if row.event == event) for event in {row.event for row in table}}


BY_EVENT: Final = _by_event(TABLE)
"""Rows of each event in order."""
FINAL_BY_EVENT: Final = _by_event(FINAL_TABLE)


G = GroupState

GROUP_TABLE: Final[dict[str, dict[GroupState, GroupState]]] = {
    "group_opened": {state: (G.OPEN if state is G.NONE else state) for state in G},
    "group_closed": {G.OPEN: G.CLOSED},
    "unwind_requested": {state: state for state in G},
    "group_unwinding": {G.OPEN: G.UNWINDING, G.CLOSED: G.UNWINDING},
}
"""New state of a group, by event and present state; a state that is missing refuses the event."""
