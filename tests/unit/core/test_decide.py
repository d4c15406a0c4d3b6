"""Deciding a claim (semantics.md §5): the named answer for every state and every missing requirement, and which comes first."""

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from tests.history import LEASE_MS, QUIET_MS, REPLAYABLE, T0, WINDOW_MS, History, claim, contract

from landed.core.contract import Compensation, Contract
from landed.core.decide import CHECKS, Facts, Granted, Refused, decide
from landed.core.events import CeilingCount, Position
from landed.core.fold import freeze
from landed.core.vocabulary import Decision, EqualCalls, ForwardOutcome, OnAbsent, Refusal

# ---- the order of §5, by hand -------------------------------------------------------------------------------------------

ORDER_OF_THE_NORM = """
claim_expired invalid_request route_mismatch request_mismatch operation_frozen
in_flight unresolved already_confirmed needs_human cancelled compensated replaced
already_rejected attempts_exhausted retry_offered
no_contract group_unwinding group_closed prerequisite_unconfirmed
compensation_unsafe forward_in_flight group_unresolved not_due compensation_denied
open_intent policy_denied approval_required approval_expired resource_busy surge_exceeded
"""
ORDER = ORDER_OF_THE_NORM.split()
"""`group_unresolved` answers `unresolved` (STOP)."""
BESIDE_THE_ORDER = {
    "intent_refused": ("group_closed", "no_contract for an intent that was refused: its contract came with the claim"),
    "replaced_unresolved": ("prerequisite_unconfirmed", "§1: a corrected request waits for the one that it replaces"),
    "ledger_unavailable": ("surge_exceeded", "§5: what cannot be checked is refused"),
}
"""Checks that the order does not name: after which it stands, and the sentence that asks for it."""


def test_the_checks_stand_in_the_order_of_the_norm() -> None:
    names = [check.__name__ for check in CHECKS]
    assert [name for name in names if name not in BESIDE_THE_ORDER] == ORDER
    for name, (after, _) in BESIDE_THE_ORDER.items():
        assert names[names.index(name) - 1] == after


def test_the_refusals_are_listed_in_the_same_order() -> None:
    assert [name for name in ORDER if name != "group_unresolved"] == [str(one) for one in Refusal if one != "ledger_unavailable"]
    assert list(Refusal)[-1] is Refusal.LEDGER_UNAVAILABLE


# ---- a claim and what is looked up for it -------------------------------------------------------------------------------


class Asking:
    """One claim on operation `op` of a history, with everything in order unless a step says otherwise."""

    def __init__(self, history: History, op: str = "X") -> None:
        self.history, self.op = history, op
        self.claim: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}

    def answer(self) -> Granted | Refused:
        return decide(self.history.route, self.op, self._claim, self._facts)

    def hits(self) -> list[tuple[str, Refusal]]:
        """Every check that refuses, alone, in the order by hand."""
        op = self.history.op(self.op)
        found = {}
        for check in CHECKS:
            refused = check(self.history.route, op, self._claim, self._facts)
            if refused is not None:
                found[check.__name__] = refused.reason
        order = [check.__name__ for check in CHECKS]
        return [(name, found[name]) for name in order if name in found]

    @property
    def _claim(self) -> Any:
        return claim("k9", **{"asked_at_ms": 0, "answer_by_ms": 5_000, **self.claim})

    @property
    def _facts(self) -> Facts:
        now = self.history.now_ms
        return Facts(**{"now_ms": now, "claimed_at_ms": now, "policy_version": "p1", **self.facts})


Step = Callable[[Asking], Asking]


def asks(**changes: Any) -> Step:
    def step(asking: Asking) -> Asking:
        asking.claim |= changes
        return asking

    return step


def knows(**changes: Any) -> Step:
    def step(asking: Asking) -> Asking:
        asking.facts |= changes
        return asking

    return step


def meanwhile(do: Callable[[History, str], object]) -> Step:
    def step(asking: Asking) -> Asking:
        do(asking.history, asking.op)
        return asking

    return step


def _frozen(history: History, op: str) -> None:
    history.route = freeze(history.route, op, Position(partition=3, offset=14))


def _approval(decision: str | None = None, **changes: Any) -> Step:
    def do(history: History, op: str) -> None:
        history.must("approval_requested", op, expires_at_ms=history.now_ms + 100)
        if decision is not None:
            body = {"decision": decision, "expires_at_ms": history.now_ms + 100, "policy_version": "p1", **changes}
            history.must("approval_decided", op, **body)

    def step(asking: Asking) -> Asking:
        return knows(approval_needed=True)(meanwhile(do)(asking))

    return step


def _expired_approval(asking: Asking) -> Asking:
    asking = _approval("allow")(asking)
    return knows(now_ms=asking.history.now_ms + 100, claimed_at_ms=asking.history.now_ms + 100)(asking)


MISSING: dict[str, Step] = {
    "claim_expired": knows(claimed_at_ms=0),
    "invalid_request": knows(invalid="amount: must be positive"),
    "route_mismatch": knows(known_route="another trip"),
    "request_mismatch": asks(request_hash="h2"),
    "operation_frozen": meanwhile(_frozen),
    "replaced": meanwhile(lambda history, op: history.prepare("R", replaces=op, request_hash="h9")),
    "group_unwinding": meanwhile(lambda history, op: history.unwind()),
    "open_intent": meanwhile(lambda history, op: history.prepare("T").grant("T")),
    "policy_denied": knows(tool_disabled=True),
    "approval_required": knows(approval_needed=True),
    "approval_expired": _expired_approval,
    "resource_busy": knows(resource_holders={"order/7": "another"}),
    "surge_exceeded": knows(breaker='{"effect_type": "refund.create"}'),
    "ledger_unavailable": knows(unavailable="ceilings"),
}
"""One requirement each that a claim on a forward operation may miss, whatever state that has."""
BEFORE_THE_STATE = ("claim_expired", "invalid_request", "route_mismatch", "request_mismatch", "operation_frozen")

# ---- the states ---------------------------------------------------------------------------------------------------------


def prepared(**terms: Any) -> History:
    return History().prepare(terms=terms)


def dispatched(**terms: Any) -> History:
    return prepared(**terms).grant()


def confirmed(**terms: Any) -> History:
    return dispatched(**terms).must("outcome_confirmed", source="worker", claim_id="k1")


def unknown(**terms: Any) -> History:
    return dispatched(**terms).expire()


def absent(**terms: Any) -> History:
    return unknown(**terms).absent()


def _answered_and_found(**terms: Any) -> History:
    """The holder told that its call ended without an answer; the effect was found then, long before the end of the lease."""
    return dispatched(**terms).must("outcome_unknown").must("outcome_confirmed")


def compensating() -> History:
    return confirmed().unwind().prepare("compensate:X", tool="cancel_refund").grant("compensate:X")


ANSWERED: dict[str, tuple[Callable[[], History], str]] = {
    "dispatched": (dispatched, "in_flight"),
    "unknown": (unknown, "unresolved"),
    "reconciling": (lambda: unknown().must("probe_recorded"), "unresolved"),
    "confirmed": (confirmed, "already_confirmed"),
    "escalated for doubt": (lambda: unknown().must("operation_escalated"), "needs_human"),
    "escalated otherwise": (lambda: confirmed().must("effect_reverted"), "needs_human"),
    "prepared with a late effect": (lambda: prepared().must("outcome_confirmed"), "needs_human"),
    "cancelled": (lambda: prepared().must("operation_cancelled"), "cancelled"),
    "compensating": (compensating, "compensated"),
    "compensated": (lambda: compensating().must("outcome_confirmed", "compensate:X"), "compensated"),
    "rejected, none left": (lambda: dispatched().must("outcome_rejected"), "already_rejected"),
    "not_found, none left": (lambda: absent(max_attempts=1), "attempts_exhausted"),
    "not_found, for people": (lambda: absent(on_absent=OnAbsent.ESCALATE), "attempts_exhausted"),
    "not_found, offered": (lambda: absent(on_absent=OnAbsent.OFFER_RETRY), "retry_offered"),
}
"""What the state already answers: none of these dispatches."""
DISPATCHES: dict[str, tuple[Callable[[], History], dict[str, Any]]] = {
    "prepared": (prepared, {}),
    "prepared again": (lambda: dispatched().must("dispatch_released"), {}),
    "rejected, tried again": (lambda: dispatched(retry_rejected=True).must("outcome_rejected"), {}),
    "not_found, tried again": (absent, {}),
    "not_found, offered and asked for": (lambda: absent(on_absent=OnAbsent.OFFER_RETRY), {"retry": True}),
    "a replay": (lambda: unknown(**REPLAYABLE).wait(WINDOW_MS), {"replay": True}),
    "a replay while looking": (lambda: unknown(**REPLAYABLE).wait(WINDOW_MS).must("probe_recorded"), {"replay": True}),
}
"""States from which a claim is granted when nothing is missing."""


@pytest.mark.parametrize("state", DISPATCHES)
def test_a_claim_that_misses_nothing_is_granted_the_next_attempt(state: str) -> None:
    build, says = DISPATCHES[state]
    asking = asks(**says)(Asking(build()))
    counted = (CeilingCount(key="refund.create", window_s=3600, limit=20, observed=3),)
    answer = knows(ceilings=counted)(asking).answer()
    attempts = asking.history.op().attempts
    assert answer == Granted(
        attempt=len(attempts) + 1,
        lease_ms=LEASE_MS,
        replay=bool(says.get("replay")),
        resources=(),
        ceilings=counted,
        decided_at_ms=asking.history.now_ms,
    )


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("state", DISPATCHES)
def test_a_claim_that_misses_one_requirement_gets_its_name(state: str, missing: str) -> None:
    build, says = DISPATCHES[state]
    answer = MISSING[missing](asks(**says)(Asking(build()))).answer()
    assert isinstance(answer, Refused)
    assert answer.reason == missing


@pytest.mark.parametrize("missing", ["nothing", *MISSING])
@pytest.mark.parametrize("state", ANSWERED)
def test_what_the_state_answers_comes_before_what_a_dispatch_needs(state: str, missing: str) -> None:
    build, reason = ANSWERED[state]
    asking = Asking(build())
    needs_an_open_group = missing in ("replaced", "open_intent", "group_unwinding")
    if needs_an_open_group and asking.history.route.group_state != "open":
        missing = "nothing"
    if missing != "nothing":
        asking = MISSING[missing](asking)
    answer = asking.answer()
    assert isinstance(answer, Refused)
    in_order = [*BEFORE_THE_STATE, "replaced"]
    after = ("already_rejected", "attempts_exhausted", "retry_offered")
    expected = missing if missing in BEFORE_THE_STATE or (missing in in_order and reason in after) else reason
    assert answer.reason == expected


@pytest.mark.parametrize("says", [{}, {"retry": True}, {"replay": True}, {"retry": True, "replay": True}])
@pytest.mark.parametrize("state", sorted(set(ANSWERED) - {"not_found, offered"}))
def test_no_word_of_a_claim_opens_a_state_that_answers(state: str, says: dict[str, bool]) -> None:
    build, reason = ANSWERED[state]
    answer = asks(**says)(Asking(build().wait(10 * QUIET_MS))).answer()
    assert isinstance(answer, Refused)
    assert answer.reason == reason


# ---- requirements that need a scene of their own ------------------------------------------------------------------------


def to_undo(history: History | None = None) -> Asking:
    """A claim on the inverse of X, which is due."""
    scene = (history or confirmed()).unwind().prepare("compensate:X", tool="cancel_refund", request_hash="h1")
    return Asking(scene, "compensate:X")


def undo_of(history: History) -> Asking:
    return Asking(history.prepare("compensate:X", tool="cancel_refund"), "compensate:X")


def second(history: History, **body: Any) -> Asking:
    """A claim on Y, prepared after what there is of X."""
    return Asking(history.prepare("Y", **body), "Y")


def at(now_ms: int) -> Step:
    return knows(now_ms=now_ms, claimed_at_ms=now_ms)


def in_a_closed_group() -> Asking:
    closed = History().must("group_opened", None).must("group_closed", None)
    return knows(presented_contract=contract())(Asking(closed))


def kept() -> History:
    return confirmed().must("effect_reverted").must("review_decided", choice="kept")


def _two_steps(**changes: Any) -> History:
    history = confirmed().wait(5).prepare("Y", **changes).grant("Y")
    return history.must("outcome_confirmed", "Y", source="worker", claim_id="k1")


SAFE_IN_DOUBT = {"compensation": (Compensation(tool="cancel_refund", safe_when=(ForwardOutcome.UNKNOWN,)),)}

SCENES: list[tuple[str, Callable[[], Asking], str | None]] = [
    ("no intent, no contract", lambda: Asking(History()), "no_contract"),
    ("no intent although a contract came", lambda: knows(presented_contract=contract())(Asking(History())), "no_contract"),
    ("an intent without its contract", lambda: Asking(History().must("operation_prepared")), "no_contract"),
    ("a contract that breaks a rule", lambda: Asking(History().prepare(terms={"minimum_evidence": ()})), "no_contract"),
    (
        "a new step of a closed group",
        in_a_closed_group,
        "group_closed",
    ),
    ("a step that was prepared before its group closed", lambda: Asking(prepared().must("group_closed", None)), None),
    ("a prerequisite that is missing", lambda: second(prepared(), depends_on=["Z"]), "prerequisite_unconfirmed"),
    (
        "a prerequisite in doubt",
        lambda: Asking(unknown().prepare("Y", depends_on=["X"], request_hash="h1", tool="pay"), "Y"),
        "prerequisite_unconfirmed",
    ),
    ("a prerequisite that holds", lambda: Asking(confirmed().prepare("Y", depends_on=["X"]), "Y"), None),
    ("a correction of what is in doubt", lambda: Asking(unknown().prepare("Y", replaces="X"), "Y"), "unresolved"),
    (
        "a correction of what is escalated for doubt",
        lambda: Asking(unknown().must("operation_escalated").prepare("Y", replaces="X"), "Y"),
        "unresolved",
    ),
    ("a later value that supersedes", lambda: second(unknown(), terms={"supersedes": True}, replaces="X"), None),
    ("a correction of what was rejected", lambda: second(dispatched().must("outcome_rejected"), replaces="X"), None),
    # inverses
    ("an inverse that is due", to_undo, None),
    ("an inverse of what is unknown", lambda: to_undo(unknown()), "compensation_unsafe"),
    ("an inverse of what was kept", lambda: to_undo(kept()), "compensation_unsafe"),
    ("an inverse of nothing", lambda: Asking(History().prepare("compensate:X")), "no_contract"),
    ("an inverse while the call may be under way", lambda: to_undo(dispatched().must("outcome_confirmed")), "forward_in_flight"),
    ("an inverse once the lease is over", lambda: to_undo(dispatched().must("outcome_confirmed").wait(LEASE_MS)), None),
    (
        "an inverse before the longest processing is over",
        lambda: to_undo(dispatched(longest_processing=5.0).must("outcome_confirmed").wait(LEASE_MS + 4_999)),
        "forward_in_flight",
    ),
    ("an inverse once the holder said that its call is over", lambda: to_undo(_answered_and_found()), None),
    (
        "an inverse before the longest processing after that answer is over",
        lambda: to_undo(_answered_and_found(longest_processing=5.0).wait(4_000)),
        "forward_in_flight",
    ),
    ("an inverse of what may be unknown", lambda: to_undo(unknown(**SAFE_IN_DOUBT)), None),
    ("an inverse while another step is in doubt", lambda: to_undo(confirmed().prepare("Y").grant("Y").expire("Y")), "unresolved"),
    ("an inverse while nothing unwinds", lambda: undo_of(confirmed()), "not_due"),
    ("an inverse before that of a step that depends on it", lambda: to_undo(_two_steps(depends_on=["X"])), "not_due"),
    ("an inverse before that of a later step", lambda: to_undo(_two_steps(depends_on=[])), "not_due"),
    ("an inverse that nobody allowed", lambda: knows(authorization=Decision.DENY)(to_undo()), "compensation_denied"),
    ("an inverse about which nobody could decide", lambda: knows(authorization=None)(to_undo()), "compensation_denied"),
    (
        "an inverse that no contract registered",
        lambda: Asking(confirmed().unwind().prepare("compensate:X", tool="wire_money"), "compensate:X"),
        "compensation_denied",
    ),
    # equal intents
    ("the same intent under a new id", lambda: Asking(prepared().prepare("Y"), "Y"), "open_intent"),
    ("the first of two equal intents", lambda: Asking(prepared().prepare("Y")), None),
    ("an equal intent that was dispatched", lambda: Asking(prepared().prepare("Y").grant("Y")), "open_intent"),
    ("an equal intent that is settled", lambda: Asking(confirmed().prepare("Y"), "Y"), None),
    ("equal intents that are distinct", lambda: second(prepared(), terms={"equal_calls": EqualCalls.DISTINCT}), None),
    ("an equal intent of another tool", lambda: Asking(prepared().prepare("Y", tool="charge"), "Y"), None),
    ("another intent of the same tool", lambda: asks(request_hash="h2")(second(prepared(), request_hash="h2")), None),
    # approvals
    ("an approval that nobody decided", lambda: _approval()(Asking(prepared())), "approval_required"),
    ("an approval", lambda: _approval("allow")(Asking(prepared())), None),
    ("an approval that was denied", lambda: _approval("deny")(Asking(prepared())), "policy_denied"),
    ("an approval under another policy", lambda: _approval("allow", policy_version="p0")(Asking(prepared())), "policy_denied"),
    ("an approval of another request", lambda: _approval("allow", request_hash="h2")(Asking(prepared())), "approval_required"),
    ("a time-out is no grant", lambda: at(T0 + 100)(_approval()(Asking(prepared()))), "approval_expired"),
    # leases, answers, replays
    ("a lease of zero is over", lambda: asks(lease_ms=0)(Asking(prepared())), "invalid_request"),
    ("a lease below zero", lambda: asks(lease_ms=-1)(Asking(prepared())), "invalid_request"),
    ("the last instant somebody waits", lambda: knows(claimed_at_ms=T0 - 5_000)(Asking(prepared())), None),
    ("nobody waits any more", lambda: knows(claimed_at_ms=T0 - 5_001)(Asking(prepared())), "claim_expired"),
    ("an own resource", lambda: knows(resource_holders={"order/7": "X"})(Asking(prepared())), None),
    ("the route that is known", lambda: knows(known_route="trip")(Asking(prepared())), None),
    ("a replay before the window", lambda: asks(replay=True)(Asking(unknown(**REPLAYABLE))), "unresolved"),
    ("a replay of what is not repeatable", lambda: asks(replay=True)(Asking(unknown().wait(WINDOW_MS))), "unresolved"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "scene", "reason"), SCENES, ids=[row[0] for row in SCENES])
def test_a_requirement_is_answered_by_its_name(title: str, scene: Callable[[], Asking], reason: str | None) -> None:
    answer = scene().answer()
    assert (answer.reason if isinstance(answer, Refused) else None) == reason


# ---- precedence: the first hit wins -------------------------------------------------------------------------------------

EXCLUSIVE = {
    ("in_flight", "unresolved"): "one state",
    ("unresolved", "already_confirmed"): "one state",
    ("cancelled", "compensated"): "one state",
    ("already_rejected", "attempts_exhausted"): "one state",
    ("retry_offered", "no_contract"): "the contract offers",
    ("group_unwinding", "group_closed"): "one state of the group",
    ("group_closed", "prerequisite_unconfirmed"): "no intent, no prerequisites",
    ("compensation_denied", "open_intent"): "an inverse has no equal intent",
    ("approval_required", "approval_expired"): "one approval",
}
"""Neighbours that no claim can hit together, and why."""


def _late_confirmed() -> History:
    """Absence was proven, then its old holder brought a reference, then the effect was confirmed: the task is open still."""
    return absent().must("outcome_unknown", reference="r9").must("outcome_confirmed", reference="r9")


def _replaced(history: History) -> History:
    return history.prepare("R", replaces="X", request_hash="h9")


def _undone_and_replaced() -> History:
    history = _replaced(confirmed())
    history.unwind().prepare("compensate:X", tool="cancel_refund").grant("compensate:X")
    return history


def _inverse_of_in_flight() -> Asking:
    scene = dispatched().must("outcome_confirmed").prepare("Y").grant("Y", claim_id="y1").unwind()
    return Asking(scene.prepare("compensate:X", tool="cancel_refund"), "compensate:X")


def _inverse_too_early() -> Asking:
    scene = confirmed().prepare("Y").grant("Y", claim_id="y1")
    return Asking(scene.prepare("compensate:X", tool="cancel_refund"), "compensate:X")


def _unsafe_inverse() -> Asking:
    scene = dispatched().unwind().prepare("compensate:X", tool="cancel_refund", depends_on=["Z"])
    return Asking(scene, "compensate:X")


def answered(state: str) -> Callable[[], Asking]:
    return lambda: Asking(ANSWERED[state][0]())


def grantable(state: str) -> Callable[[], Asking]:
    return lambda: asks(**DISPATCHES[state][1])(Asking(DISPATCHES[state][0]()))


TOGETHER: dict[str, Callable[[], Asking]] = {
    **{f"{state} ({reason})": answered(state) for state, (_, reason) in ANSWERED.items()},
    **{f"{state}, grantable": grantable(state) for state in DISPATCHES},
    "confirmed with a late effect": lambda: Asking(_late_confirmed()),
    "cancelled with a late effect": lambda: Asking(prepared().must("operation_cancelled").must("outcome_confirmed")),
    "compensating and replaced": lambda: Asking(_undone_and_replaced()),
    "rejected and replaced": lambda: Asking(_replaced(dispatched().must("outcome_rejected"))),
    "offered and exhausted": lambda: Asking(absent(on_absent=OnAbsent.OFFER_RETRY, max_attempts=1)),
    "no contract in an unwinding group": lambda: Asking(History().must("operation_prepared").unwind()),
    "closed group": in_a_closed_group,
    "prerequisite missing, equal intent": lambda: Asking(prepared().prepare("Y", depends_on=["Z"]), "Y"),
    "unsafe inverse of a call under way": _unsafe_inverse,
    "inverse of a call under way beside doubt": _inverse_of_in_flight,
    "inverse beside doubt while nothing unwinds": _inverse_too_early,
    "inverse not due and denied": lambda: knows(authorization=Decision.DENY)(to_undo(_two_steps(depends_on=["X"]))),
    "equal intent, approval expired": lambda: _expired_approval(Asking(prepared().prepare("Y"), "Y")),
}  # fmt: skip


NEED_A_SCENE = ("replaced", "group_unwinding", "open_intent", "approval_expired")


def combined() -> list[tuple[str, Callable[[], Asking], tuple[str, ...]]]:
    """Every scene with none, one and two requirements missing."""
    steps = [step for step in MISSING if step not in NEED_A_SCENE]
    ways: list[tuple[str, ...]] = [(), *((step,) for step in steps), *combinations(steps, 2)]
    return [(name, scene, missing) for name, scene in TOGETHER.items() for missing in ways]


def test_of_two_refusals_the_first_in_the_order_wins() -> None:
    """Every scene with every two requirements missing; and every two neighbours of the order were hit together once."""
    met: set[tuple[str, str]] = set()
    full = [check.__name__ for check in CHECKS if check.__name__ not in ("intent_refused", "replaced_unresolved")]
    number = 0
    for name, scene, missing in combined():
        asking = scene()
        for step in missing:
            asking = MISSING[step](asking)
        answer, hits = asking.answer(), asking.hits()
        number += 1
        if not hits:
            assert isinstance(answer, Granted), name
            continue
        assert isinstance(answer, Refused), name
        assert answer.reason is hits[0][1], (name, missing, hits)
        names = [hit for hit, _ in hits]
        met |= {(one, other) for one, other in pairwise(full) if one in names and other in names}
    assert number > 1_000
    assert set(pairwise(full)) - met == set(EXCLUSIVE)


# ---- what an answer carries ---------------------------------------------------------------------------------------------


def detail(asking: Asking) -> dict[str, str]:
    answer = asking.answer()
    assert isinstance(answer, Refused)
    return answer.detail


def test_an_answer_that_repeats_an_outcome_carries_it_with_its_time() -> None:
    history = dispatched().wait(7).must("outcome_confirmed", receipt='{"id":"r1"}')
    assert detail(Asking(history)) == {"receipt": '{"id":"r1"}', "reference": "r1", "at_ms": str(T0 + 7)}
    assert detail(Asking(dispatched().wait(3).must("outcome_rejected"))) == {"error_code": "card_declined", "at_ms": str(T0 + 3)}
    assert detail(Asking(prepared().wait(2).must("operation_cancelled"))) == {"at_ms": str(T0 + 2)}


def test_a_claim_in_flight_is_told_the_holder_and_the_end_of_the_lease() -> None:
    assert detail(Asking(dispatched())) == {"holder": "k1", "attempt": "1", "lease_end_ms": str(T0 + LEASE_MS)}


def test_a_claim_in_doubt_is_told_when_the_next_look_is() -> None:
    history = unknown().must("probe_recorded", next_check_at_ms=T0 + 99_000)
    assert detail(Asking(history)) == {"next_check_at_ms": str(T0 + 99_000), "since_ms": str(T0 + LEASE_MS + 1)}


def test_a_mismatch_names_the_arguments_that_differ_and_shows_no_value() -> None:
    asking = knows(presented_digests={"amount": "d2", "memo": "d3"})(asks(request_hash="h2")(Asking(prepared())))
    assert detail(asking) == {"differs": "amount, memo"}


def test_an_inverse_that_is_not_due_is_told_which_comes_first() -> None:
    assert detail(to_undo(_two_steps(depends_on=["X"]))) == {"comes_first": "compensate:Y"}


def test_stop_names_what_is_unresolved() -> None:
    assert detail(to_undo(confirmed().prepare("Y").grant("Y"))) == {"operations": "Y"}


def test_the_breaker_is_the_answer_of_a_ceiling() -> None:
    assert detail(knows(breaker='{"observed": 21}')(Asking(prepared()))) == {"breaker": '{"observed": 21}'}


def test_a_grant_names_approval_resources_and_replay() -> None:
    history = History().prepare(resources=["order/7"])
    answer = _approval("allow")(Asking(history)).answer()
    assert isinstance(answer, Granted)
    assert (answer.attempt, answer.approval_id, answer.resources, answer.replay) == (1, "a1", ("order/7",), False)


def test_deciding_is_total_over_contracts_that_cannot_be_read() -> None:
    history = History().must("operation_prepared", contract="{")
    answer = Asking(history).answer()
    assert isinstance(answer, Refused)
    assert answer.reason is Refusal.NO_CONTRACT
    presented: Contract = replace(contract(), tool="refund")
    assert isinstance(knows(presented_contract=presented)(Asking(History())).answer(), Refused)


def test_a_claim_that_comes_with_another_intent_is_refused_whatever_hash_it_carries() -> None:
    """The intent was refused for its hash; its claim must not slip through under the hash of the first one."""
    asking = Asking(History().prepare())
    assert isinstance(asking.answer(), Granted)
    asking.facts["presented_hash"] = "h1"
    assert isinstance(asking.answer(), Granted)
    asking.facts["presented_hash"] = "h2"
    answer = asking.answer()
    assert isinstance(answer, Refused)
    assert answer.reason is Refusal.REQUEST_MISMATCH
