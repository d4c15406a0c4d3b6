"""What is decided about inverses, made again: rulings, what the projector follows up with, what a compensator does. Pure.

Source: docs/semantics.md §8.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from landed.adapters import authorizing
from landed.core import events as ev
from landed.core.asked import authorized
from landed.core.authorization import Context
from landed.core.compensating import HandOver, Leave, Means, Perform, next_actions
from landed.core.compensating import Wait as WaitWithIt
from landed.core.contract import Contract, Effect
from landed.core.inverse import Obstacle, expires_at_ms
from landed.core.policy import Policies
from landed.core.projection import consequences
from landed.core.state import Route
from landed.core.vocabulary import UNWINDING_OR_AFTER, Decision
from landed_services.replay.claims import NO_POLICY_ON_RECORD, foreign
from landed_services.replay.compared import Found, Said, Unjudged, compared
from landed_services.replay.moments import Moments, State
from landed_services.replay.terms import Book, Terms


def ruled(moments: Moments, claim: ev.Claim, ruling: ev.Entry, book: Book, terms: Terms | None) -> Found:
    """A recorded ruling about an inverse beside what the policies say about the same request."""
    event = ruling.event
    assert isinstance(event, ev.CompensationAuthorized)
    context = msgspec.json.decode(event.context, type=Context)
    policies = book.of_inverses(event.tenant_id, context.policy_version)
    if policies is None and terms is None:
        return Unjudged(why=NO_POLICY_ON_RECORD)
    recorded = policies or Policies()

    def says(route: Route, policies: Policies) -> Said:
        inverse = route.operation(event.inverse_id)
        forward = route.forward_of(event.inverse_id)
        if forward is None:
            return Said(word="denied")
        now_ms = ruling.at_ms
        if context.age_s is not None and forward.confirmed_at_ms is not None:
            now_ms = forward.confirmed_at_ms + round(context.age_s * 1000)
        others = foreign(forward, context)
        found = authorized(route, inverse, claim, policies, authorizing.ask, now_ms=now_ms, on_record=others)
        return Said(word="allowed" if found.ruling.decision is Decision.ALLOW else "denied", reason=found.ruling.reason)

    word = "allowed" if event.decision is Decision.ALLOW else "denied"

    def plain(said: Said) -> Said:
        # Which rule it was, or why, may read otherwise: what counts is what was allowed.
        return Said(word=word) if said.word == word else said

    def new(state: State) -> Said:
        assert terms is not None
        return plain(says(state.would, terms.given(recorded)))

    states = moments.seen_by(event.inverse_id, event.seen_version)
    return compared(Said(word=word), states, lambda one: plain(says(one.was, recorded)), None if terms is None else new)


# ---- what follows by itself ---------------------------------------------------------------------------------------------


def followed(moments: Moments, said: ev.Entry, *, given: bool) -> Found:
    """An operation that the projector cancelled or gave to a person, beside what follows from the state that it had seen."""
    event = said.event
    name = event.operation_id or ""
    clocks = [said.at_ms]
    closes = _closes_ms(moments, event)
    if closes is not None:
        clocks.append(closes)

    def of(route: Route, now_ms: int) -> Said:
        made = consequences(route, (name,), now_ms=now_ms)
        return next((follow_said(one) for one in made if one.operation_id == name), Said(word="left as it is"))

    variants = [(state, now_ms) for state in moments.seen_by(name, event.seen_version) for now_ms in clocks]
    return compared(
        follow_said(event),
        variants,
        lambda one: of(one[0].was, one[1]),
        (lambda one: of(one[0].would, one[1])) if given else None,
    )


def follow_said(event: ev.Event) -> Said:
    if isinstance(event, ev.OperationEscalated):
        return Said(word="handed over", reason=str(event.reason))
    return Said(word="cancelled", reason=event.reason if isinstance(event, ev.OperationCancelled) else "")


def _closes_ms(moments: Moments, event: ev.Event) -> int | None:
    """Whether a window has passed was told by another clock than the log's: then it had."""
    if not isinstance(event, ev.OperationEscalated) or f'"{Obstacle.EXPIRED}"' not in (event.evidence or ""):
        return None
    forward = moments.now.was.operation(event.operation_id or "")
    ends = [expires_at_ms(forward, one) or 0 for one in (forward.contract.compensation if forward.contract else ())]
    return max(ends, default=None)


def newly_followed(state: State, touched: tuple[str, ...], *, now_ms: int) -> Iterator[tuple[str, Said]]:
    """What would follow from a state under other contracts and did not, by operation."""
    recorded = {one.operation_id for one in consequences(state.was, touched, now_ms=now_ms)}
    for one in consequences(state.would, touched, now_ms=now_ms):
        if one.operation_id not in recorded and one.operation_id is not None:
            yield one.operation_id, follow_said(one)


# ---- what a compensator does ---------------------------------------------------------------------------------------------

_UNSURE: Final = "the contract of {tool}, which is on no record: taken as one whose effect can be taken back"


class Compensators:
    """What a compensator would do about groups that unwind."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._known: dict[str, Contract] = {}
        self._supposed: dict[str, Contract] = {}

    def learn(self, tool: str, contract: Contract | None) -> None:
        """What an inverse was prepared with."""
        if contract is not None:
            self._known[tool] = contract

    def otherwise(self, state: State, recorded: Policies, *, now_ms: int) -> Iterator[tuple[str, Said, Said, str]]:
        """Forward operations that it would treat otherwise: recorded terms, given ones, and what that rests on."""
        if state.was.group_state not in UNWINDING_OR_AFTER:
            return
        old = self._actions(state.was, recorded, self._known.get, now_ms)
        new = self._actions(
            state.would, self._terms.given(recorded), lambda tool: self._terms.contract(tool) or self._known.get(tool), now_ms
        )
        for name in old.keys() & new.keys():
            if old[name][0] != new[name][0]:
                yield name, old[name][0], new[name][0], old[name][1] or new[name][1]

    def _actions(
        self, route: Route, policies: Policies, known: Callable[[str], Contract | None], now_ms: int
    ) -> dict[str, tuple[Said, str]]:
        supposed: set[str] = set()

        def contract_of(tool: str) -> Contract:
            if (contract := known(tool)) is not None:
                return contract
            supposed.add(tool)
            return self._supposed.setdefault(tool, Contract(tool=tool, effect=Effect(kind=tool)))

        means = Means(contract_of=contract_of, wanted=lambda _: (), allowed=policies.is_automatic)
        found = {}
        for action in next_actions(route, means, now_ms=now_ms):
            unsure = "; ".join(_UNSURE.format(tool=tool) for tool in sorted(supposed))
            found[action.operation_id] = (_action_said(action), unsure)
        return found


def _action_said(action: Perform | WaitWithIt | HandOver | Leave) -> Said:
    match action:
        case Leave():
            return Said(word="left", reason=action.why)
        case HandOver():
            return Said(word="handed over", reason=action.why)
        case _:
            return Said(word="compensated")
