"""Which recorded events are decisions, and how each is made again. Pure.

Decisions are those of the ledger, of its reconciler, and rulings about inverses. What an event of another writer says is a fact.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from landed.core import events as ev
from landed.core.projection import PROJECTOR, claim_in
from landed.core.reconciler_events import RECONCILER
from landed.core.state import Operation, Route
from landed.core.vocabulary import Decision
from landed_services.replay import settling
from landed_services.replay.claims import Claims
from landed_services.replay.claims import said_of as claim_said
from landed_services.replay.compared import Found, Said, Unjudged
from landed_services.replay.moments import Moments
from landed_services.replay.rooms import Rooms
from landed_services.replay.rulings import follow_said, followed, ruled
from landed_services.replay.settling import Look
from landed_services.replay.terms import Book, Terms

NO_CLAIM: Final = Unjudged(why="its claim is not on this log")
_STEPS: Final = (
    ev.LeaseExpired,
    ev.ProbeRecorded,
    ev.AbsenceEstablished,
    ev.OutcomeConfirmed,
    ev.OutcomeRejected,
    ev.OperationEscalated,
)


class Judged(NamedTuple):
    """A decision, and how it is made again."""

    recorded: Said
    again: Callable[[], Found]


class Judges:
    """Makes decisions again.

    Args:
        terms, whole: see `what_if.WhatIf`.
    """

    def __init__(self, book: Book, rooms: Rooms, terms: Terms | None, *, whole: bool) -> None:
        self._book, self._terms = book, terms
        self._claims = Claims(book, terms, rooms, whole=whole)

    def of(self, moments: Moments, look: Look | None, entry: ev.Entry) -> Judged | None:
        """The decision in *entry*, which the fold accepted; None where it is none.

        Args:
            moments: of its route, before it.
            look: the last one about its operation.
        """
        event, given = entry.event, self._terms is not None
        if isinstance(event, ev.DispatchGranted | ev.DispatchRefused) and event.actor == PROJECTOR:
            claimed = moments.claims.get(event.claim_id)
            if claimed is None:
                return Judged(claim_said(event), lambda: NO_CLAIM)
            return Judged(claim_said(event), lambda: self._claims.judged(moments, claimed, entry))
        if isinstance(event, ev.CompensationAuthorized):
            return self._ruling(moments, entry, event)
        if isinstance(event, ev.OperationCancelled | ev.OperationEscalated) and event.actor == PROJECTOR:
            return Judged(follow_said(event), lambda: followed(moments, entry, given=given))
        claim = claim_in(event)
        if not (isinstance(event, _STEPS) and event.actor == RECONCILER) and (claim is None or not claim.replay):
            return None
        if look is not None and settling.follows_a_look(event, look):
            return Judged(settling.said_of(event), lambda: settling.concluded(look, entry))
        if isinstance(event, ev.OutcomeConfirmed | ev.OutcomeRejected):
            return None  # found by a sweep or news, not by a look: a fact
        return Judged(settling.said_of(event), lambda: settling.stepped(moments, entry, given=given))

    def _ruling(self, moments: Moments, entry: ev.Entry, event: ev.CompensationAuthorized) -> Judged:
        recorded = Said(word="allowed" if event.decision is Decision.ALLOW else "denied")
        asked = (claim_in(one.event) for one in moments.claims.values() if one.event.operation_id == event.operation_id)
        claim = next(asked, None)
        if claim is None:
            return Judged(recorded, lambda: NO_CLAIM)
        return Judged(recorded, lambda: ruled(moments, claim, entry, self._book, self._terms))


def rests_on(route: Route, operation: Operation) -> set[str]:
    """Other operations of *route* that a decision about *operation* looks at."""
    if operation.is_inverse:
        return route.operations.keys() - {operation.operation_id}
    named = {*(operation.depends_on or ())} | ({operation.replaces} if operation.replaces is not None else set())
    return named | {
        other.operation_id
        for other in route.operations.values()
        if other.operation_id != operation.operation_id
        and (other.tool, other.request_hash) == (operation.tool, operation.request_hash)
    }
