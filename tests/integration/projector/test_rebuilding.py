"""A rebuild folds shares of the log in several processes and large transactions, and comes to the view that a projector has."""

import logging
import threading
from typing import Any

import pytest

from landed.adapters.kafka import KafkaSettings, LogReader, check_topic
from landed.adapters.postgres import PostgresSettings
from landed_services.progress import Progress
from landed_services.projector import batch, rebuilding
from landed_services.projector.batch import View
from landed_services.projector.errors import TakenOver
from landed_services.projector.rebuilding import drop_the_view, rebuild
from landed_services.projector.refolding import Share, refold

from .conftest import running
from .driving import Driver
from .looking import rows, view, wait_for_end

GROUPS = 4
OPERATIONS = 120
EVENTS = 3 * OPERATIONS


@pytest.fixture
def worked(log_settings: KafkaSettings, database: PostgresSettings, driver: Driver) -> dict[str, list[Any]]:
    """A log in which the events of one operation lie far apart, and what a projector made of it; the tables are empty again."""
    with running(log_settings, database):
        claims = [driver.claim_of() for _ in range(OPERATIONS)]
        asked = [driver.ask(driver.prepared(f"op-{one}", claim, group_id=group(one)), claim) for one, claim in enumerate(claims)]
        for number, verdict in enumerate(one.result(30) for one in asked):
            driver.append(driver.confirmed(verdict, group_id=group(number)))
        wait_for_end(log_settings, database)
    seen = view(database)
    assert len(seen["events"]) == EVENTS
    drop_the_view(database, topic_id=check_topic(log_settings).topic_id)
    return seen


def group(number: int) -> str | None:
    return f"trip-{number % GROUPS}" if number % 2 else None


def share_of(log_settings: KafkaSettings, database: PostgresSettings, *, index: int = 0, of: int = 1) -> Share:
    topic_id = check_topic(log_settings).topic_id
    return Share(log_settings=log_settings, database=database, topic_id=topic_id, index=index, of=of)


def after_each_transaction(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    done = View.next_turn

    def next_turn(self: View) -> None:
        done(self)
        act()

    monkeypatch.setattr(View, "next_turn", next_turn)


def test_several_processes_come_to_the_same_bytes(
    worked: dict[str, list[Any]], log_settings: KafkaSettings, database: PostgresSettings, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "landed.projector"):
        told: list[Progress] = []
        assert rebuild(log_settings, database, processes=2, say=told.append).events == EVENTS
        assert 0 < max(one.done for one in told) <= told[0].total
        assert told[0].total >= EVENTS
    assert caplog.messages == []
    assert view(database) == worked


def test_the_other_processes_say_how_far_they_are(
    worked: dict[str, list[Any]], log_settings: KafkaSettings, database: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "refold", lambda *_, **__: 0)  # the share of this process is left to the projector
    told: list[Progress] = []
    assert rebuild(log_settings, database, processes=2, say=told.append).events == EVENTS
    assert told[-1].done > 0
    assert view(database) == worked


def test_shares_are_all_partitions_each_once_up_to_the_end_of_the_log(
    worked: dict[str, list[Any]], log_settings: KafkaSettings, database: PostgresSettings
) -> None:
    shares = [share_of(log_settings, database, index=index, of=2) for index in range(2)]
    assert sum(refold(share, threading.Event()) for share in shares) == EVENTS
    assert view(database) == worked
    reader = LogReader(log_settings)
    try:
        assert dict(rows(database, "SELECT partition, next_offset FROM positions")) == reader.end_offsets()
    finally:
        reader.close()


@pytest.mark.parametrize(("commit_after", "held"), [(180, 1_000), (180, 10), (7, 1)])
def test_small_transactions_and_a_short_memory_come_to_the_same_bytes(
    worked: dict[str, list[Any]],
    log_settings: KafkaSettings,
    database: PostgresSettings,
    monkeypatch: pytest.MonkeyPatch,
    commit_after: int,
    held: int,
) -> None:
    monkeypatch.setattr(batch, "OPERATIONS_HELD", held)
    committed: list[None] = []
    after_each_transaction(monkeypatch, lambda: committed.append(None))
    refold(share_of(log_settings, database), threading.Event(), commit_after=commit_after)
    assert len(committed) >= EVENTS // commit_after
    assert view(database) == worked


def test_a_projector_goes_on_where_a_rebuild_was_stopped(
    worked: dict[str, list[Any]], log_settings: KafkaSettings, database: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def stop_beside_an_open_claim() -> None:
        folded, undecided = rows(database, "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM undecided)")[0]
        if folded >= 100 and undecided:
            stop.set()

    after_each_transaction(monkeypatch, stop_beside_an_open_claim)
    folded = refold(share_of(log_settings, database), stop, commit_after=1)
    assert 100 <= folded < EVENTS
    assert rows(database, "SELECT count(*) FROM events") == [(folded,)]
    assert rows(database, "SELECT count(*) FROM undecided")[0][0] > 0
    monkeypatch.undo()
    with running(log_settings, database):
        wait_for_end(log_settings, database)
    assert view(database) == worked


@pytest.mark.usefixtures("worked")
def test_who_does_not_own_its_partitions_any_more_writes_nothing(
    log_settings: KafkaSettings, database: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take() -> None:
        rows(database, "UPDATE positions SET owner_epoch = owner_epoch + 1 RETURNING 1")

    after_each_transaction(monkeypatch, take)
    with pytest.raises(TakenOver):
        refold(share_of(log_settings, database), threading.Event(), commit_after=100)
    assert rows(database, "SELECT count(*) FROM events") == [(100,)]
    assert rows(database, "SELECT sum(next_offset) FROM positions") == [(100,)]


@pytest.mark.usefixtures("worked")
def test_a_partition_with_a_decision_on_its_way_is_left_to_the_projector(
    log_settings: KafkaSettings, database: PostgresSettings
) -> None:
    rows(
        database,
        "INSERT INTO decisions (partition, number, tenant_id, route, event_id, type, decided_at_ms, value)"
        " SELECT 1, 1, 'acme', 'op-0', 'e', 'dispatch_granted', 1, value FROM (VALUES (%s::bytea)) AS v (value) RETURNING 1",
        decision_of(log_settings),
    )
    refold(share_of(log_settings, database), threading.Event())
    stands = dict(rows(database, "SELECT partition, next_offset FROM positions"))
    assert [one for one, offset in stands.items() if offset == 0] == [1]


def decision_of(log_settings: KafkaSettings) -> bytes:
    """The bytes of a decision that stands on the log."""
    reader = LogReader(log_settings)
    try:
        reader.assign(dict.fromkeys(range(reader.partitions), 0))
        while True:
            for record in reader.poll(1000, 1.0):
                if dict(record.headers)["landed-type"] == b"dispatch_granted":
                    assert record.value is not None
                    return record.value
    finally:
        reader.close()
