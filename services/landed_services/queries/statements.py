"""What agents told their users, held against the ledger. Presentation-free."""

from typing import Any

import msgspec

from landed.core.state import shown_outcome
from landed.core.statements import disagrees_now
from landed.core.wording import label
from landed_services.queries.operations import found


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was told about one operation, and what the ledger says."""

    operation_id: str
    route: str
    group_id: str | None
    tool: str | None
    claimed_states: tuple[str, ...]
    """Oldest first."""
    disagreements: int
    """Statements that disagreed with the state when they were made."""
    disagrees_now: bool
    """Whether what was told last is not what the ledger says now."""
    state: str
    outcome: str | None
    label: str


def told(connection: Any, tenant_id: str, *, since_ms: int = 0, only_disagreements: bool = False, limit: int = 200) -> list[Told]:
    """Operations of *tenant_id* about which something was told since *since_ms*, those told last first."""
    listed = []
    for known in found(connection, "statements_told", tenant_id, {"since_ms": since_ms, "limit": limit}):
        operation = known.operation
        now = disagrees_now(operation)
        if only_disagreements and not (now or operation.disagreements):
            continue
        outcome = shown_outcome(operation)
        listed.append(
            Told(
                operation_id=operation.operation_id,
                route=known.route,
                group_id=known.group_id,
                tool=operation.tool,
                claimed_states=operation.claimed_states,
                disagreements=operation.disagreements,
                disagrees_now=now,
                state=operation.state,
                outcome=None if outcome is None else outcome.value,
                label=label(operation, known.group_state),
            )
        )
    return listed
