"""Rows of what ceilings count, from the events that a fold took or refused (semantics.md §5, §9)."""

from typing import Any

from tests.unit.projector.support import T0, about, claim, prepared

from landed.core import events as ev
from landed.core.fold import Folded, empty_route, fold
from landed_services.projector.counting import Counting

COUNT = ev.CeilingCount(key="ceiling:refund.create", window_s=3600, limit=20, observed=0)


class Log:
    """Events of one operation, folded and counted."""

    def __init__(self) -> None:
        self.route, self.offset, self.counting = empty_route("acme", "op-1"), 0, Counting()
        self.then(prepared("op-1", claim("c1"), event_id="e1"))

    def then(self, event: ev.Event, *, has_rows: bool = False) -> Folded:
        self.offset += 1
        entry = ev.Entry(event=event, position=ev.Position(partition=0, offset=self.offset), at_ms=T0, digest=event.event_id)
        folded = fold(self.route, entry)
        self.counting.folded(entry, folded, has_rows=has_rows)
        self.route = folded.route
        return folded


def grant(name: str, claim_id: str = "c1", **fields: Any) -> ev.DispatchGranted:
    place = ev.Position(partition=0, offset=1)
    said = {"attempt": 1, "lease_ms": 30_000, "claim_position": place, "ceilings": [COUNT], "decided_at_ms": T0 + 7, **fields}
    return ev.DispatchGranted(**{**about("op-1"), "event_id": name, "claim_id": claim_id, **said})


def test_a_grant_has_a_row_with_the_time_of_its_decision() -> None:
    log = Log()
    assert log.then(grant("g1", resources=["zone:a"])).accepted
    assert [(row[2], row[3], row[5], row[6], row[7]) for row in log.counting.grants.values()] == [
        ("op-1", "c1", "refund.create", T0 + 7, False)
    ]
    assert [(row[1], row[7]) for row in log.counting.resources.values()] == [("zone:a", False)]


def test_a_grant_that_no_ceiling_counted_has_one_for_a_ceiling_that_is_set_later() -> None:
    log = Log()
    log.then(grant("g1", ceilings=[]))
    assert [row[6] for row in log.counting.grants.values()] == [T0 + 7]
    assert not log.counting.resources


def test_rows_that_were_written_with_a_decision_are_written_again_only_when_the_fold_refuses_it() -> None:
    log = Log()
    log.then(grant("g1"), has_rows=True)
    assert not log.counting.grants
    log.then(ev.OutcomeConfirmed(**{**about("op-1"), "event_id": "o1", "claim_id": "c1", "attempt": 1, "source": "caller"}))
    assert not log.then(grant("g2", "c2"), has_rows=True).accepted
    assert [(row[3], row[7]) for row in log.counting.grants.values()] == [("c2", True)]


def test_a_grant_that_the_fold_refused_keeps_its_room_and_holds_nothing() -> None:
    log = Log()
    log.then(ev.OperationCancelled(**{**about("op-1"), "event_id": "x1", "by": "anna", "reason": "no"}))
    assert not log.then(grant("g1", resources=["zone:a"])).accepted
    assert [row[7] for row in (*log.counting.grants.values(), *log.counting.resources.values())] == [True, True]


def test_a_second_decision_about_a_claim_gives_nothing_of_the_first_back() -> None:
    log = Log()
    log.then(grant("g1"))
    assert not log.then(grant("g2")).accepted
    assert [row[7] for row in log.counting.grants.values()] == [False]


def test_a_grant_that_comes_twice_counts_once() -> None:
    log = Log()
    log.then(grant("g1"))
    assert log.then(grant("g1")).repeated
    assert len(log.counting.grants) == 1


def test_a_released_grant_is_not_underway_any_more() -> None:
    log = Log()
    log.then(grant("g1"))
    released = ev.DispatchReleased(**{**about("op-1"), "event_id": "r1", "claim_id": "c1", "attempt": 1, "why": "not sent"})
    assert log.then(released).accepted
    assert [row["claim_id"] for row in log.counting.released] == ["c1"]
