"""Every guard of the table decides something: where it always holds, a scenario of the table test has another result."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.history import DEDUPED, LEASE_MS, QUIET_MS, REPLAYABLE, T0, WINDOW_MS, History, entry, event
from tests.unit.core.test_transition_table import (
    CHOICES,
    COLUMNS,
    COUPLED,
    FINAL,
    GUARDS,
    SAYINGS,
    TIMES,
    cells,
    escalated,
    inverse_failed,
    inverse_unknown,
)
from tests.unit.core.test_transition_table import (
    TABLE as WRITTEN,
)

from landed.core import fold as fold_module
from landed.core.events import Entry
from landed.core.fold import Folded, fold
from landed.core.state import Route
from landed.core.transitions import BY_EVENT, FINAL_BY_EVENT, FINAL_TABLE, TABLE, Row

Scenario = tuple[Route, Entry]


def last_said(history: History, name: str, operation_id: str = "X", **body: Any) -> Scenario:
    said = event(name, operation_id, event_id="last", **body)
    return history.route, entry(said, at_ms=history.now_ms, offset=len(history.log))


def of_the_table() -> Iterator[Scenario]:
    for row, column, _ in cells(WRITTEN):
        history = COLUMNS[column]()
        name, body = SAYINGS.get(row, (row, {}))
        if name == "dispatch_granted":
            attempts = history.op().attempts
            body = {**body, "attempt": attempts[-1].number + 1 if attempts else 1}
        if name == "lease_expired":
            history.now_ms = max(history.now_ms, T0 + LEASE_MS + 1)
        if name in ("operation_erased", "operation_retired"):
            body = {**body, "final_state": str(history.op().state)}
        yield last_said(history, name, **body)


def of_the_guards() -> Iterator[Scenario]:
    for _, given, name, body, _ in GUARDS:
        yield last_said(given(), name, **body)
    for _, given, name, body, after_ms, _ in TIMES:
        history = given()
        history.now_ms = T0 + after_ms
        yield last_said(history, name, **body)


def of_people_and_inverses() -> Iterator[Scenario]:
    for reason, choice, _ in cells(CHOICES):
        history = escalated(reason)
        yield last_said(history, "review_decided", review_id=history.op().reviews, choice=choice)
        yield last_said(history, "review_decided", review_id=history.op().reviews + 1, choice=choice)
    early = History().prepare().grant().expire().must("operation_escalated")
    yield last_said(early, "review_decided", choice="not_found")
    unproven = inverse_unknown().must("operation_escalated", "compensate:X").wait(QUIET_MS)
    yield last_said(unproven, "review_decided", choice="compensating")
    for _, given, name, _, _ in COUPLED:
        yield last_said(given(), name, "compensate:X")
    unsafe = History().prepare().unwind().prepare("compensate:X", tool="cancel_refund")
    yield last_said(unsafe, "dispatch_granted", "compensate:X")


def of_the_erased() -> Iterator[Scenario]:
    for row, column, _ in cells(FINAL):
        history = COLUMNS[column]()
        history.must("operation_erased", final_state=str(history.op().state))
        name, body = SAYINGS.get(row, (row, {}))
        yield last_said(history, name, **body)
        history.must("outcome_confirmed")
        for review_id in (history.op().reviews, history.op().reviews + 1):
            for choice in ("acknowledged", "confirmed"):
                yield last_said(history, "review_decided", review_id=review_id, choice=choice)
    decided = COLUMNS["disp"]().must("operation_erased", final_state="dispatched")
    yield last_said(decided, "dispatch_refused", claim_id="k1")


def of_later_attempts() -> Iterator[Scenario]:
    """Where a guard speaks of attempts, claims and windows, several of each."""
    second = COLUMNS["nf"]().grant()
    yield last_said(second, "outcome_confirmed", attempt=1, reference="r2")
    for history in (second, History().prepare().grant().expire().must("operation_escalated"), inverse_failed()):
        for name in ("outcome_rejected", "outcome_unknown", "dispatch_released", "lease_renewed", "lease_expired"):
            for claim_id in ("k1", "k2", "k3"):
                for attempt in (1, 2, 3):
                    body: dict[str, Any] = {"claim_id": claim_id}
                    if name != "dispatch_released":
                        body["attempt"] = attempt
                    yield last_said(history, name, **body)
    second_absent = History().prepare().grant().expire().absent().grant().expire().absent()
    yield last_said(second_absent, "operation_escalated", attempt=1, reason="absent")
    yield last_said(COLUMNS["cing"](), "operation_escalated", attempt=7, reason="inverse_failed")
    yield last_said(COLUMNS["conf"]().unwind(), "operation_escalated", attempt=7, reason="irreversible")
    looking = second.expire().wait(WINDOW_MS).must("probe_recorded", attempt=2)
    for name in ("probe_recorded", "absence_established", "operation_escalated"):
        for attempt in (1, 2, 3):
            yield last_said(looking, name, attempt=attempt)


def of_grants() -> Iterator[Scenario]:
    absent, late = COLUMNS["nf"](), COLUMNS["nf"]().must("outcome_unknown", reference="r9")
    yield last_said(absent, "dispatch_granted", claim_id="k9", attempt=3)
    yield last_said(late, "dispatch_granted", claim_id="k9", attempt=2)
    in_doubt = History().prepare(terms=REPLAYABLE).grant().expire().wait(WINDOW_MS)
    yield last_said(in_doubt, "dispatch_granted", claim_id="k1", attempt=2, replay=True)
    yield last_said(in_doubt, "dispatch_granted", claim_id="k9", attempt=3, replay=True)
    replayed_twice = History().prepare(terms={**REPLAYABLE, "max_attempts": 3}).grant().expire().wait(WINDOW_MS)
    replayed_twice.grant(replay=True)
    handed_over = replayed_twice.expire().absent().must("outcome_unknown", attempt=1, reference="r9")
    handed_over.must("operation_escalated", attempt=2, reason="absent").must("dispatch_released", claim_id="k2")
    yield last_said(handed_over.wait(QUIET_MS), "dispatch_granted", claim_id="k9", attempt=3, replay=True)
    yield last_said(in_doubt.unwind(), "dispatch_granted", claim_id="k9", attempt=2, replay=True)


def of_rejections() -> Iterator[Scenario]:
    """Two attempts of which the second is a replay."""

    def replayed(terms: dict[str, Any]) -> History:
        return History().prepare(terms=terms).grant().expire().wait(WINDOW_MS).grant(replay=True)

    keyed = replayed(DEDUPED).expire()
    yield last_said(keyed, "outcome_rejected", attempt=2, claim_id="k2")
    keyed.must("outcome_rejected", attempt=2, claim_id="k2")
    yield last_said(keyed, "outcome_rejected", attempt=1)
    reverted = replayed(REPLAYABLE).must("outcome_confirmed", attempt=2).must("effect_reverted").wait(2 * QUIET_MS)
    reverted.must("review_decided", choice="not_found").must("operation_escalated", attempt=2, reason="absent")
    yield last_said(reverted, "outcome_rejected", attempt=2, claim_id="k2")
    unanswered = COLUMNS["disp"]().must("outcome_confirmed", reference=None).must("effect_reverted")
    yield last_said(unanswered, "dispatch_released")


def of_older_news() -> Iterator[Scenario]:
    """A webhook about each reference came, then what an older one says about it."""
    for given in COLUMNS.values():
        for reference in (None, "r1", "r2"):
            history = given()
            history.add("webhook_received", reference=reference, provider_time_ms=2)
            for name, body in (("outcome_confirmed", {}), ("outcome_rejected", {"claim_id": None}), ("effect_reverted", {})):
                told = {**body, "source": "webhook", "reference": reference, "provider_time_ms": 1}
                yield last_said(history, name, **told)
    unreferenced = COLUMNS["disp"]().must("outcome_confirmed", reference=None)
    unreferenced.add("webhook_received", reference="r1", provider_time_ms=2)
    yield last_said(unreferenced, "outcome_confirmed", source="webhook", reference="r1", provider_time_ms=1)


@cache
def scenarios() -> list[tuple[Scenario, Folded]]:
    told = (
        of_the_table,
        of_the_guards,
        of_people_and_inverses,
        of_the_erased,
        of_later_attempts,
        of_grants,
        of_rejections,
        of_older_news,
    )
    return [((route, said), fold(route, said)) for tell in told for route, said in tell()]


def always_holds(rows: dict[str, tuple[Row, ...]], changed: Row, guard: str) -> dict[str, tuple[Row, ...]]:
    """*rows* where *guard* of the row *changed* lets everything pass."""
    bare = changed._replace(guards=tuple(one for one in changed.guards if one.__name__ != guard))
    return {event: tuple(bare if row is changed else row for row in of_event) for event, of_event in rows.items()}


SAYS_THE_SAME = {
    ("outcome_unknown", "escalated, reconciling, unknown", "names_last_attempt"): "of an earlier attempt: the next row says so",
    ("operation_cancelled", "prepared", "nothing_dispatched"): "no way leads to `prepared` with an attempt that is not released",
}
"""Guards that decide nothing that another line does not decide too, and why they stand: the norm names the condition."""

PAIRS = [
    pytest.param(table, row, guard.__name__, id=f"{row.event} {number}: {guard.__name__}")
    for table, name in ((TABLE, "BY_EVENT"), (FINAL_TABLE, "FINAL_BY_EVENT"))
    for number, row in enumerate(table)
    for guard in row.guards
]


@pytest.mark.parametrize(("table", "row", "guard"), PAIRS)
def test_without_a_guard_some_scenario_ends_otherwise(
    table: tuple[Row, ...], row: Row, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scenarios()
    name, rows = ("BY_EVENT", BY_EVENT) if table is TABLE else ("FINAL_BY_EVENT", FINAL_BY_EVENT)
    monkeypatch.setattr(fold_module, name, always_holds(rows, row, guard))
    differs = any(fold(route, said) != result for (route, said), result in before)
    assert differs is ((row.event, ", ".join(sorted(row.states)), guard) not in SAYS_THE_SAME)
