"""Folding a batch: the rows that come out do not depend on where batches begin, and no record stops the others."""

import pytest

from landed.adapters.postgres.bodies import operation_body, operation_of, route_body, route_of_body
from landed.adapters.postgres.escaping import MARK, escaped, unescaped
from landed.adapters.postgres.rows import OPERATION_COLUMNS, ROUTE_COLUMNS
from landed.core import events as ev
from landed.core.vocabulary import State
from landed.wire.keys import RecordKey, build_key
from landed_services.projector.reading import Freezing, Refused, Skipped

from .support import Log, about, claim, prepared


def history(log: Log) -> None:
    """Claims, outcomes, refusals, a group that closes, a frozen operation, garbage."""
    first = log.append(prepared("op-1", claim("c1"), route="trip-1"))
    log.append(ev.GroupOpened(**about(None, "trip-1"), workflow_type="trip"))
    log.append(
        ev.DispatchGranted(
            **about("op-1", "trip-1"),
            claim_id="c1",
            attempt=1,
            lease_ms=30_000,
            claim_position=ev.Position(partition=0, offset=first.record.offset),
        )
    )
    log.append(ev.OutcomeConfirmed(**about("op-1", "trip-1"), attempt=1, claim_id="c1", source="worker", reference="re_1"))
    log.append(ev.GroupClosed(**about(None, "trip-1"), by="ann"))
    log.append(prepared("op-2", claim("c2"), route="trip-1"))  # refused: the group is closed
    log.append(prepared("op-3", claim("c3")))
    log.append(prepared("op-3", claim("c4"), request_hash="other"))  # refused: another request
    log.append_record(
        key=build_key(RecordKey(tenant_id="acme", route="op-3", operation_id="op-3", event_id="e", nonce="n")),
        value=b"\x01garbage",
    )
    log.append_record(key=b"garbage", value=b"x")


def rows_of(log: Log, size: int) -> dict[str, object]:
    """What the tables hold after folding the log in batches of *size*."""
    fresh, tables = Log(), {}
    found: dict[str, dict[object, object]] = {"operations": {}, "routes": {}, "events": {}, "refused": {}}
    for start in range(0, len(log.items), size):
        fresh.fold(*log.items[start : start + size])
        found["operations"] |= {row[:3]: row for row in fresh.view.operation_rows()}
        found["routes"] |= {row[:2]: row for row in fresh.view.route_rows()}
        found["events"] |= {row[:2]: row for row in fresh.view.changes.events}
        found["refused"] |= {row[:2]: row for row in fresh.view.changes.refused}
        fresh.view.next_turn()
    tables.update(found)
    return tables


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_rows_do_not_depend_on_where_batches_begin(size: int) -> None:
    log = Log()
    history(log)
    assert rows_of(log, size) == rows_of(log, 100)


def test_a_row_says_what_the_state_says() -> None:
    log = Log()
    history(log)
    log.fold(*log.items)
    rows = {row[2]: dict(zip(OPERATION_COLUMNS, row, strict=True)) for row in log.view.operation_rows()}
    first = rows["op-1"]
    assert (first["state"], first["outcome"], first["group_id"], first["reference"]) == (
        "confirmed",
        "succeeded",
        "trip-1",
        "re_1",
    )
    assert (first["first_offset"], first["last_offset"], first["due_at_ms"]) == (0, 3, None)
    assert operation_of(first["body"]) == log.view.routes["acme", "trip-1"].route.operation("op-1")
    assert (rows["op-3"]["group_id"], rows["op-3"]["frozen"]) == (None, True)
    assert rows["op-2"]["state"] == "none"


def test_only_a_route_with_events_of_its_own_has_a_row() -> None:
    log = Log()
    history(log)
    log.fold(*log.items)
    rows = [dict(zip(ROUTE_COLUMNS, row, strict=True)) for row in log.view.route_rows()]
    assert [(row["route"], row["group_state"], row["workflow_type"]) for row in rows] == [("trip-1", "closed", "trip")]
    stored = log.view.routes["acme", "trip-1"].route
    assert route_of_body(route_body(stored)).group_state is stored.group_state
    assert route_of_body(route_body(stored)).operations == {}


def test_every_readable_record_has_an_event_row_with_its_fate() -> None:
    log = Log()
    history(log)
    log.fold(*log.items)
    fates = {row[1]: (row[6], row[8], row[9]) for row in log.view.changes.events}
    assert fates[3] == ("outcome_confirmed", True, None)
    assert fates[5] == ("operation_prepared", False, "group_closed")
    assert fates[7] == ("operation_prepared", False, "request_mismatch")
    assert fates[8][1:] == (False, "not_framed")
    assert 9 not in fates
    assert [(row[1], row[2], row[8]) for row in log.view.changes.refused] == [
        (8, "not_framed", True),
        (9, "key_malformed", False),
    ]


def test_an_event_seen_twice_is_marked_as_repeated() -> None:
    log = Log()
    event = prepared("op-1")
    log.fold(log.append(event), log.append(event))
    assert [(row[8], row[9]) for row in log.view.changes.events] == [(True, None), (False, "repeated")]


def test_a_record_that_names_no_operation_freezes_all_of_its_route() -> None:
    log = Log()
    log.fold(log.append(prepared("op-1", route="trip-1")), log.append(prepared("op-2", route="trip-1")))
    key = build_key(RecordKey(tenant_id="acme", route="trip-1", operation_id=None, event_id="e", nonce="n"))
    log.fold(log.append_record(key=key, value=b"\xc3\x01" + b"\x07" * 8))
    operations = log.view.routes["acme", "trip-1"].route.operations.values()
    assert all(operation.frozen_at for operation in operations)


@pytest.mark.parametrize(
    "operation_id", ["x" * 181, "policy:x", "compensate:", "compensate:policy:x", "compensate:compensate:x", "a\x07b"]
)
def test_an_id_that_breaks_the_rules_is_refused(operation_id: str) -> None:
    what = Log().append(prepared(operation_id, route="trip-1")).what
    assert isinstance(what, Refused)
    assert (what.reason, what.field) == ("invalid_id", "operation_id")


@pytest.mark.parametrize("operation_id", ["x" * 180, "compensate:" + "x" * 180, "compensate:" + "x" * 180 + ":12", "Ω:\u00a0ü"])
def test_an_id_that_keeps_the_rules_is_taken(operation_id: str) -> None:
    assert isinstance(Log().append(prepared(operation_id, route="trip-1")).what, ev.Entry)


def test_a_tombstone_is_neither_an_event_nor_refused() -> None:
    key = build_key(RecordKey(tenant_id="acme", route="op-1", operation_id="op-1", event_id="e", nonce="n"))
    assert isinstance(Log().append_record(key=key, value=None).what, Skipped)


def test_a_fold_that_fails_freezes_one_operation_and_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    from landed_services.projector import batch

    def fails(route: object, entry: ev.Entry) -> object:
        raise RuntimeError("a defect") if entry.event.operation_id == "op-1" else AssertionError

    log, real = Log(), batch.fold
    monkeypatch.setattr(
        batch, "fold", lambda route, entry: fails(route, entry) if entry.event.operation_id == "op-1" else real(route, entry)
    )
    log.fold(log.append(prepared("op-1")), log.append(prepared("op-2")))
    assert log.view.routes["acme", "op-1"].route.operation("op-1").frozen_at
    assert log.view.routes["acme", "op-2"].route.operation("op-2").state is State.PREPARED
    assert [reason for reason, _ in log.view.changes.alarms] == ["fold_failed: RuntimeError"]


def test_routes_that_were_not_touched_for_long_are_forgotten_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from landed_services.projector import batch

    monkeypatch.setattr(batch, "OPERATIONS_HELD", 2)
    log = Log()
    for number in range(4):
        log.fold(log.append(prepared(f"op-{number}")))
        log.view.next_turn()
    assert list(log.view.routes) == [("acme", "op-2"), ("acme", "op-3")]


@pytest.mark.parametrize("text", ["plain", "Ω", "back\\slash", "nul\x00", "\ud800 alone", MARK, MARK + "\x00\\u0000", ""])
def test_escaping_is_reversible_and_leaves_nothing_that_the_database_cannot_hold(text: str) -> None:
    stored = escaped(text)
    assert unescaped(stored) == text
    assert "\x00" not in stored
    stored.encode()


def test_equal_states_give_equal_bytes() -> None:
    log, other = Log(), Log()
    history(log)
    history(other)
    log.fold(*log.items)
    other.fold(*other.items)
    for key, stored in log.view.routes.items():
        for name, operation in stored.route.operations.items():
            assert operation_body(operation) == operation_body(other.view.routes[key].route.operation(name))


def test_what_freezes_is_kept_whole() -> None:
    log = Log()
    key = build_key(RecordKey(tenant_id="acme", route="op-1", operation_id="op-1", event_id="e", nonce="n"))
    item = log.append_record(key=key, value=b"\xc3\x01" + b"\x07" * 5000)
    assert isinstance(item.what, Freezing)
    log.fold(item)
    assert log.view.changes.events[0][-1] == item.record.value
    assert len(log.view.changes.refused[0][7]) == 64
