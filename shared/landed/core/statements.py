"""What an agent told its user, held against the state: the ledger's word counts, and a disagreement is counted and shown.

Source: docs/semantics.md §10.
"""

from typing import Final

from landed.core.state import Operation, shown_outcome
from landed.core.vocabulary import Outcome, State

STATEMENTS: Final = tuple(sorted({*State, *Outcome} - {State.NONE}))
"""What may be said to have been told: a state, or an outcome."""

_AS_OUTCOME: Final = {
    State.CONFIRMED: Outcome.SUCCEEDED,
    State.REJECTED: Outcome.FAILED,
    State.NOT_FOUND: Outcome.FAILED,
    State.RECONCILING: Outcome.UNKNOWN,
    State.DISPATCHED: Outcome.UNKNOWN,
    State.ESCALATED: Outcome.NEEDS_HUMAN,
}
"""States that mean the same to a person as another word does."""


def disagrees(claimed_state: str, operation: Operation) -> bool:
    """Whether *claimed_state* says something else to a person than the state of *operation* does.

    Words that mean the same agree: `rejected` and `not_found` both say that it failed, `dispatched` and `reconciling` that nobody
    can tell. What is no word of `STATEMENTS` disagrees.
    """
    return _meaning(claimed_state) != _shown(operation)


def _meaning(word: str) -> str:
    try:
        return str(_AS_OUTCOME.get(State(word), word))
    except ValueError:
        return word


def _shown(operation: Operation) -> str:
    outcome = shown_outcome(operation)
    if operation.state is State.CANCELLED and outcome is Outcome.FAILED:
        return State.CANCELLED
    return _meaning(str(outcome or operation.state))


def disagrees_now(operation: Operation) -> bool:
    """Whether what the user was told last is not what the ledger says now."""
    return bool(operation.claimed_states) and disagrees(operation.claimed_states[-1], operation)
