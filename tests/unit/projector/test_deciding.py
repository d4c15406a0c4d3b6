"""Decisions of one turn, without a broker or a database: what is decided, against what, and who is answered."""

from landed.core import events as ev
from landed.core.vocabulary import Refusal, State
from landed_services.projector.deciding import KnownUnder

from .support import T0, Log, about, claim, prepared, types


def refusal(event: ev.Event) -> Refusal:
    assert isinstance(event, ev.DispatchRefused)
    return event.reason


def test_a_decision_becomes_state_only_when_it_comes_back() -> None:
    log = Log()
    made = log.turn(prepared("op-1", claim("c1")))
    assert types(made) == [ev.DispatchGranted]
    assert log.view.routes["acme", "op-1"].route.operation("op-1").state is State.PREPARED
    log.come_back(made)
    assert log.view.routes["acme", "op-1"].route.operation("op-1").state is State.DISPATCHED


def test_a_claim_is_decided_against_the_decisions_that_are_on_their_way() -> None:
    log = Log()
    log.turn(prepared("op-1", claim("c1")))
    second = log.turn(prepared("op-1", claim("c2")))
    assert [refusal(one.event) for one in second.made] == [Refusal.IN_FLIGHT]


def test_two_claims_in_one_batch_get_one_grant() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), prepared("op-1", claim("c2")))
    assert types(made) == [ev.DispatchGranted, ev.DispatchRefused]


def test_the_verdict_is_sent_when_the_decision_was_read_back_and_not_before() -> None:
    log = Log()
    made = log.turn(prepared("op-1", claim("c1")))
    assert log.view.changes.verdicts == []
    log.come_back(made)
    assert [(one.claim_id, one.attempt, one.reply_to) for one in log.view.changes.verdicts] == [("c1", 1, "caller-1")]


def test_a_decision_that_stands_on_the_log_twice_is_answered_once() -> None:
    log = Log()
    made = log.turn(prepared("op-1", claim("c1")))
    log.come_back(made)
    log.view.next_turn()
    log.turn(*[one.event for one in made.made])
    assert log.view.changes.verdicts == []


def test_a_grant_that_the_fold_refuses_is_answered_with_what_the_state_now_says() -> None:
    """§5: the group began to unwind between the decision and its place on the log."""
    log = Log()
    made = log.turn(prepared("op-1", claim("c1"), route="trip-1"))
    log.view.next_turn()
    log.turn(ev.GroupUnwinding(**about(None, "trip-1"), reason="sold out", by="ann", plan_version=1), ready=False)
    answered = log.come_back(made)
    assert log.view.changes.verdicts == []
    assert [(one.claim_id, one.reason) for one in answered.verdicts] == [("c1", Refusal.GROUP_UNWINDING)]
    assert types(answered) == [ev.OperationCancelled]


def test_nothing_is_decided_on_a_partition_that_is_catching_up_and_everything_when_it_has() -> None:
    log = Log()
    assert types(log.turn(prepared("op-1", claim("c1")), ready=False)) == []
    log.view.keep_undecided()
    assert log.view.changes.undecided == [(0, 0)]
    log.view.next_turn()
    assert types(log.decide()) == [ev.DispatchGranted]
    assert log.view.changes.decided == [(0, 0)]


def test_a_claim_whose_decision_stands_further_on_in_the_log_is_not_decided() -> None:
    log, other = Log(), Log()
    elsewhere = other.turn(prepared("op-1", claim("c1")))
    log.turn(prepared("op-1", claim("c1")), *[one.event for one in elsewhere.made], ready=False)
    assert types(log.decide()) == []


def test_a_claim_that_was_withdrawn_is_not_decided() -> None:
    log = Log()
    log.turn(prepared("op-1", claim("c1")), ev.DispatchReleased(**about("op-1"), claim_id="c1", why="caller gone"), ready=False)
    assert types(log.decide()) == []


def test_a_claim_asked_again_is_not_decided_again() -> None:
    log = Log()
    log.come_back(log.turn(prepared("op-1", claim("c1"))))
    log.view.next_turn()
    again = log.turn(ev.DispatchRequested(**about("op-1"), seen_version=1, claim=claim("c1")))
    assert types(again) == []
    assert [(one.operation_id, one.claim.claim_id) for one in again.again] == [("op-1", "c1")]


def test_a_claim_asked_again_while_its_decision_is_on_its_way_waits_for_that_verdict() -> None:
    log = Log()
    log.turn(prepared("op-1", claim("c1")))
    log.view.next_turn()
    again = log.turn(ev.DispatchRequested(**about("op-1"), seen_version=1, claim=claim("c1")))
    assert (types(again), again.again) == ([], [])


def test_a_claim_whose_grant_the_fold_refused_gets_no_second_decision_and_is_answered_again_by_the_state() -> None:
    """Its decision leaves no trace in the state; the outbox knows it."""
    log = Log()
    made = log.turn(prepared("op-1", claim("c1"), route="trip-1"))
    log.view.next_turn()
    log.turn(ev.GroupUnwinding(**about(None, "trip-1"), reason="sold out", by="ann", plan_version=1), ready=False)
    log.come_back(made)
    log.view.next_turn()
    again = log.turn(
        ev.DispatchRequested(**about("op-1", "trip-1"), seen_version=1, claim=claim("c1")),
        decided_before=frozenset({("acme", "trip-1", "op-1", "c1")}),
    )
    assert types(again) == []
    assert [(one.claim_id, one.granted, one.reply_to) for one in again.verdicts] == [("c1", False, "caller-1")]


def test_a_new_id_is_refused_as_unavailable_while_other_partitions_catch_up() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), all_ready=False)
    assert [refusal(one.event) for one in made.made] == [Refusal.LEDGER_UNAVAILABLE]


def test_an_id_that_is_known_needs_no_other_partition() -> None:
    """What the state answers is answered; only what must be looked up elsewhere is not."""
    log = Log()
    log.come_back(log.turn(prepared("op-1", claim("c1"))))
    log.view.next_turn()
    made = log.turn(prepared("op-1", claim("c2")), all_ready=False)
    assert [refusal(one.event) for one in made.made] == [Refusal.IN_FLIGHT]


def known(
    route: str, *, prepared_at_ms: int | None = T0 - 1, dispatched: bool = False
) -> dict[tuple[str, str], list[KnownUnder]]:
    return {("acme", "op-1"): [KnownUnder(route, 0, 0, prepared_at_ms, dispatched)]}


def test_an_id_prepared_earlier_under_another_route_is_refused_and_names_it() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), known_under=known("trip-9"))
    assert [refusal(one.event) for one in made.made] == [Refusal.ROUTE_MISMATCH]
    assert isinstance(made.made[0].event, ev.DispatchRefused)
    assert made.made[0].event.detail == {"known_route": "trip-9"}


def test_an_id_prepared_later_under_another_route_changes_nothing() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), known_under=known("trip-9", prepared_at_ms=T0 + 99_999))
    assert types(made) == [ev.DispatchGranted]


def test_an_id_that_was_ever_dispatched_belongs_to_that_route_whoever_was_prepared_first() -> None:
    made = Log().turn(prepared("op-1", claim("c1")), known_under=known("trip-9", prepared_at_ms=T0 + 99_999, dispatched=True))
    assert [refusal(one.event) for one in made.made] == [Refusal.ROUTE_MISMATCH]


def test_an_id_whose_grant_under_another_route_is_on_its_way_is_refused() -> None:
    """The tables do not show that grant yet."""
    log = Log()
    log.turn(prepared("op-1", claim("c1"), route="trip-9"))
    log.view.next_turn()
    tables = known("trip-9", prepared_at_ms=T0 + 99_999)
    made = log.turn(prepared("op-1", claim("c2"), route="trip-1"), known_under=tables)
    assert [refusal(one.event) for one in made.made] == [Refusal.ROUTE_MISMATCH]


def test_an_unwinding_is_decided_once_and_its_consequences_when_it_came_back() -> None:
    log = Log()
    log.turn(prepared("op-1", route="trip-1"))
    asked = ev.UnwindRequested(**about(None, "trip-1"), reason="sold out", by="ann")
    first = log.turn(asked)
    assert types(first) == [ev.GroupUnwinding, ev.OperationCancelled]
    log.view.next_turn()
    assert types(log.turn(ev.UnwindRequested(**about(None, "trip-1"), reason="again", by="bob"))) == []
    assert types(log.come_back(first)) == []
    assert log.view.routes["acme", "trip-1"].route.operation("op-1").state is State.CANCELLED


def test_a_refusal_whose_details_do_not_fit_into_a_record_goes_without_them() -> None:
    log = Log()
    log.come_back(log.turn(prepared("op-1", claim("c1"))))
    holder = {**about("op-1"), "attempt": 1, "claim_id": "c1", "source": "worker"}
    log.turn(
        ev.OutcomeConfirmed(**holder, receipt='"' + "x" * 700_000 + '"'), ev.OutcomeConfirmed(**holder, reference="r" * 200_000)
    )
    log.view.next_turn()
    made = log.turn(prepared("op-1", claim("c2")))
    assert [refusal(one.event) for one in made.made] == [Refusal.ALREADY_CONFIRMED]
    assert isinstance(made.made[0].event, ev.DispatchRefused)
    assert made.made[0].event.detail == {}


def test_the_same_decision_made_twice_is_one_event() -> None:
    first, second = Log().turn(prepared("op-1", claim("c1"))), Log().turn(prepared("op-1", claim("c1")))
    assert [one.event.event_id for one in first.made] == [one.event.event_id for one in second.made]
