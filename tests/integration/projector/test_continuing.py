"""A projector that ends, is killed or is replaced: nothing is lost, nothing is decided twice, and a wrong log stops it."""

import signal
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaEventLog, KafkaSettings, ReplySender, TopicUnfit, check_topic, ensure_topics
from landed.adapters.postgres import PostgresSettings, SchemaOutdated
from landed.core import events as ev
from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal
from landed.ports.log import Appended, AppendFailed
from landed.wire.ids import with_event_id
from landed.wire.partition import partition_for
from landed_services.projector.errors import LogReplaced
from landed_services.projector.owned import TOGETHER_S, Owned
from landed_services.projector.store import Store
from landed_services.projector.verifying import verify

from .conftest import Running, running
from .driving import TENANT, Driver, entries
from .looking import rows, wait_for_end, wait_until
from .processes import projector_process


def decisions(settings: KafkaSettings) -> list[ev.DispatchGranted | ev.DispatchRefused]:
    return [one.event for one in entries(settings) if isinstance(one.event, ev.DispatchGranted | ev.DispatchRefused)]


def test_what_the_log_has_decided_already_is_not_decided_again(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """While catching up nothing is decided: the decision may stand further on in the log."""
    claim = driver.claim_of()
    driver.append(driver.prepared("op-1", claim))
    for number in range(300):
        driver.log.append(driver.prepared(f"filler-{number}", None, group_id="op-1"))
    driver.append(
        with_event_id(
            ev.DispatchRefused(
                event_id="",
                tenant_id=TENANT,
                route="op-1",
                operation_id="op-1",
                actor="projector",
                claim_id=claim.claim_id,
                reason=Refusal.LEDGER_UNAVAILABLE,
            )
        )
    )
    with running(log_settings, database):
        wait_for_end(log_settings, database)
    assert [(one.claim_id, type(one)) for one in decisions(log_settings)] == [(claim.claim_id, ev.DispatchRefused)]
    assert rows(database, "SELECT count(*) FROM decisions") == [(0,)]


def test_a_claim_that_waited_for_a_projector_is_decided_when_it_has_caught_up(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    claim = driver.claim_of()
    answer = driver.ask(driver.prepared("op-1", claim), claim)
    with running(log_settings, database):
        assert answer.result(20).granted
        wait_for_end(log_settings, database)
    assert rows(database, "SELECT count(*) FROM undecided") == [(0,)]


def test_a_projector_ended_while_catching_up_leaves_the_claims_to_its_successor(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was folded and not decided is kept with the position."""
    claim = driver.claim_of()
    answer = driver.ask(driver.prepared("op-1", claim), claim)
    # It never believes to have caught up: the end lies out of reach.
    with monkeypatch.context() as patched:
        patched.setattr(Owned, "reached", lambda *_: set())
        with running(log_settings, database, wait=False):
            wait_until(lambda: rows(database, "SELECT count(*) FROM undecided") == [(1,)], "the claim is folded")
    assert decisions(log_settings) == []
    with running(log_settings, database):
        assert answer.result(20).granted
        wait_for_end(log_settings, database)
    assert [one.claim_id for one in decisions(log_settings)] == [claim.claim_id]
    assert rows(database, "SELECT count(*) FROM undecided") == [(0,)]


def test_a_decision_that_was_made_and_not_appended_is_appended_before_anything_is_decided(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outbox and the position are committed together; the append may fail and is repeated, the same event again."""
    append, failed = KafkaEventLog.append, list[ev.Event]()

    def fails_once(self: KafkaEventLog, event: ev.Event) -> Future[Appended]:
        if failed or event.actor != "projector":
            return append(self, event)
        failed.append(event)
        lost: Future[Appended] = Future()
        lost.set_exception(AppendFailed("not acknowledged"))
        return lost

    monkeypatch.setattr(KafkaEventLog, "append", fails_once)
    with running(log_settings, database):
        claim = driver.claim_of()
        verdict = driver.ask(driver.prepared("op-1", claim), claim).result(20)
        wait_for_end(log_settings, database)
    assert verdict.granted
    assert [one.event_id for one in decisions(log_settings)] == [event.event_id for event in failed]


def test_nothing_is_decided_before_the_outbox_of_the_owner_before_is_acknowledged(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log holds decides, and the end up to which nothing is decided must lie behind those decisions."""
    append, write = KafkaEventLog.append, Store.write
    decisions_of: list[str] = []
    held: list[tuple[ev.Event, Future[Appended]]] = []
    decided_while_held: list[bool] = []

    def holds_the_second_time(self: KafkaEventLog, event: ev.Event) -> Future[Appended]:
        if event.actor != "projector" or len(decisions_of) > 1:
            return append(self, event)
        decisions_of.append(event.event_id)
        waits: Future[Appended] = Future()
        if len(decisions_of) == 1:
            waits.set_exception(AppendFailed("not acknowledged"))
        else:
            held.append((event, waits))
        return waits

    def watched(self: Store, view: Any, decided: Sequence[Any], *, large: bool) -> None:
        if held and decided:
            decided_while_held.append(not held[0][1].done())
        write(self, view, decided, large=large)

    monkeypatch.setattr(KafkaEventLog, "append", holds_the_second_time)
    monkeypatch.setattr(Store, "write", watched)
    with running(log_settings, database):
        first, second = driver.claim_of(), driver.claim_of()
        answer = driver.ask(driver.prepared("op-1", first), first)
        wait_until(lambda: bool(held), "the next session appends it again")
        later = driver.ask(driver.prepared("op-2", second), second)
        time.sleep(2 * TOGETHER_S)  # long enough for a session that does not wait to catch up and decide
        event, waits = held[0]
        waits.set_result(driver.log.append(event).result(10))
        assert answer.result(20).granted
        assert later.result(20).granted
        wait_for_end(log_settings, database)
    assert decisions_of[0] == decisions_of[1]
    assert decided_while_held == [False]


def test_a_decision_is_taken_as_answered_only_when_its_verdict_has_reached_the_broker(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process that is killed in between leaves its caller without an answer."""
    flushed, stuck, sent = ReplySender.flush, [1], []
    send = ReplySender.send

    def counting(self: ReplySender, verdicts: Sequence[Verdict]) -> None:
        sent.extend(verdict.claim_id for verdict in verdicts)
        send(self, verdicts)

    def sticks_once(self: ReplySender, timeout_s: float) -> int:
        left = flushed(self, timeout_s)
        return stuck.pop() if sent and stuck else left

    monkeypatch.setattr(ReplySender, "send", counting)
    monkeypatch.setattr(ReplySender, "flush", sticks_once)
    with running(log_settings, database):
        claim = driver.claim_of()
        assert driver.ask(driver.prepared("op-1", claim), claim).result(20).granted
        wait_for_end(log_settings, database)
    assert sent == [claim.claim_id, claim.claim_id]


def test_a_broken_database_connection_is_survived(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        cut = "SELECT count(pg_terminate_backend(backend_pid)) FROM positions WHERE partition = 0"
        assert rows(database, cut) == [(1,)]
        assert driver.perform("op-2").granted
        wait_for_end(log_settings, database)
    assert verify(log_settings, database).equal


def test_every_claim_of_a_load_gets_exactly_one_answer_though_the_projector_is_killed(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """kill -9 in mid-load, three times: nothing lost, nothing decided twice, the view equal to the fold of the log."""
    claims: list[str] = []
    asked: list[Future[Verdict]] = []
    for wave in range(4):
        with projector_process(log_settings, database) as process:
            for number in range(300):
                claim = driver.claim_of(wait_s=90.0)
                claims.append(claim.claim_id)
                asked.append(driver.inbox.expect(claim.claim_id))
                driver.log.append(driver.prepared(f"op-{wave}-{number}", claim))
                if number % 10 == 0:
                    time.sleep(0.01)
            if wave < 3:
                wait_until(lambda: sum(future.done() for future in asked) > len(asked) - 250, "some are answered", seconds=60)
                continue  # and is killed
            verdicts = [future.result(90) for future in asked]
            wait_for_end(log_settings, database)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    assert [verdict.claim_id for verdict in verdicts] == claims
    assert {verdict.reason for verdict in verdicts} <= {None, Refusal.LEDGER_UNAVAILABLE}
    assert sum(verdict.granted for verdict in verdicts) > len(claims) / 2
    # An append that was repeated is the same event.
    assert len({one.event_id for one in decisions(log_settings)}) == len(claims)
    assert verify(log_settings, database).equal


def test_tables_of_another_release_are_named(log_settings: KafkaSettings, fresh_database: str) -> None:
    unmigrated = Running(log_settings, PostgresSettings(url=fresh_database))
    unmigrated.start()
    unmigrated.join()
    assert isinstance(unmigrated.error, SchemaOutdated)
    assert "landed migrate" in str(unmigrated.error)


def test_a_topic_that_was_created_again_stops_the_projector_and_says_how_to_repair(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        driver.perform("op-1")
        wait_for_end(log_settings, database)
    admin = AdminClient({"bootstrap.servers": log_settings.bootstrap})
    admin.delete_topics([log_settings.topic])[log_settings.topic].result(10)
    time.sleep(0.5)
    ensure_topics(log_settings, partitions=3)
    with pytest.raises(LogReplaced, match=r"created again\. Nothing is decided.*landed rebuild"), running(log_settings, database):
        pass


@pytest.mark.parametrize(
    ("tampering", "message"),
    [
        ("next_offset = next_offset + 1000", "truncated or restored"),
        ("last_digest = decode(repeat('00', 32), 'hex')", "another record than the one that was folded"),
        ("leader_epoch = 77", "folded under 77"),
    ],
)
def test_a_partition_on_which_the_log_does_not_continue_is_stopped_and_the_others_go_on(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    driver: Driver,
    caplog: pytest.LogCaptureFixture,
    tampering: str,
    message: str,
) -> None:
    """What is known there is lost to it, so nothing is granted anew; what runs elsewhere is recorded and answered."""
    broken = partition_for(TENANT, "op-1", 3)
    other = next(f"x-{n}" for n in range(100) if partition_for(TENANT, f"x-{n}", 3) != broken)
    with running(log_settings, database):
        driver.perform("op-1")
        claim = driver.claim_of()
        granted = driver.ask(driver.prepared(other, claim), claim).result(20)
        wait_for_end(log_settings, database)
    rows(database, f"UPDATE positions SET {tampering} WHERE partition = %s RETURNING 1", broken)
    stands = rows(database, "SELECT next_offset FROM positions WHERE partition = %s", broken)
    with running(log_settings, database, wait=False):
        driver.append(driver.confirmed(granted))
        settled = "SELECT state FROM operations WHERE operation_id = %s"
        wait_until(lambda: rows(database, settled, other) == [("confirmed",)], "it is recorded")
        again = driver.claim_of()
        assert driver.ask(driver.requested(other, again, seen_version=3), again).result(20).reason is Refusal.ALREADY_CONFIRMED
        new = next(f"y-{n}" for n in range(100) if partition_for(TENANT, f"y-{n}", 3) != broken)
        assert driver.perform(new).reason is Refusal.LEDGER_UNAVAILABLE
    assert [one for one in caplog.messages if message in one and "landed rebuild" in one]
    assert rows(database, "SELECT next_offset FROM positions WHERE partition = %s", broken) == stands


def test_catching_up_ends_where_the_last_offsets_hold_no_record(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """The marker of a transaction takes an offset and is never read; so does what retention removed."""
    partition = partition_for(TENANT, "op-1", 3)
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    foreign = Producer({"bootstrap.servers": log_settings.bootstrap, "transactional.id": log_settings.topic})
    foreign.init_transactions(20)
    foreign.begin_transaction()
    foreign.produce(log_settings.topic, key=b"foreign", value=b"x", partition=partition)
    assert foreign.flush(20) == 0
    foreign.abort_transaction(20)
    with running(log_settings, database):
        assert driver.perform("op-2", group_id="op-1").granted


def test_the_last_record_may_have_been_removed_by_retention(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """Nothing is left to compare with, and nothing was appended since."""
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    # As if cleaned: the record at the position is gone, its offset is taken.
    rows(database, "UPDATE positions SET last_offset = next_offset WHERE next_offset > 0 RETURNING 1")
    with running(log_settings, database):
        assert driver.perform("op-2").granted


def test_a_topic_that_partitions_were_added_to_stops_the_projector(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    """A route would stand on another partition than before, and its past with it."""
    with running(log_settings, database):
        assert driver.perform("op-1").granted
    admin = AdminClient({"bootstrap.servers": log_settings.bootstrap})
    admin.create_partitions([NewPartitions(log_settings.topic, 6)])[log_settings.topic].result(10)
    wait_until(lambda: check_topic(log_settings).partitions == 6, "they are there")
    time.sleep(0.5)
    with pytest.raises(TopicUnfit, match="has 6 partitions, the ledger began with 3"), running(log_settings, database):
        pass


def test_a_topic_whose_settings_were_changed_stops_the_projector_and_says_which(
    log_settings: KafkaSettings, database: PostgresSettings
) -> None:
    admin = AdminClient({"bootstrap.servers": log_settings.bootstrap})
    change = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, log_settings.topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(10)
    wait_until(lambda: bool(check_topic(log_settings).problems), "it is changed")
    with pytest.raises(TopicUnfit, match=r"cleanup\.policy is 'delete', needs 'compact'"), running(log_settings, database):
        pass


def test_a_database_restored_from_an_older_copy_catches_up_and_decides_nothing_anew(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, servers: Servers
) -> None:
    """What the copy does not know stands on the log, decisions included."""
    with running(log_settings, database):
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
    copy = f"restored_{uuid.uuid4().hex}"
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {urlsplit(database.url).path[1:]}")  # type: ignore[call-overload]
    restored = PostgresSettings(url=urlsplit(database.url)._replace(path=f"/{copy}").geturl())
    try:
        claim = driver.claim_of()
        with running(log_settings, database):
            assert driver.ask(driver.prepared("op-2", claim), claim).result(20).granted
            wait_for_end(log_settings, database)
        with running(log_settings, restored):
            other = driver.claim_of()
            refused = driver.ask(driver.requested("op-2", other, seen_version=2), other).result(20)
            wait_for_end(log_settings, restored)
        assert refused.reason is Refusal.IN_FLIGHT
        assert [one.claim_id for one in decisions(log_settings) if one.operation_id == "op-2"].count(claim.claim_id) == 1
        assert verify(log_settings, restored).equal
    finally:
        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {copy} WITH (FORCE)")  # type: ignore[call-overload]
