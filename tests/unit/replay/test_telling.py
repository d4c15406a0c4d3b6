"""A story told from the log alone: known then beside true now, causes by place, states at any cut."""

import time

import pytest
from tests.history import GROUP, T0, TENANT, History
from tests.logs import Seeded, Writer
from tests.unit.replay.support import RING, items, lost_answer, told

from landed.core.events import CATALOGUE
from landed.core.vocabulary import Refusal
from landed.wire.records import Record
from landed_services.reading import read_item
from landed_services.replay.asking import point
from landed_services.replay.causes import CAUSES, REFUSED_BY
from landed_services.replay.differences import differences
from landed_services.replay.scope import Cut, Scope
from landed_services.replay.showing import line_text, when
from landed_services.replay.telling import Story


def test_what_was_known_then_stands_beside_what_is_true_now() -> None:
    story, _ = told(lost_answer())
    refused = next(one for one in story.decisions() if one.decision == "dispatch_refused")
    assert (refused.known_then, refused.true_now) == ("unknown", "confirmed")
    assert (refused.by, refused.shown_now) == ("projector", "Done")


def test_a_decision_names_the_offset_that_it_had_seen_and_what_stood_there_unseen() -> None:
    history = History().prepare().must("dispatch_requested").grant().must("outcome_unknown")
    history.must("dispatch_refused", claim_id="k2", reason="in_flight", seen_version=3)
    story, _ = told(history)
    refused = next(one for one in story.decisions() if one.decision == "dispatch_refused")
    assert refused.seen is not None
    assert (refused.seen.offset, refused.known_then) == (2, "dispatched")
    assert [(one.offset, one.event) for one in refused.not_seen] == [(3, "outcome_unknown")]
    assert refused.because == "refused because in_flight, see dispatch_granted at 0:2"


def test_a_refusal_is_explained_by_the_event_that_it_rests_on() -> None:
    story, _ = told(lost_answer())
    refused = next(one for one in story.decisions() if one.decision == "dispatch_refused")
    assert refused.because == "refused because unresolved, see outcome_unknown at 0:3"


def test_an_event_that_the_fold_refused_is_told_with_the_reason() -> None:
    history = lost_answer()
    history.add("dispatch_granted", claim_id="k9", attempt=2, seen_version=7)
    story, lines = told(history)
    assert (lines[-1].accepted, lines[-1].reason) == (False, history.results[-1].reason)
    last = list(story.decisions())[-1]
    assert last.because == f"not accepted by the fold because {history.results[-1].reason}, see outcome_confirmed at 0:6"


def test_every_line_tells_the_state_that_the_fold_had_there() -> None:
    history = lost_answer()
    _, lines = told(history)
    assert [line.state for line in lines] == [str(one.route.operation("X").state) for one in history.results]


@pytest.mark.parametrize("seed", range(6))
def test_the_state_at_any_offset_is_the_fold_of_what_stands_before_it(seed: int) -> None:
    writer = Writer(Seeded(seed))
    for _ in range(40):
        writer.write()
    cuts = tuple(Cut(partition=0, offset=offset) for offset in range(40))
    log = items(writer.log)
    story = Story(Scope(), cuts)
    list(story.lines(log))
    for number in range(40):
        before = Story(Scope())
        list(before.lines(log[: number + 1]))
        assert list(story.routes(number)) == list(before.routes(None))


def test_where_only_states_are_asked_for_they_are_the_same_without_lines_and_decisions() -> None:
    cuts = (Cut(at_ms=T0 + 999),)
    story, _ = told(lost_answer(), cuts=cuts)
    silent = Story(Scope(), cuts, held_max=2, told=False)
    silent.follow(items(lost_answer().log))
    assert list(silent.routes(0, None)) == list(story.routes(0, None))
    assert (silent.events, silent.decided, list(silent.decisions())) == (story.events, 0, [])


def test_a_cut_in_time_takes_what_was_appended_at_that_instant() -> None:
    story, _ = told(lost_answer(), cuts=(Cut(at_ms=T0 + 999), Cut(at_ms=T0 + 1_000)))
    states = [next(operation for _, operation in story.operations(number)).state for number in (0, 1)]
    assert states == ["dispatched", "unknown"]


def test_differences_between_two_instants_name_field_and_both_values() -> None:
    story, _ = told(lost_answer(), cuts=(Cut(at_ms=T0 + 1_000),))
    changed = {one.field: (one.before, one.after) for one in differences(story, 0, None)}
    assert changed["state"] == ("unknown", "confirmed")
    assert changed["shown"] == ("Processing safely", "Done")
    assert changed["references"] == (None, "r1")
    assert list(differences(story, None, None)) == []


def test_what_lies_behind_the_end_of_the_story_changes_nothing_in_it() -> None:
    story, lines = told(lost_answer(), Scope(until=Cut(at_ms=T0 + 1_000)))
    assert [line.event for line in lines][-1] == "dispatch_refused"
    assert {one.true_now for one in story.decisions()} == {"unknown"}


def test_a_range_narrows_what_is_shown_and_not_what_is_folded() -> None:
    _, lines = told(lost_answer(), Scope(first=Cut(partition=0, offset=6)))
    assert [(line.offset, line.state) for line in lines] == [(6, "confirmed")]


def test_scopes_keep_other_tenants_groups_operations_and_tools_out() -> None:
    history = lost_answer().prepare("Y", tool="pay")
    for scope, shown in (
        (Scope(tenant_id="other"), set()),
        (Scope(tenant_id=TENANT, group="other"), set()),
        (Scope(tenant_id=TENANT, group=GROUP), {"X", "Y"}),
        (Scope(operation_id="Y"), {"Y"}),
        (Scope(tool="pay"), {"Y"}),
        (Scope(routes=frozenset()), set()),
    ):
        story, lines = told(history, scope)
        assert {line.operation_id for line in lines} == shown
        assert {operation.operation_id for _, operation in story.operations()} == shown


def test_a_key_outside_the_scope_is_not_looked_into() -> None:
    key = items(lost_answer().log)[0].record.key
    assert Scope(tenant_id=TENANT, group=GROUP).admits_key(key)
    assert not Scope(tenant_id="other").admits_key(key)
    assert not Scope(tenant_id=TENANT).admits_key(b"no key")
    assert Scope(operation_id="X").begins_operation(key) == ("X", (TENANT, GROUP))
    assert Scope(operation_id="Y").begins_operation(key) is None


def test_every_refusal_that_the_state_gives_names_events_that_there_are() -> None:
    known = {*CATALOGUE}
    assert {name for names in (*CAUSES.values(), *REFUSED_BY.values()) for name in names} <= known
    # What rests on no event of the operation or its group: the claim, a policy, a ceiling, a resource, another operation.
    assert set(Refusal) - REFUSED_BY.keys() == {
        Refusal.CLAIM_EXPIRED,
        Refusal.INVALID_REQUEST,
        Refusal.ROUTE_MISMATCH,
        Refusal.OPERATION_FROZEN,
        Refusal.REPLACED,
        Refusal.PREREQUISITE_UNCONFIRMED,
        Refusal.COMPENSATION_UNSAFE,
        Refusal.FORWARD_IN_FLIGHT,
        Refusal.NOT_DUE,
        Refusal.OPEN_INTENT,
        Refusal.POLICY_DENIED,
        Refusal.RESOURCE_BUSY,
        Refusal.SURGE_EXCEEDED,
        Refusal.LEDGER_UNAVAILABLE,
    }


def test_what_nobody_vouches_for_is_shown_only_where_the_whole_log_is_asked_for() -> None:
    stray = Record(key=b"k", value=b"v", partition=0, offset=0, timestamp_ms=T0)
    log = [read_item(stray, ring=RING, partitions=1)]
    assert [(line.event, line.reason) for line in Story(Scope()).lines(log)] == [("unreadable", "key_malformed")]
    narrow = Story(Scope(tenant_id=TENANT))
    assert list(narrow.lines(log)) == []
    assert narrow.not_taken == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_time_without_a_zone_is_utc_wherever_the_command_runs(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert point("2026-11-30T09:17:05.120") == point("2026-11-30T10:17:05.120+01:00") == Cut(at_ms=1_796_030_225_120)
        assert when(1_796_030_225_120) == "2026-11-30T09:17:05.120Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_others_wrote_moves_no_cursor() -> None:
    history = History().prepare("X").must("operation_cancelled", by="\x1b[2J", reason="a\nb")
    _, lines = told(history)
    text = "\n".join(line_text(lines[-1]))
    assert "\x1b" not in text
    assert "a\N{REPLACEMENT CHARACTER}b" in text
