"""The transition table of semantics.md §3, §8 and §10, written down by hand and compared with the fold.

Nothing here is derived from the code. A cell says what an event does to an operation in the state of its column: a state it goes
to; `=` accepted and unchanged; `=L` `=D` `=C` unchanged with the mark late_effect, duplicate_effect, contradiction; `-…` refused,
where the letter names the reason in `REASONS` (`-` alone: not allowed in that state).
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.history import (
    BODIES,
    DEDUPED,
    LEASE_MS,
    OF_A_GROUP,
    OF_NEITHER,
    QUIET_MS,
    REPLAYABLE,
    T0,
    WINDOW_MS,
    History,
    digest_of,
)

from landed.core.contract import Compensation
from landed.core.events import CATALOGUE
from landed.core.fold import Folded
from landed.core.transitions import BY_EVENT
from landed.core.vocabulary import Choice, EscalationReason, ForwardOutcome, GroupState, Mark, OnAbsent, State

# ---- the states ---------------------------------------------------------------------------------------------------------


def none() -> History:
    return History()


def prepared() -> History:
    return History().prepare()


def dispatched() -> History:
    return prepared().grant()


def confirmed() -> History:
    return dispatched().must("outcome_confirmed", source="worker", claim_id="k1")


def rejected() -> History:
    """The contract allows no try after a rejection."""
    return dispatched().must("outcome_rejected")


def unknown() -> History:
    return dispatched().expire()


def reconciling() -> History:
    return unknown().wait(WINDOW_MS).must("probe_recorded")


def not_found() -> History:
    """The contract retries after absence and an attempt is left."""
    return dispatched().expire().absent()


def doubtful() -> History:
    """Escalated for doubt."""
    return unknown().must("operation_escalated", reason="no_probe").wait(WINDOW_MS)


def inverse_failed() -> History:
    """Escalated because the inverse was rejected."""
    return compensating().must("outcome_rejected", "compensate:X")


def cancelled() -> History:
    return prepared().must("operation_cancelled")


def compensating() -> History:
    return confirmed().unwind().prepare("compensate:X", tool="cancel_refund", terms={"max_attempts": 1}).grant("compensate:X")


def compensated() -> History:
    return compensating().must("outcome_confirmed", "compensate:X", reference="u1")


# ---- reading the tables -------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[], History]] = {
    "none": none,
    "prep": prepared,
    "disp": dispatched,
    "conf": confirmed,
    "rej": rejected,
    "unk": unknown,
    "rec": reconciling,
    "nf": not_found,
    "esc-d": doubtful,
    "esc-i": inverse_failed,
    "canc": cancelled,
    "cing": compensating,
    "ced": compensated,
}
NAMES = {
    "none": State.NONE,
    "prep": State.PREPARED,
    "disp": State.DISPATCHED,
    "conf": State.CONFIRMED,
    "rej": State.REJECTED,
    "unk": State.UNKNOWN,
    "rec": State.RECONCILING,
    "nf": State.NOT_FOUND,
    "esc": State.ESCALATED,
    "canc": State.CANCELLED,
    "cing": State.COMPENSATING,
    "ced": State.COMPENSATED,
}
MARKS = {"=L": Mark.LATE_EFFECT, "=D": Mark.DUPLICATE_EFFECT, "=C": Mark.CONTRADICTION}
REASONS = {
    "-": "not_allowed_in_{state}",
    "-a": "no_attempt_left",
    "-c": "group_closed",
    "-d": "claim_already_decided",
    "-e": "not_an_earlier_attempt",
    "-g": "group_unwinding",
    "-h": "not_holder",
    "-k": "kept",
    "-l": "late_effect",
    "-m": "request_mismatch",
    "-n": "attempt_not_next",
    "-o": "outcome_on_record",
    "-p": "attempt_on_record",
    "-r": "reason_not_allowed_in_state",
    "-s": "not_settled",
    "-t": "not_last_attempt",
    "-u": "unresolved",
    "-v": "no_new_reference",
    "-w": "claim_withdrawn",
    "-x": "group_not_unwinding",
    "-z": "compensation_unsafe",
}


def check(history: History, said: Folded, before: History, cell: str, operation_id: str = "X") -> None:
    was, now = before.op(operation_id), history.op(operation_id)
    if cell.startswith("-"):
        assert not said.accepted, f"accepted, now {now.state}"
        assert said.reason == REASONS[cell].format(state=was.state)
        assert now.state is was.state
        assert now.version == was.version
        return
    assert said.accepted, f"refused: {said.reason}"
    assert now.version == was.version + 1
    assert said.mark == MARKS.get(cell)
    assert now.state is (was.state if cell.startswith("=") else NAMES[cell])
    if cell in MARKS:
        assert now.review is not None
        assert now.review.reasons[-1] == MARKS[cell]
        assert now.reviews == was.reviews + 1


# ---- every state × every event ------------------------------------------------------------------------------------------

TABLE = """
event                     none prep disp conf rej  unk  rec  nf   esc-d esc-i canc cing ced
prepared                  prep =    =    =    =    =    =    =    =     =     =    =    =
prepared other            prep -m   -m   -m   -m   -m   -m   -m   -m    -m    -m   -m   -m
dispatch_requested        =    =    =    =    =    =    =    =    =     =     =    =    =
approval_requested        =    =    =    =    =    =    =    =    =     =     =    =    =
approval_decided          =    =    =    =    =    =    =    =    =     =     =    =    =
compensation_authorized   =    =    =    =    =    =    =    =    =     =     =    =    =
webhook_received          =    =    =    =    =    =    =    =    =     =     =    =    =
agent_statement           =    =    =    =    =    =    =    =    =     =     =    =    =
refused k9                =    =    =    =    =    =    =    =    =     =     =    =    =
refused k1                =    =    -d   -d   -d   -d   -d   -d   -d    -d    =    -d   -d
granted k9                -    disp -    -    -a   -u   -u   disp -     -     -    -    -
released k1               =    =    prep -d   -d   prep prep -d   prep  -o    =    -d   -d
released k9               =    =    =    =    =    =    =    =    =     =     =    =    =
renewed k1                -    -    =    -    -    -    -    -    -     -     -    -    -
expired k1                -e   -e   unk  -e   -e   -e   -e   -e   -e    -e    -e   -e   -e
unknown k1                -h   -h   unk  -v   -v   =    =    -v   =     -v    -h   -v   -v
unknown k1 new reference  -h   -h   unk  =    =L   =    =    =L   =     =     -h   =    =
confirmed r1              -    =L   conf =    =L   conf conf conf conf  =     =L   =    =
confirmed r2              -    =L   conf =D   =L   conf conf conf conf  =D    =L   =D   =L
confirmed no reference    -    =L   conf =    =L   conf conf conf conf  =     =L   =    =L
rejected k1               -    =    rej  =C   =    rej  rej  =    rej   =C    =    =C   =C
rejected by webhook       -    =    =    =C   =    rej  rej  =    rej   =C    =    =C   =C
rejected attempt 9        -    =    =    =    =    =    =    =    =     =     =    =    =
probed 1                  -e   -e   -e   -e   -e   rec  rec  -e   -e    -e    -e   -e   -e
absence 1                 -e   -e   -e   -e   -e   -e   nf   -e   -e    -e    -e   -e   -e
escalated no_probe        -e   -e   -e   -r   -e   esc  esc  -r   -e    -e    -e   -r   -e
escalated exhausted       -e   -e   -e   -r   -e   esc  esc  -r   -e    -e    -e   -r   -e
escalated deadline        -e   -e   -e   -r   -e   esc  esc  -r   -e    -e    -e   -r   -e
escalated conflict        -e   -e   -e   -r   -e   esc  esc  -r   -e    -e    -e   -r   -e
escalated absent          -e   -e   -e   -r   -e   -r   -r   esc  -e    -e    -e   -r   -e
escalated inverse_failed  -e   -e   -e   -r   -e   -r   -r   -r   -e    -e    -e   esc  -e
escalated skipped         -e   -e   -e   -x   -e   -r   -r   -r   -e    -e    -e   -r   -e
escalated irreversible    -e   -e   -e   -x   -e   -r   -r   -r   -e    -e    -e   -r   -e
escalated reverted        -e   -e   -e   -r   -e   -r   -r   -r   -e    -e    -e   -r   -e
effect_reverted           -    -    -    esc  -    -    -    -    -     -     -    -    esc
operation_cancelled       -    canc -    -    -    -    -    -    -     -     -    -    -
erased                    =    =    =    =    =    =    =    =    =     =     =    =    =
retired                   -s   -s   -s   =    =    -s   -s   -s   -s    -s    =    -s   =
"""

SAYINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "prepared": ("operation_prepared", {}),
    "prepared other": ("operation_prepared", {"request_hash": "h2"}),
    "refused k9": ("dispatch_refused", {"claim_id": "k9"}),
    "refused k1": ("dispatch_refused", {"claim_id": "k1"}),
    "granted k9": ("dispatch_granted", {"claim_id": "k9"}),
    "released k1": ("dispatch_released", {"claim_id": "k1"}),
    "released k9": ("dispatch_released", {"claim_id": "k9"}),
    "renewed k1": ("lease_renewed", {}),
    "expired k1": ("lease_expired", {}),
    "unknown k1": ("outcome_unknown", {}),
    "unknown k1 new reference": ("outcome_unknown", {"reference": "r9"}),
    "confirmed r1": ("outcome_confirmed", {}),
    "confirmed r2": ("outcome_confirmed", {"reference": "r2"}),
    "confirmed no reference": ("outcome_confirmed", {"reference": None}),
    "rejected k1": ("outcome_rejected", {}),
    "rejected by webhook": ("outcome_rejected", {"source": "webhook", "claim_id": None}),
    "rejected attempt 9": ("outcome_rejected", {"attempt": 9}),
    "probed 1": ("probe_recorded", {}),
    "absence 1": ("absence_established", {}),
    "escalated no_probe": ("operation_escalated", {"reason": "no_probe"}),
    "escalated exhausted": ("operation_escalated", {"reason": "probes_exhausted"}),
    "escalated deadline": ("operation_escalated", {"reason": "deadline"}),
    "escalated conflict": ("operation_escalated", {"reason": "conflict"}),
    "escalated absent": ("operation_escalated", {"reason": "absent"}),
    "escalated inverse_failed": ("operation_escalated", {"reason": "inverse_failed"}),
    "escalated skipped": ("operation_escalated", {"reason": "skipped"}),
    "escalated irreversible": ("operation_escalated", {"reason": "irreversible"}),
    "escalated reverted": ("operation_escalated", {"reason": "effect_reverted"}),
    "erased": ("operation_erased", {}),
    "retired": ("operation_retired", {}),
}


def cells(table: str) -> list[tuple[str, str, str]]:
    head, *lines = table.strip().splitlines()
    columns, width = head[26:].split(), 26
    rows = [(line[:width].strip(), line[width:].split()) for line in lines]
    return [(row, column, cell) for row, found in rows for column, cell in zip(columns, found, strict=True)]


@pytest.mark.parametrize(("row", "column", "cell"), cells(TABLE))
def test_an_event_moves_a_state_as_the_table_says(row: str, column: str, cell: str) -> None:
    before, history = COLUMNS[column](), COLUMNS[column]()
    name, body = SAYINGS.get(row, (row, {}))
    if name == "dispatch_granted":
        attempts = history.op().attempts
        body = {**body, "attempt": attempts[-1].number + 1 if attempts else 1}
    if name == "lease_expired":
        history.now_ms = max(history.now_ms, T0 + LEASE_MS + 1)
    if name in ("operation_erased", "operation_retired"):
        body = {**body, "final_state": str(history.op().state)}
    said = history.add(name, **body)
    check(history, said, before, cell)


def test_the_table_speaks_of_every_event_of_an_operation() -> None:
    """Every event but those of a group or of nothing; `review_decided` has tables of its own."""
    told = {SAYINGS.get(row, (row, {}))[0] for row, _, _ in cells(TABLE)}
    assert told | {"review_decided"} == set(CATALOGUE) - set(OF_A_GROUP) - set(OF_NEITHER)
    assert set(BY_EVENT) == told | {"review_decided"}
    assert set(BODIES) == set(CATALOGUE)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", sorted({*OF_A_GROUP, *OF_NEITHER}))
def test_an_event_of_no_operation_moves_none(name: str, column: str) -> None:
    history, before = COLUMNS[column](), COLUMNS[column]()
    history.add(name, None)
    assert history.route.operations == before.route.operations


# ---- guards: one line each ----------------------------------------------------------------------------------------------

Given = Callable[[], History]


def in_group(state: Given, *events: str) -> Given:
    def given() -> History:
        history = state()
        for name in events:
            history.must(name, None)
        return history

    return given


def under(step: Callable[[History], History], **terms: Any) -> Given:
    """*step* on an operation prepared under other terms."""
    return lambda: step(History().prepare(terms=terms))


def then(state: Given, *steps: Callable[[History], History]) -> Given:
    def given() -> History:
        history = state()
        for step in steps:
            history = step(history)
        return history

    return given


def say(name: str, operation_id: str = "X", **body: Any) -> Callable[[History], History]:
    return lambda history: history.must(name, operation_id, **body)


def wait(ms: int) -> Callable[[History], History]:
    return lambda history: history.wait(ms)


RETRY = {"claim_id": "k2", "attempt": 2}
THIRD = {"claim_id": "k3", "attempt": 3}
REPLAY = {**RETRY, "replay": True}
SECOND = {"claim_id": "k2", "attempt": 2}


def absent_under(**terms: Any) -> Given:
    return under(lambda h: h.grant().expire().absent(), **terms)


def in_doubt_under(**terms: Any) -> Given:
    """Unanswered, and the safe window has passed."""
    return under(lambda h: h.grant().expire().wait(WINDOW_MS), **terms)


second_attempt = then(not_found, lambda h: h.grant())
"""Attempt 1 proven absent, attempt 2 (k2) dispatched."""
second_unknown = then(second_attempt, lambda h: h.expire())
second_absent = then(second_unknown, lambda h: h.absent())
replayed = then(in_doubt_under(**REPLAYABLE), lambda h: h.grant(replay=True))
"""Attempt 1 unanswered, attempt 2 (k2) a replay."""
replayed_unknown = then(replayed, lambda h: h.expire())
replayed_with_key = then(in_doubt_under(**DEDUPED), lambda h: h.grant(replay=True).expire())
seen_pending = then(in_doubt_under(**REPLAYABLE), say("probe_recorded", result="found", status="pending"))
seen_with_evidence = then(
    unknown, say("probe_recorded", result="found", status="pending", reference="r1", matched_on=["operation_id"])
)
accepted_only = then(unknown, say("outcome_unknown", reference="r0"), say("outcome_confirmed"))
"""r0 was accepted and never settled, r1 was confirmed."""
late_prepared = then(prepared, say("outcome_confirmed"))
with_reference = under(lambda h: h.grant().must("outcome_unknown", reference="r1").wait(QUIET_MS).must("probe_recorded"))
released_once = then(dispatched, say("dispatch_released"))
released_then_absent = then(released_once, lambda h: h.grant().expire().absent())
rejected_to_retry = under(lambda h: h.grant().must("outcome_rejected"), retry_rejected=True)
unwinding = in_group(confirmed, "group_unwinding")
kept = then(unwinding, say("operation_escalated", reason="skipped"), say("review_decided", choice="kept"))
looking_twice = then(second_unknown, say("probe_recorded", attempt=2))
one_rejected = then(replayed_unknown, say("outcome_rejected"))
one_rejected_with_key = then(replayed_with_key, say("outcome_rejected"))
closed = in_group(none, "group_opened", "group_closed")
unwound = in_group(none, "group_opened", "group_unwinding")

GUARDS: list[tuple[str, Given, str, dict[str, Any], str]] = [
    # intent
    ("an intent opens its group", none, "operation_prepared", {}, "prep"),
    ("an intent needs an open group", closed, "operation_prepared", {}, "-c"),
    ("an intent is refused after unwinding started", unwound, "operation_prepared", {}, "-g"),
    ("the same intent again in a closed group", in_group(prepared, "group_closed"), "operation_prepared", {}, "="),
    ("the same intent again in an unwinding group", in_group(prepared, "group_unwinding"), "operation_prepared", {}, "="),
    # grants
    ("a grant in a closed group", in_group(prepared, "group_closed"), "dispatch_granted", {}, "disp"),
    ("a forward grant after unwinding started", in_group(prepared, "group_unwinding"), "dispatch_granted", {}, "-g"),
    ("a retry after unwinding started", in_group(not_found, "group_unwinding"), "dispatch_granted", RETRY, "-g"),
    ("a grant of another number than the next", prepared, "dispatch_granted", {"attempt": 2}, "-n"),
    ("a second grant of one claim", not_found, "dispatch_granted", {"attempt": 2}, "-d"),
    ("a grant of a refused claim", then(prepared, say("dispatch_refused")), "dispatch_granted", {}, "-d"),
    ("a grant of a withdrawn claim", then(prepared, say("dispatch_released")), "dispatch_granted", {}, "-w"),
    ("a grant of a released claim", released_once, "dispatch_granted", {"attempt": 2}, "-w"),
    ("a grant to another claim after a release", released_once, "dispatch_granted", RETRY, "disp"),
    ("a grant beside a late effect", late_prepared, "dispatch_granted", {}, "-l"),
    ("a retry when none is left", second_absent, "dispatch_granted", THIRD, "-a"),
    ("no retry where absence goes to people", absent_under(on_absent=OnAbsent.ESCALATE), "dispatch_granted", RETRY, "-a"),
    ("a retry that is offered", absent_under(on_absent=OnAbsent.OFFER_RETRY), "dispatch_granted", RETRY, "disp"),
    ("a retry of a rejection where declared", rejected_to_retry, "dispatch_granted", RETRY, "disp"),
    ("a released attempt does not count", released_then_absent, "dispatch_granted", THIRD, "disp"),
    # replays
    ("a replay where declared", in_doubt_under(**REPLAYABLE), "dispatch_granted", REPLAY, "disp"),
    ("a replay under a key", in_doubt_under(**DEDUPED), "dispatch_granted", REPLAY, "disp"),
    ("a replay that does not say so", in_doubt_under(**REPLAYABLE), "dispatch_granted", RETRY, "-u"),
    # releases
    ("a release by another than the holder", dispatched, "dispatch_released", SECOND, "="),
    ("a release after an outcome", then(dispatched, say("outcome_unknown")), "dispatch_released", {}, "-o"),
    ("a release after a reference", then(unknown, say("outcome_unknown", reference="r1")), "dispatch_released", {}, "-o"),
    ("a release after a look found it", seen_with_evidence, "dispatch_released", {}, "-o"),
    ("a release of a retry", second_attempt, "dispatch_released", SECOND, "nf"),
    ("a release of a replay", replayed, "dispatch_released", SECOND, "unk"),
    ("a second release", released_once, "dispatch_released", {}, "-d"),
    # leases
    ("an expiry of a claim that does not hold", dispatched, "lease_expired", {"claim_id": "k2"}, "-h"),
    ("an expiry of an earlier attempt is recorded", second_attempt, "lease_expired", {}, "="),
    # outcomes of attempts
    ("an unknown of an earlier attempt is recorded", second_attempt, "outcome_unknown", {}, "="),
    ("an unknown of another claim", dispatched, "outcome_unknown", {"claim_id": "k2"}, "-h"),
    ("a rejection of an earlier attempt closes it", second_unknown, "outcome_rejected", {}, "="),
    ("a rejection after absence and retry", second_unknown, "outcome_rejected", SECOND, "rej"),
    ("a rejection while another attempt is open", replayed_unknown, "outcome_rejected", SECOND, "="),
    ("a rejection after a replay without a key", one_rejected, "outcome_rejected", SECOND, "="),
    ("a rejection after a replay under a key", one_rejected_with_key, "outcome_rejected", SECOND, "rej"),
    ("a rejection of the confirmed reference", confirmed, "outcome_rejected", {"attempt": None, "reference": "r1"}, "=C"),
    ("a rejection of another reference", confirmed, "outcome_rejected", {"attempt": None, "reference": "r2"}, "="),
    ("a rejection of the attempt and another reference", confirmed, "outcome_rejected", {"reference": "r2"}, "=C"),
    ("a rejection of what was only accepted", accepted_only, "outcome_rejected", {"attempt": None, "reference": "r0"}, "="),
    ("a first reference is taken", then(dispatched, say("outcome_confirmed", reference=None)), "outcome_confirmed", {}, "="),
    ("evidence of an earlier attempt counts", second_unknown, "outcome_confirmed", {"attempt": 1}, "conf"),
    ("evidence of an earlier attempt counts during a retry", second_attempt, "outcome_confirmed", {"attempt": 1}, "conf"),
    # looks
    ("a probe of an earlier attempt is recorded", second_unknown, "probe_recorded", {}, "="),
    ("a probe of no attempt", unknown, "probe_recorded", {"attempt": 7}, "-t"),
    ("an absence of an earlier attempt is recorded", looking_twice, "absence_established", {}, "="),
    # escalations
    ("an escalation about an earlier attempt is recorded", second_unknown, "operation_escalated", {}, "="),
    ("an escalation about no attempt", unknown, "operation_escalated", {"attempt": 7}, "-t"),
    ("absence while unwinding", in_group(not_found, "group_unwinding"), "operation_escalated", {"reason": "absent"}, "-g"),
    ("a step without inverse while unwinding", unwinding, "operation_escalated", {"reason": "irreversible"}, "esc"),
    ("a skipped step while unwinding", unwinding, "operation_escalated", {"reason": "skipped"}, "esc"),
    ("a kept step is not escalated again", kept, "operation_escalated", {"reason": "skipped"}, "-k"),
    # cancelling
    ("withdrawing after a release", released_once, "operation_cancelled", {}, "canc"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "given", "name", "body", "cell"), GUARDS, ids=[row[0] for row in GUARDS])
def test_a_guard_decides_as_the_norm_says(title: str, given: Given, name: str, body: dict[str, Any], cell: str) -> None:
    before, history = given(), given()
    said = history.add(name, **body)
    check(history, said, before, cell)


renewed = then(dispatched, say("lease_renewed"))
looking = then(unknown, say("probe_recorded"))
replayable = under(lambda h: h.grant().expire(), **REPLAYABLE)
deduped = under(lambda h: h.grant().expire(), **DEDUPED)
KEY_END_MS = 60_000 - LEASE_MS
"""Last instant at which a replay with the usual lease ends within the lifetime of the key."""

TIMES: list[tuple[str, Given, str, dict[str, Any], int, str | None]] = [
    # title, given, event, body, instant after the first grant, reason of the refusal
    ("a lease runs", dispatched, "lease_renewed", {}, LEASE_MS - 1, None),
    ("a lease that is over is not renewed", dispatched, "lease_renewed", {}, LEASE_MS, "lease_over"),
    ("a renewal has the next number", dispatched, "lease_renewed", {"lease_number": 2}, 1, "lease_not_next"),
    ("a renewal names the attempt", dispatched, "lease_renewed", {"attempt": 2}, 1, "not_last_attempt"),
    ("a renewal comes from the holder", dispatched, "lease_renewed", {"claim_id": "k2"}, 1, "not_holder"),
    ("a lease does not expire before its end", dispatched, "lease_expired", {}, LEASE_MS, "lease_not_over"),
    ("a lease expires after its end", dispatched, "lease_expired", {}, LEASE_MS + 1, None),
    ("a renewed lease is another lease", renewed, "lease_expired", {}, LEASE_MS + 1, "lease_renewed"),
    ("a renewed lease expires under its number", renewed, "lease_expired", {"lease_number": 1}, LEASE_MS + 1, None),
    ("no absence before the window", looking, "absence_established", {}, QUIET_MS - 1, "safe_window"),
    ("absence after the window", looking, "absence_established", {}, QUIET_MS, None),
    ("no absence beside a reference", with_reference, "absence_established", {}, QUIET_MS, "reference_on_record"),
    ("no absence of what a look found", seen_with_evidence, "absence_established", {}, QUIET_MS, "reference_on_record"),
    ("no replay before the window", replayable, "dispatch_granted", REPLAY, QUIET_MS - 1, "safe_window"),
    ("a replay after the window", replayable, "dispatch_granted", REPLAY, QUIET_MS, None),
    ("no replay of what is not repeatable", unknown, "dispatch_granted", REPLAY, QUIET_MS, "replay_not_declared"),
    ("no replay beyond max_attempts", replayed_unknown, "dispatch_granted", {**THIRD, "replay": True}, 99_999, "no_attempt_left"),
    ("no replay once a look found it", seen_pending, "dispatch_granted", REPLAY, QUIET_MS, "effect_seen"),
    ("a replay within the key's lifetime", deduped, "dispatch_granted", REPLAY, KEY_END_MS, None),
    ("no replay after the key's lifetime", deduped, "dispatch_granted", REPLAY, KEY_END_MS + 1, "key_expired"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "given", "name", "body", "after_ms", "reason"), TIMES, ids=[row[0] for row in TIMES])
def test_times_are_those_of_the_log(
    title: str, given: Given, name: str, body: dict[str, Any], after_ms: int, reason: str | None
) -> None:
    history = given()
    history.now_ms = T0 + after_ms
    said = history.add(name, **body)
    assert (said.accepted, said.reason) == (reason is None, reason)


# ---- people: each reason × each choice (§10) ----------------------------------------------------------------------------


def escalated(reason: str) -> History:
    match reason:
        case "absent":
            return not_found().must("operation_escalated", reason="absent")
        case "inverse_failed":
            return inverse_failed().wait(QUIET_MS)
        case "skipped":
            return confirmed().unwind().must("operation_escalated", reason=reason)
        case "irreversible" | "skipped (no inverse)":
            # Nothing is registered that could get another attempt: with that choice nobody would ever go on with the group.
            history = History().prepare(terms={"compensation": ()}, compensation=[]).grant()
            history.must("outcome_confirmed", source="worker", claim_id="k1").unwind()
            return history.must("operation_escalated", reason=reason.split(" ")[0])
        case "effect_reverted":
            return confirmed().must("effect_reverted").wait(QUIET_MS)
        case "effect_reverted (undone)":
            return compensated().must("effect_reverted").wait(QUIET_MS)
        case "late_effect (prepared)":
            return late_prepared()
        case "late_effect (rejected)":
            return rejected().must("outcome_confirmed")
        case "late_effect (cancelled)":
            return cancelled().must("outcome_confirmed")
        case "late_effect (undone)":
            return compensated().must("outcome_confirmed", reference="r2")
        case "duplicate_effect":
            return confirmed().must("outcome_confirmed", reference="r2")
        case "contradiction":
            return confirmed().must("outcome_rejected")
        case _:
            return unknown().must("operation_escalated", reason=reason).wait(QUIET_MS)


CHOICES = """
reason                    confirmed rejected not_found unknown cancelled kept compensated compensating acknowledged
no_probe                  conf      rej      nf        unk     canc      -    -           -            -
probes_exhausted          conf      rej      nf        unk     canc      -    -           -            -
deadline                  conf      rej      nf        unk     canc      -    -           -            -
conflict                  conf      rej      nf        unk     canc      -    -           -            -
absent                    conf      rej      nf        unk     canc      -    -           -            -
inverse_failed            -         -        -         -       -         conf ced         cing         -
skipped                   -         -        -         -       -         conf ced         cing         -
irreversible              -         -        -         -       -         conf ced         -            -
skipped (no inverse)      -         -        -         -       -         conf ced         -            -
effect_reverted           -         rej      nf        -       -         conf ced         -            -
effect_reverted (undone)  -         rej      nf        -       -         conf ced         -            -
late_effect (prepared)    -         -        -         -       -         -    -           -            prep
late_effect (rejected)    conf      -        -         -       -         -    -           -            rej
late_effect (cancelled)   -         -        -         -       -         -    -           -            canc
late_effect (undone)      -         -        -         -       -         -    -           -            ced
duplicate_effect          -         -        -         -       -         -    -           -            conf
contradiction             -         -        -         -       -         -    -           -            conf
"""


@pytest.mark.parametrize(("reason", "choice", "cell"), cells(CHOICES))
def test_a_reviewer_chooses_among_the_choices_of_the_reason(reason: str, choice: str, cell: str) -> None:
    history = escalated(reason)
    task, was = history.op().review, history.op().state
    assert task is not None
    said = history.add("review_decided", review_id=task.review_id, choice=choice)
    if cell == "-":
        assert (said.accepted, said.reason) == (False, "choice_not_offered")
        assert (history.op().state, history.op().review) == (was, task)
        return
    assert said.accepted, said.reason
    assert history.op().state is NAMES[cell]
    assert history.op().review is None
    assert history.op().kept is (choice == "kept")


def test_the_choices_cover_every_reason_and_every_choice() -> None:
    rows = {row.split(" ")[0] for row, _, _ in cells(CHOICES)}
    assert rows == {*EscalationReason, *Mark}
    assert {column for _, column, _ in cells(CHOICES)} == set(Choice)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_choice_without_its_task_is_refused_in_every_state(column: str) -> None:
    """A closed task, another task, an older view of the task."""
    history = COLUMNS[column]()
    task = history.op().review
    wrong = (task.review_id if task else 0) + 1
    for choice in Choice:
        said = history.add("review_decided", review_id=wrong, choice=str(choice))
        assert (said.accepted, said.reason) == (False, "review_not_open")


def test_a_reason_added_to_the_task_makes_an_older_choice_another_task() -> None:
    history = confirmed().must("outcome_confirmed", reference="r2").must("effect_reverted")
    said = history.add("review_decided", review_id=1, choice="acknowledged")
    assert said.reason == "review_not_open"
    task = history.op().review
    assert task is not None
    assert (task.review_id, task.reasons) == (2, ("duplicate_effect", "effect_reverted"))


def test_one_decision_answers_the_whole_task_and_a_second_finds_it_closed() -> None:
    history = confirmed().must("outcome_confirmed", reference="r2").must("outcome_rejected")
    history.must("review_decided", review_id=2, choice="acknowledged")
    assert history.op().review is None
    assert history.add("review_decided", review_id=2, choice="acknowledged").reason == "review_not_open"


# ---- an inverse moves its forward operation (§8) ------------------------------------------------------------------------


def inverse_prepared() -> History:
    return confirmed().unwind().prepare("compensate:X", tool="cancel_refund", terms={"retry_rejected": True})


def inverse_unknown() -> History:
    return compensating().expire("compensate:X")


def forward_in(state: str, safe_when: tuple[ForwardOutcome, ...]) -> History:
    terms = {"compensation": (Compensation(tool="cancel_refund", safe_when=safe_when),), "on_absent": OnAbsent.ESCALATE}
    history = History().prepare(terms=terms)
    match state:
        case "prep":
            pass
        case "disp":
            history.grant()
        case "rej":
            history.grant().must("outcome_rejected")
        case "unk":
            history.grant().expire()
        case "rec":
            history.grant().expire().must("probe_recorded")
        case "nf":
            history.grant().expire().absent()
        case "esc-d":
            history.grant().expire().must("operation_escalated")
        case "conf":
            history.grant().must("outcome_confirmed")
        case "canc":
            history.must("operation_cancelled")
        case "kept":
            history.grant().must("outcome_confirmed").must("effect_reverted").must("review_decided", choice="kept")
    return history.unwind().prepare("compensate:X", tool="cancel_refund")


INVERSE_GRANTS = """
safe_when                 prep disp conf kept rej  unk  rec  nf   esc-d canc
succeeded                 -    -    cing -    -    -    -    -    -     -
failed                    -    -    cing -    cing -    -    cing -     -
unknown                   -    -    cing -    -    cing cing -    -     -
succeeded,failed,unknown  -    -    cing -    cing cing cing cing -     -
"""


@pytest.mark.parametrize(("safe_when", "column", "cell"), cells(INVERSE_GRANTS))
def test_the_grant_of_an_inverse_needs_its_forward_operation_as_safe_when_says(safe_when: str, column: str, cell: str) -> None:
    history = forward_in(column, tuple(ForwardOutcome(one) for one in safe_when.split(",")))
    was = history.op().state
    said = history.add("dispatch_granted", "compensate:X")
    if cell == "-":
        assert said.reason == "compensation_unsafe"
        assert history.op().state is was
    else:
        assert said.accepted, said.reason
        assert history.op().state is State.COMPENSATING
        assert history.op("compensate:X").state is State.DISPATCHED


tried = then(inverse_prepared, lambda h: h.grant("compensate:X"))
"""The inverse under a contract that allows two attempts."""
looked_after = then(inverse_unknown, wait(WINDOW_MS), say("probe_recorded", "compensate:X"))
tried_looked_after = then(tried, lambda h: h.expire("compensate:X"), wait(WINDOW_MS), say("probe_recorded", "compensate:X"))
withdrawn_inverse = then(compensating, say("dispatch_released", "compensate:X"))
handed_over = then(inverse_unknown, say("operation_escalated", "compensate:X"))

COUPLED: list[tuple[str, Given, str, State, State]] = [
    # title, given, event of compensate:X, its state after, state of X after
    ("granted", inverse_prepared, "dispatch_granted", State.DISPATCHED, State.COMPENSATING),
    ("confirmed", compensating, "outcome_confirmed", State.CONFIRMED, State.COMPENSATED),
    ("confirmed from doubt", inverse_unknown, "outcome_confirmed", State.CONFIRMED, State.COMPENSATED),
    ("doubt stays with the inverse", compensating, "outcome_unknown", State.UNKNOWN, State.COMPENSATING),
    ("released", compensating, "dispatch_released", State.PREPARED, State.COMPENSATING),
    ("rejected with no attempt left", compensating, "outcome_rejected", State.REJECTED, State.ESCALATED),
    ("rejected with an attempt left", tried, "outcome_rejected", State.REJECTED, State.COMPENSATING),
    ("absent with no attempt left", looked_after, "absence_established", State.NOT_FOUND, State.ESCALATED),
    ("absent with an attempt left", tried_looked_after, "absence_established", State.NOT_FOUND, State.COMPENSATING),
    ("escalated for doubt", inverse_unknown, "operation_escalated", State.ESCALATED, State.ESCALATED),
    ("withdrawn while X is compensating", withdrawn_inverse, "operation_cancelled", State.CANCELLED, State.ESCALATED),
    ("confirmed after X was handed over", handed_over, "outcome_confirmed", State.CONFIRMED, State.COMPENSATED),
]


@pytest.mark.parametrize(("title", "given", "name", "inverse", "forward"), COUPLED, ids=[row[0] for row in COUPLED])
def test_the_events_of_an_inverse_move_its_forward_operation_in_the_same_step(
    title: str, given: Given, name: str, inverse: State, forward: State
) -> None:
    history = given()
    version = history.op().version
    said = history.add(name, "compensate:X")
    assert said.accepted, said.reason
    assert (history.op("compensate:X").state, history.op().state) == (inverse, forward)
    assert history.op().version == version, "events of the inverse are not events of X"
    if forward is State.ESCALATED:
        assert history.op().escalated_for is EscalationReason.INVERSE_FAILED
        assert history.op().review is not None
        assert history.op("compensate:X").review is None, "one problem, one task, held by X"
    if forward is State.COMPENSATED:
        assert history.op().review is None
        assert history.op().escalated_for is None


def test_an_inverse_runs_only_in_an_unwinding_group() -> None:
    history = confirmed().prepare("compensate:X", tool="cancel_refund")
    assert history.add("dispatch_granted", "compensate:X").reason == "group_not_unwinding"


def test_an_intent_of_an_inverse_is_taken_in_any_group() -> None:
    for events in ((), ("group_closed",), ("group_unwinding",)):
        history = in_group(confirmed, *events)().prepare("compensate:X", tool="cancel_refund")
        assert history.op("compensate:X").state is State.PREPARED


def test_the_choice_compensating_gives_the_inverse_one_attempt_more() -> None:
    history = inverse_failed().wait(QUIET_MS).must("review_decided", choice="compensating")
    assert (history.op().state, history.op("compensate:X").state) == (State.COMPENSATING, State.NOT_FOUND)
    history.grant("compensate:X").must("outcome_rejected", "compensate:X", attempt=2, claim_id="k2")
    assert history.op().state is State.ESCALATED


def test_the_choice_compensating_waits_until_the_inverse_is_proven_not_to_have_happened() -> None:
    history = inverse_unknown().must("operation_escalated", "compensate:X").wait(QUIET_MS)
    said = history.add("review_decided", choice="compensating")
    assert (said.accepted, said.reason) == (False, "inverse_not_proven_absent")


# ---- groups (§8) --------------------------------------------------------------------------------------------------------

GROUP_MOVES = """
event                     none     open      closed    unwinding needs_human unwound
group_opened              open     =         =         =         =           =
group_closed              -        closed    -         -         -           -
unwind_requested          =        =         =         =         =           =
group_unwinding           -        unwinding unwinding -         -           -
operation_prepared        open     =         -         -         -           -
"""
GROUPS: dict[str, Given] = {
    "none": none,
    "open": in_group(none, "group_opened"),
    "closed": in_group(none, "group_opened", "group_closed"),
    "unwinding": then(lambda: History().prepare("Y").grant("Y"), lambda h: h.unwind()),
    "needs_human": then(
        lambda: History().prepare("Y").grant("Y").must("outcome_confirmed", "Y"),
        lambda h: h.unwind().must("operation_escalated", "Y", reason="irreversible"),
    ),
    "unwound": then(lambda: History().prepare("Y").must("operation_cancelled", "Y"), lambda h: h.unwind()),
}


@pytest.mark.parametrize(("name", "column", "cell"), cells(GROUP_MOVES))
def test_a_group_moves_as_the_norm_says(name: str, column: str, cell: str) -> None:
    history = GROUPS[column]()
    assert history.route.group_state == column
    said = history.add(name)
    assert said.accepted is (cell != "-")
    if cell not in ("-", "="):
        # With nothing to undo a group is unwound at once.
        expected = "unwound" if cell == "unwinding" else cell
        assert history.route.group_state == expected
    else:
        assert history.route.group_state == column


UNWINDING: list[tuple[str, Given, GroupState]] = [
    ("anything in doubt", dispatched, GroupState.UNWINDING),
    ("an operation that is prepared", prepared, GroupState.UNWINDING),
    ("an inverse that is due", confirmed, GroupState.UNWINDING),
    ("nothing happened", rejected, GroupState.UNWOUND),
    ("absence", not_found, GroupState.UNWOUND),
    ("withdrawn", cancelled, GroupState.UNWOUND),
    ("doubt with a person", doubtful, GroupState.NEEDS_HUMAN),
    ("a mark on an operation that did nothing", then(rejected, say("outcome_confirmed")), GroupState.NEEDS_HUMAN),
]


@pytest.mark.parametrize(("title", "given", "expected"), UNWINDING, ids=[row[0] for row in UNWINDING])
def test_the_state_of_an_unwinding_group_is_a_function_of_its_operations(title: str, given: Given, expected: GroupState) -> None:
    assert given().unwind().route.group_state is expected


def test_a_group_follows_its_operations_to_the_end_and_back() -> None:
    history, seen = confirmed().unwind(), []

    def look() -> None:
        seen.append(str(history.route.group_state))

    look()
    history.prepare("compensate:X", tool="cancel_refund", terms={"max_attempts": 1}).grant("compensate:X")
    look()
    history.must("outcome_confirmed", "compensate:X", reference="u1")
    look()
    history.must("effect_reverted")
    look()
    history.must("review_decided", choice="compensated")
    look()
    assert seen == ["unwinding", "unwinding", "unwound", "needs_human", "unwound"]


# ---- erased and retired (§2) --------------------------------------------------------------------------------------------

FINAL = """
event                     prep disp conf rej  unk  rec  nf   esc-d esc-i canc cing ced
dispatch_requested        =    =    =    =    =    =    =    =     =     =    =    =
refused k9                =    =    =    =    =    =    =    =     =     =    =    =
confirmed r1              =L   =L   =L   =L   =L   =L   =L   =L    =L    =L   =L   =L
prepared                  !    !    !    !    !    !    !    !     !     !    !    !
granted k9                !    !    !    !    !    !    !    !     !     !    !    !
released k1               !    !    !    !    !    !    !    !     !     !    !    !
renewed k1                !    !    !    !    !    !    !    !     !     !    !    !
expired k1                !    !    !    !    !    !    !    !     !     !    !    !
unknown k1 new reference  !    !    !    !    !    !    !    !     !     !    !    !
rejected k1               !    !    !    !    !    !    !    !     !     !    !    !
probed 1                  !    !    !    !    !    !    !    !     !     !    !    !
absence 1                 !    !    !    !    !    !    !    !     !     !    !    !
escalated no_probe        !    !    !    !    !    !    !    !     !     !    !    !
effect_reverted           !    !    !    !    !    !    !    !     !     !    !    !
operation_cancelled       !    !    !    !    !    !    !    !     !     !    !    !
erased                    !    !    !    !    !    !    !    !     !     !    !    !
retired                   !    !    !    !    !    !    !    !     !     !    !    !
"""
"""`!`: refused as final."""


@pytest.mark.parametrize(("row", "column", "cell"), cells(FINAL))
def test_nothing_moves_an_erased_operation_and_evidence_marks_it(row: str, column: str, cell: str) -> None:
    def given() -> History:
        history = COLUMNS[column]()
        return history.must("operation_erased", final_state=str(history.op().state)).wait(10 * QUIET_MS)

    before, history = given(), given()
    name, body = SAYINGS.get(row, (row, {}))
    said = history.add(name, **body)
    if cell == "!":
        assert (said.accepted, said.reason) == (False, "final")
        assert history.op().state is before.op().state
    else:
        check(history, said, before, cell)


def test_an_open_task_keeps_an_operation_from_retirement() -> None:
    history = confirmed().must("outcome_confirmed", reference="r2")
    assert history.add("operation_retired").reason == "review_open"
    history.must("review_decided", choice="acknowledged").must("operation_retired")
    assert history.op().final


# ---- redelivery (§2) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", COLUMNS)
def test_the_same_event_again_changes_nothing_and_other_content_under_its_id_is_refused(column: str) -> None:
    history = COLUMNS[column]()
    before = digest_of(history.route)
    for one in list(history.log):
        assert history.take(one).repeated
        assert digest_of(history.route) == before
        if one.event.operation_id is not None:
            forged = history.add("agent_statement", one.event.operation_id, event_id=one.event.event_id, claimed_state="done")
            assert (forged.accepted, forged.reason) == (False, "event_id_with_other_content")
            assert digest_of(history.route) == before
