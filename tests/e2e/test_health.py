"""`landed doctor` looks at the ledger: each thing that can be wrong is named, with what to do."""

import re
import time

import pytest
from msgspec.structs import replace

from landed import Ledger, effect
from landed.adapters.embedded import Level
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect
from landed.core.events import Heartbeat
from landed.wire.ids import with_event_id
from landed.wire.mac import KeyRing
from landed_services.queries import health
from landed_services.queries.health import ledger_findings

from .conftest import World


def by_check(world: World) -> dict[str, tuple[Level, str, str]]:
    return {one.check: (one.level, one.what, one.advice) for one in ledger_findings(world.log, world.view)}


@effect(tool="things.make", effect="thing.make", reference_field="id")
def make(name: str) -> dict[str, str]:
    return {"id": name}


def test_a_ledger_that_works_has_no_problem(world: World) -> None:
    world.projector()
    ledger: Ledger = world.ledger()
    ledger.perform(make, operation_id="op-1", name="a")
    deadline = time.monotonic() + 60
    while (found := by_check(world))["positions"][1][:2] != "0 " and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {check for check, (level, _, _) in found.items() if level is not Level.OK} == set(), found
    assert {"topic", "records", "writer keys", "tables", "clock", "positions", "outbox", "refused records", "in doubt"} <= set(
        found
    )


def test_a_log_that_nobody_folds_is_a_problem_with_its_remedy(world: World) -> None:
    level, what, advice = by_check(world)["positions"]
    assert (level, what) == (Level.PROBLEM, "no partition was ever folded")
    assert "landed projector" in advice


def test_records_under_an_unknown_key_are_a_problem(world: World) -> None:
    stranger = KeyRing({"other": b"the secret of somebody else entirely"}, signing="other")
    log = KafkaEventLog(replace(world.log, ring=stranger))
    log.append_to_partition(with_event_id(Heartbeat(event_id="", tenant_id="", route="", actor="x")), 0).result(timeout=10)
    log.close()
    level, what, advice = by_check(world)["records"]
    assert level is Level.PROBLEM
    assert "mac_unknown_key" in what
    assert "LANDED_TRUSTED_KEYS" in advice


def test_without_keys_it_says_that_anybody_can_append(world: World) -> None:
    log = KafkaEventLog(world.log)
    log.append_to_partition(with_event_id(Heartbeat(event_id="", tenant_id="", route="", actor="x")), 0).result(timeout=10)
    log.close()
    found = {one.check: one for one in ledger_findings(replace(world.log, ring=KeyRing()), world.view)}
    assert found["writer keys"].level is Level.NOTE


def test_tables_of_another_release_are_a_problem(world: World) -> None:
    with connect(world.view) as connection:
        connection.execute("DELETE FROM _yoyo_migration")
    level, what, advice = by_check(world)["tables"]
    assert level is Level.PROBLEM
    assert "landed migrate" in what + advice


def test_tables_that_are_ahead_of_the_log_are_a_problem(world: World) -> None:
    world.projector().end()
    with connect(world.view) as connection:
        connection.execute("UPDATE positions SET next_offset = 1000 WHERE partition = 1")
    level, what, advice = by_check(world)["positions"]
    assert level is Level.PROBLEM
    assert "partition 1" in what
    assert "operations.md" in advice


def test_a_partition_that_does_not_move_is_named_with_its_offset_and_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STANDS_MS", 300)
    monkeypatch.setattr(health, "LOOK_AGAIN_S", 0.1)
    world.projector().end()
    assert by_check(world)["positions"][0] is Level.OK
    log = KafkaEventLog(world.log)
    for _ in range(2):
        log.append_to_partition(with_event_id(Heartbeat(event_id="", tenant_id="", route="", actor="x")), 2).result(timeout=10)
    log.close()
    time.sleep(0.4)
    level, what, advice = by_check(world)["positions"]
    assert level is Level.PROBLEM
    assert re.fullmatch(r"partition 2 stands at offset 0 for \d+ s though 2 records wait", what)
    assert "landed projector" in advice
    assert "operations.md, 'A partition that stands still'" in advice


def test_a_topic_of_verdicts_that_keeps_none_is_a_problem(world: World) -> None:
    missing = replace(world.log, replies_topic="nowhere")
    found = {one.check: one for one in ledger_findings(missing, world.view)}
    assert found["replies topic"].level is Level.PROBLEM
    assert "'nowhere' does not exist" in found["replies topic"].what


def test_a_broker_and_a_database_that_do_not_answer_are_named_and_do_not_hide_each_other(world: World) -> None:
    found = ledger_findings(
        replace(world.log, bootstrap="127.0.0.1:1"), replace(world.view, url="postgresql://127.0.0.1:1/x", connect_timeout_s=1)
    )
    assert {one.check for one in found if one.level is Level.PROBLEM} == {"topic", "database"}
    assert "127.0.0.1:1" in " ".join(one.what for one in found)
