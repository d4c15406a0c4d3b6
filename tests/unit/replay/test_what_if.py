"""Decisions made again from the recorded facts: the same under the same terms, and each difference under others.

The logs are what the product's own code leaves of the shipped cases and of stories at random, in simulated time.
"""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.cases.test_stories_at_random import SEEDS, story
from tests.history import T0, History, claim, contract, entry, event
from tests.logs import TEXTS, Seeded, Writer
from tests.unit.replay.playing import cases, contracts_of, given, log_of, played, run

from landed.core import decide
from landed.core import events as ev
from landed.core.contract import Compensation, Effect, contract_json, readable_contract
from landed.core.events import Entry
from landed.core.policy import NO_POLICIES, PolicyError
from landed.core.state import Operation, Route
from landed.core.vocabulary import Refusal
from landed.testing.cases import cases_of
from landed_services.replay.claims import NO_POLICY_ON_RECORD
from landed_services.replay.compared import By
from landed_services.replay.moments import Moments
from landed_services.replay.rooms import CUT_ROOM, UNKNOWN_ROOM, UNREAD_ROOM, Rooms
from landed_services.replay.scope import Cut, Scope
from landed_services.replay.terms import Terms, policies_from, terms

SLOW = {"C87", "C102"}
"""Thousands of operations that say nothing that the others do not."""
SEEDED = {"C126"}
"""Its ceiling counts grants that were never on its log."""


# ---- the same terms -------------------------------------------------------------------------------------------------------


def test_every_decision_of_the_shipped_cases_is_made_again() -> None:
    decisions = 0
    for name in cases().keys() - SLOW:
        found = run(log_of(name))
        assert (name, found.told, found.what_if.tally.unjudged) == (name, [], {})
        assert found.what_if.tally.same == found.what_if.tally.decisions
        decisions += found.what_if.tally.decisions
    assert decisions > 1_500


def test_every_decision_of_stories_at_random_is_made_again() -> None:
    decisions = 0
    for seed in SEEDS:
        (case,) = cases_of({"format": 2, "cases": [story(seed)]}, "random")
        log = played(case)
        found = run(log)
        assert (seed, found.told, found.what_if.tally.unjudged) == (seed, [], {})
        decisions += found.what_if.tally.decisions
        # The contracts that are on the log, said again, change nothing.
        assert (seed, run(log, terms({}, contracts_of(log).values())).told) == (seed, [])
    assert decisions > 100


def test_the_contracts_and_policies_of_a_log_given_again_change_nothing() -> None:
    for name in cases().keys() - SLOW - SEEDED:
        log = log_of(name)
        changes = [one.event for one in log if isinstance(one.event, ev.PolicyChanged)]
        policies = {one.scope: None if one.new is None else msgspec.json.decode(one.new) for one in changes}
        assert len(policies) == len(changes)
        under = terms(policies_from(policies) if policies else {}, contracts_of(log).values())
        assert (name, run(log, under).told) == (name, [])


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_logs_of_broken_and_hostile_writers_never_stop_it(seed: int) -> None:
    writer = Writer(Seeded(seed))
    for _ in range(60):
        writer.write()
    contracts = [one for text in TEXTS[seed % 3 :: 3] if (one := readable_contract(text)) is not None]
    policies = policies_from({"tool:refund": {"approval": seed % 4 == 0}, "automatic": ["cancel_refund"], "compensation": None})
    under = Terms(policies=policies, contracts=terms({}, contracts).contracts)
    found = run(writer.log, under)
    tally = found.what_if.tally
    assert tally.events == 60
    judged = tally.decisions - tally.same - tally.after - sum(tally.unjudged.values())
    assert judged <= tally.operations
    names = [(one.route, one.operation_id) for one in found.differences]
    assert len(names) == len(set(names)) == tally.operations  # the first of each operation, no more


# ---- another build ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unresolved", "already_confirmed", "in_flight", "approval_required"])
def test_a_build_that_decides_otherwise_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"unresolved": "C51", "already_confirmed": "C57", "in_flight": "C91", "approval_required": "C67"}[name]
    monkeypatch.setattr(decide, "CHECKS", tuple(check for check in decide.CHECKS if check.__name__ != name))
    found = run(log_of(about)).differences
    assert {(one.by, one.recorded) for one in found} == {(By.BUILD, f"refused ({name})")}


def altered(log: tuple[Entry, ...], kind: type[ev.Event], **fields: Any) -> list[Entry]:
    """*log* with its last event of *kind* changed."""
    number = max(n for n, one in enumerate(log) if isinstance(one.event, kind))
    return [*log[:number], replace(log[number], event=replace(log[number].event, **fields)), *log[number + 1 :]]


ALTERED = [
    ("C67", ev.DispatchRefused, {"reason": Refusal.CANCELLED}, "refused (cancelled)", "refused (approval_required)"),
    (
        "C51",
        ev.OperationEscalated,
        {"reason": "deadline"},
        "escalated (deadline, not sent again: replay_not_declared)",
        "escalated (no_probe, not sent again: replay_not_declared)",
    ),
    ("C58", ev.OperationCancelled, {"reason": "replaced"}, "cancelled (replaced)", "cancelled (unwinding)"),
]


@pytest.mark.parametrize(("name", "kind", "fields", "recorded", "instead"), ALTERED, ids=str)
def test_a_decision_that_its_facts_do_not_lead_to_is_found(
    name: str, kind: type[ev.Event], fields: dict[str, Any], recorded: str, instead: str
) -> None:
    found = run(altered(log_of(name), kind, **fields)).differences
    assert [(one.recorded, one.instead, one.by) for one in found] == [(recorded, instead, By.BUILD)]


@pytest.mark.parametrize(("reason", "told"), [("irreversible", []), ("skipped", [("X", "handed over (skipped)")])])
def test_a_step_handed_to_a_person_is_made_again_from_what_the_group_was(reason: str, told: list[tuple[str, str]]) -> None:
    history = History().prepare(terms={"compensation": (), "no_inverse": True}, compensation=[]).must("dispatch_requested")
    history.grant(actor="projector", seen_version=2, decided_at_ms=T0).must("outcome_confirmed")
    history.must("unwind_requested", None).unwind()
    history.must("operation_escalated", reason=reason, actor="projector", seen_version=4)
    found = run(history.log)
    assert [(one.operation_id, one.recorded) for one in found.differences] == told
    assert found.what_if.tally.decisions == 2


# ---- other terms -----------------------------------------------------------------------------------------------------------

NO_RULES = {"engine": "rules", "rules": []}
POLICIES: list[tuple[str, dict[str, Any], list[tuple[str, str, str]]]] = [
    ("C67", {"tool:db.drop_prod": None}, [("C67:B", "refused (approval_required)", "granted (attempt 1)")]),
    ("C67", {"tool:db.drop_prod": {"disabled": True}}, [("C67:B", "refused (approval_required)", "refused (policy_denied)")]),
    (
        "C67",
        {"tool:db.drop_prod": {"approval": True, "observe": True}},
        [("C67:B", "refused (approval_required)", "let through (approval_required)")],
    ),
    ("C67", {"tool:db.drop_prod": {"approval": True, "four_eyes": True}}, []),
    ("C72", {"compensation": NO_RULES}, [("compensate:C72:A", "allowed", "denied (no rule allows it)")]),
    ("C48", {"compensation": None}, [("compensate:C48:A", "allowed", "denied (no policy says who may perform inverses)")]),
]


@pytest.mark.parametrize(("name", "policies", "told"), POLICIES, ids=str)
def test_other_policies(name: str, policies: dict[str, Any], told: list[tuple[str, str, str]]) -> None:
    log = log_of(name)
    assert run(log, given(log, policies)).told == told


CONTRACTS: list[tuple[str, dict[str, Any], list[tuple[str, str, str]]]] = [
    (
        "C04",
        {"action_class": "safe_replay"},
        [("C04:A", "escalated (no_probe, not sent again: replay_not_declared)", "retried (safe_replay)")],
    ),
    ("C10", {"safe_window": 60}, [("C10:A", "found absent", "looked up again later")]),
    ("C10", {"backoff": 5}, []),  # what settled it stands beside the look: the next one was never due
    ("C08", {"safe_window": 100}, [("C08:A", "found absent", "looked up again later")]),
    ("C08", {"max_checks": 1}, [("C08:A", "looked up again later", "escalated (probes_exhausted)")]),
    (
        "C12",
        {"max_attempts": 1},
        [("C12:A", "retried (dedupe_supported)", "escalated (no_probe, not sent again: no_attempt_left)")],
    ),
    (
        "C10",
        {"on_absent": "escalate", "action_class": "compensatable"},
        [("C10:A", "retried (absent)", "escalated (absent)")],
    ),
    ("C84", {"lease": 30}, [("C84:A", "lease over", "waiting")]),
    ("C84", {"lease": 3}, [("C84:A", "lease over", "lease over earlier")]),
    ("C01", {"minimum_evidence": ["amount"]}, [("C01:A", "confirmed", "escalated (conflict)")]),
    ("C01", {"first_check_after": 20}, [("C01:A", "looked up", "waiting")]),
    ("C72", {"compensation": []}, [("C72:A", "left as it is", "handed over (skipped)")]),
]


@pytest.mark.parametrize(("name", "fields", "told"), CONTRACTS, ids=str)
def test_other_contracts(name: str, fields: dict[str, Any], told: list[tuple[str, str, str]]) -> None:
    log = log_of(name)
    tool = next(one.event.tool for one in log if isinstance(one.event, ev.OperationPrepared))
    assert run(log, given(log, contracts={tool: fields})).told == told


def test_what_a_tenant_allows_by_itself_is_compensated_instead_of_left() -> None:
    log = log_of("C73")
    (one,) = run(log, given(log, {"automatic": ["stock.release"]})).differences
    assert (one.what, one.operation_id) == ("compensated instead of left", "C73:A")
    assert "the contract of stock.release, which is on no record" in one.unknown  # the group unwinds before its first claim
    (of_a_group,) = run(log, given(log, {"automatic": ["stock.release"]}), whole=False).differences
    assert "no policy about them is on this log" in of_a_group.unknown


def test_a_lower_ceiling_refuses_what_does_not_fit_and_a_higher_one_grants_it() -> None:
    log = log_of("C31")
    lower = run(log, given(log, {"ceiling:dns.delete": {"limit": 5, "per_s": 3600}}))
    assert lower.what_if.tally.by_tool == {"dns.delete": {"refused instead of granted": 15}}
    higher = run(log, given(log, {"ceiling:dns.delete": {"limit": 30, "per_s": 3600}}))
    assert higher.what_if.tally.by_tool == {"dns.delete": {"granted instead of refused": 10}}
    assert [one.operation_id for one in higher.differences][:2] == ["C31:D21", "C31:D22"]


def test_what_another_contract_would_not_have_let_stand_is_told() -> None:
    """Absence that somebody else than the reconciler said: its window would not have been over."""
    history = History().prepare().must("dispatch_requested").grant().expire().absent()
    under = given(history.log, contracts={"refund": {"safe_window": 50.0}})
    assert run(history.log, under).told == [("X", "taken", "not taken (safe_window)")]


def test_the_look_after_a_look_comes_when_the_other_contract_says() -> None:
    terms = {"first_check_after": 1.0, "backoff": 2.0}
    history = History().prepare(terms=terms).must("dispatch_requested")
    history.grant().must("outcome_unknown")
    for number, wait_ms, next_ms in ((1, 1_000, 2_000), (2, 2_000, 4_000)):
        history.wait(wait_ms)
        history.must(
            "probe_recorded",
            number=number,
            result="error",
            actor="reconciler",
            seen_version=history.op().version,
            next_check_at_ms=history.now_ms + next_ms,
        )
    assert run(history.log).told == []
    (one,) = run(history.log, given(history.log, contracts={"refund": {"backoff": 3.0}})).differences
    assert (one.offset, one.recorded, one.instead, one.at_ms) == (5, "looked up", "waiting", T0 + 3_000)


def test_a_refusal_that_was_decided_before_a_later_fact_was_read_is_made_again_from_what_it_had_seen() -> None:
    """The cancellation stands before the grant that was decided without it, and the refusal saw that grant on its way."""
    history = History().prepare().must("dispatch_requested").must("dispatch_requested", claim=claim("k2"))
    history.must("operation_cancelled", actor="anna")
    history.add("dispatch_granted", actor="projector", seen_version=3, decided_at_ms=T0)
    log = list(history.log)
    refused = event("dispatch_refused", event_id="r", claim_id="k2", reason="in_flight", actor="projector", seen_version=4)
    log.append(entry(refused, at_ms=T0, offset=5))
    seen = run(log)
    assert (seen.told, seen.what_if.tally.decisions) == ([], 1)  # the grant was not taken, and decides nothing
    other = replace(log[5], event=replace(refused, seen_version=3))
    assert run([*log[:5], other]).told == [("X", "refused (in_flight)", "granted (attempt 1)")]


def test_a_refusal_that_came_onto_the_log_late_is_made_again_from_the_time_of_its_claim() -> None:
    """By the broker's time of the refusal nobody waited any more; when it was decided somebody did, and it names no bound."""
    history = History().prepare().grant().must("dispatch_requested", claim=claim("k2")).wait(6_000)
    history.must("dispatch_refused", claim_id="k2", reason="in_flight", actor="projector", seen_version=4)
    seen = run(history.log)
    assert (seen.told, seen.what_if.tally.decisions) == ([], 1)


def test_a_clock_of_the_database_that_ran_ahead_is_told_by_the_bound_that_it_had_passed() -> None:
    """On the log stand the broker's times: by them the caller was still waiting, and the window still open."""
    history = History().prepare().must("dispatch_requested")
    detail = {"answer_by_ms": str(T0 + 5_000)}
    history.must("dispatch_refused", reason="claim_expired", detail=detail, actor="projector", seen_version=2)
    assert run(history.log).told == []
    undo = Compensation(tool="cancel_refund", expires_after=10.0)
    history = History().prepare(terms={"compensation": (undo,)}).grant().must("outcome_confirmed").unwind().wait(9_999)
    history.must("operation_escalated", reason="skipped", evidence='{"why":"expired"}', actor="projector", seen_version=3)
    assert run(history.log).told == []
    history.log[-1] = replace(history.log[-1], event=replace(history.log[-1].event, evidence=None))
    assert run(history.log).told == [("X", "handed over (skipped)", "left as it is")]


def test_a_ruling_is_made_again_from_the_request_that_it_recorded() -> None:
    log = log_of("C72")
    context = next(msgspec.json.decode(one.event.context) for one in log if isinstance(one.event, ev.CompensationAuthorized))

    def recorded(**fields: Any) -> list[Entry]:
        text = msgspec.json.encode(context | fields).decode()
        denied = {"decision": "deny"} if fields.get("foreign_reference") else {}
        return altered(log, ev.CompensationAuthorized, context=text, **denied)

    assert run(recorded(foreign_reference=True)).told == []
    older = given(log, {"compensation": {"engine": "rules", "rules": [{"id": "undo", "max_age": 100}]}})
    assert run(recorded(age_s=99.0), older).told == []
    assert run(recorded(age_s=101.0), older).told == [
        ("compensate:C72:A", "allowed", "denied (undo: the effect is older than 100 s)")
    ]


def test_a_denial_stands_where_other_policies_say_nothing_of_it() -> None:
    log = altered(log_of("C72"), ev.PolicyChanged, new='{"engine":"rules","rules":[]}')
    number = next(n for n, one in enumerate(log) if isinstance(one.event, ev.CompensationAuthorized))
    log[number] = replace(log[number], event=replace(log[number].event, decision="deny"))
    granted = log[number + 1].event
    assert isinstance(granted, ev.DispatchGranted)
    who = {name: getattr(granted, name) for name in ev.Event.__struct_fields__}
    refused = ev.DispatchRefused(**who, claim_id=granted.claim_id, reason=Refusal.COMPENSATION_DENIED, detail={"rule": "x"})
    log = [*log[: number + 1], replace(log[number + 1], event=refused)]
    assert run(log).told == []
    assert run(log, given(log, {"tool:other": {"disabled": True}})).told == []
    allowing = given(log, {"compensation": {"engine": "rules", "rules": [{"id": "undo"}]}})
    assert run(log, allowing).told == [("compensate:C72:A", "denied", "allowed (allowed by undo)")]


def test_a_breaker_stands_as_it_was_found_where_other_policies_say_nothing_of_ceilings() -> None:
    log = log_of("C126")
    assert run(log, given(log, {"tool:other": {"disabled": True}})).told == []


def test_what_is_over_gives_its_room_back() -> None:
    history = History()
    for name in ("A", "B"):
        history.prepare(name, request_hash=name).must("dispatch_requested", name, claim=claim(f"k{name}", request_hash=name))
        history.grant(name, f"k{name}", actor="projector", seen_version=2, decided_at_ms=T0)
        history.must("outcome_confirmed", name, reference=name)
    assert run(history.log, given(history.log, {"ceiling:refund.create": {"limit": 1, "at_once": True}})).told == []


def test_an_intent_is_said_again_as_its_writer_would_have_under_another_contract() -> None:
    given_one = contract(lease=60.0, stored_args=("a",), effect=Effect(kind="refund.other"), compensation=())
    under = terms({}, [given_one])

    def said(operation_id: str, lease_ms: int) -> ev.OperationPrepared:
        text = contract_json(contract(lease=10.0, stored_args=("b",)))
        asked = claim(lease_ms=lease_ms)
        one = event("operation_prepared", operation_id, event_id="e", contract=text, claim=asked)
        found = under.rewritten(entry(one)).event
        assert isinstance(found, ev.OperationPrepared)
        return found

    forward, inverse = said("X", 10_000), said("compensate:X", 7_000)
    assert (forward.effect_type, forward.compensation, forward.contract) == ("refund.other", [], contract_json(given_one))
    assert forward.claim is not None
    assert forward.claim.lease_ms == 60_000
    # Its own lease did not follow the contract; and whoever performs an inverse keeps its arguments.
    assert inverse.claim is not None
    assert inverse.claim.lease_ms == 7_000
    kept = readable_contract(inverse.contract or "")
    assert kept is not None
    assert kept.stored_args == ("a", "b")


# ---- what cannot be known --------------------------------------------------------------------------------------------------


def test_after_its_first_difference_decisions_about_an_operation_are_counted_not_guessed() -> None:
    log = log_of("C67")
    found = run(log, given(log, {"tool:db.drop_prod": None}))
    (one,) = found.differences
    assert one.unknown == "what the provider would have answered to a call that was never made"
    tally = found.what_if.tally
    assert (tally.decisions, tally.same, tally.operations, tally.after) == (7, 3, 1, 3)


def test_what_rests_on_an_operation_that_would_have_gone_another_way_is_unknown_too() -> None:
    log = log_of("C72")
    tool = next(one.event.tool for one in log if isinstance(one.event, ev.OperationPrepared))
    tally = run(log, given(log, contracts={tool: {"compensation": []}})).what_if.tally
    assert (tally.operations, tally.after) == (1, 2)  # the ruling about its inverse, and the grant


def test_without_its_policy_on_the_log_a_refusal_by_policy_is_not_judged() -> None:
    log = [one for one in log_of("C67") if not isinstance(one.event, ev.PolicyChanged)]
    tally = run(log).what_if.tally
    assert tally.unjudged == {NO_POLICY_ON_RECORD: 5}
    assert tally.same == 2
    with_one = run(log, given(log, {"tool:db.drop_prod": None, "tool:db.drop_test": {"approval": True}}))
    assert with_one.told == [("C67:B", "refused (approval_required)", "granted (attempt 1)")]


def _room(rooms: Rooms, *, limit: int, at_once: bool = False, whole: bool = True) -> tuple[bool, str]:
    value = {"limit": limit, "at_once": True} if at_once else {"limit": limit, "per_s": 60}
    policies = Terms(policies=policies_from({"ceiling:refund.create": value})).given(NO_POLICIES)
    found = rooms.room(policies, ROUTE, Operation(operation_id="Z", effect_type="refund.create"), now_ms=100_000, whole=whole)
    return found.breaker is None, found.unknown


ROUTE = Route(tenant_id="acme", route="trip")


@pytest.mark.parametrize("at_once", [False, True])
def test_room_that_rests_on_what_would_have_been_otherwise_is_not_said(at_once: bool) -> None:
    rooms = Rooms()
    for name, sure in (("A", True), ("B", False)):
        rooms.granted(ROUTE, Operation(operation_id=name, effect_type="refund.create"), 90_000, sure=sure)
    assert [_room(rooms, limit=limit, at_once=at_once) for limit in (1, 2, 3)] == [(False, ""), (True, UNKNOWN_ROOM), (True, "")]
    if at_once:
        rooms.unknown_from_here(("acme", "trip"), "A")
        assert _room(rooms, limit=1, at_once=True) == (True, UNKNOWN_ROOM)
        rooms.granted(ROUTE, Operation(operation_id="A", effect_type="refund.create"), 90_000, sure=True)
    assert _room(rooms, limit=3, at_once=at_once, whole=False) == (True, UNREAD_ROOM)
    rooms.begins(95_000)
    assert [_room(rooms, limit=limit, at_once=at_once) for limit in (1, 3)] == [(False, ""), (True, CUT_ROOM)]


def test_a_grant_that_would_have_been_refused_takes_no_room() -> None:
    history = History()
    for name, wait_ms in (("A", 0), ("B", 5_000), ("C", 7_000)):
        history.wait(wait_ms).prepare(name, request_hash=name)
        history.must("dispatch_requested", name, claim=claim(f"k{name}", request_hash=name))
        at_ms = history.now_ms
        history.grant(name, f"k{name}", actor="projector", seen_version=2, decided_at_ms=at_ms)
    under = given(history.log, {"ceiling:refund.create": {"limit": 1, "per_s": 10}})
    found = run(history.log, under)
    assert (found.told, found.what_if.tally.unjudged) == ([("B", "granted (attempt 1)", "refused (surge_exceeded)")], {})
    cut = [replace(one, position=replace(one.position, offset=one.position.offset + 7)) for one in history.log]
    assert run(cut, under).what_if.tally.unjudged == {CUT_ROOM: 1}  # of the first; the window of the last begins after it


def test_no_more_of_a_route_is_kept_than_decisions_may_rest_on() -> None:
    moments = Moments("acme", "trip")
    history = History().prepare()
    for number in range(2_000):
        moments.add(replace(history.log[0], position=ev.Position(partition=0, offset=number)), history.log[0], moments.now)
    assert sum(1 for _ in moments.of_version("X", 0)) <= 512


def test_a_grant_outside_the_window_leaves_room() -> None:
    rooms = Rooms()
    rooms.granted(ROUTE, Operation(operation_id="A", effect_type="refund.create"), 40_000, sure=True)
    assert _room(rooms, limit=1) == (True, "")
    rooms.granted(ROUTE, Operation(operation_id="B", effect_type="refund.create"), 40_001, sure=True)
    assert _room(rooms, limit=1) == (False, "")


# ---- what is asked ---------------------------------------------------------------------------------------------------------


def test_only_what_is_in_scope_is_told() -> None:
    log = log_of("C31")
    under = given(log, {"ceiling:dns.delete": {"limit": 5, "per_s": 3600}})

    def names(scope: Scope) -> list[str]:
        return [one.operation_id for one in run(log, under, scope).differences]

    whole = names(Scope())
    assert names(Scope(operation_id="C31:D7")) == ["C31:D7"]
    assert names(Scope(tool="other")) == []
    last = run(log, under).differences[-1]
    assert names(Scope(first=Cut(partition=0, offset=last.offset))) == whole[-1:]
    assert names(Scope(until=Cut(partition=0, offset=last.offset - 1))) == whole[:-1]


BAD: list[tuple[Any, str]] = [
    ([], "policies: must be an object"),
    ({}, "policies: must be an object"),
    ({"tool:x": {"aproval": True}}, "tool:x: Object contains unknown field `aproval`"),
    ({"refund": None}, "key: must be tool:<tool>"),
    ({"ceiling:x": {"limit": 3}}, "per_s, at_once: exactly one of them"),
]


@pytest.mark.parametrize(("document", "rule"), BAD, ids=str)
def test_policies_that_break_a_rule_are_refused_by_key(document: Any, rule: str) -> None:
    with pytest.raises(PolicyError, match=rule.replace("(", r"\(").replace("*", r"\*")):
        policies_from(document)
