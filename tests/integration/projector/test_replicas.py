"""Several projectors: they share the partitions, take over from each other, and decide about one id one at a time."""

import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, ensure_topics
from landed.adapters.postgres import PostgresSettings, connect
from landed.core import events as ev
from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal
from landed.ports.log import Appended
from landed.wire.partition import partition_for
from landed_services.projector import membership
from landed_services.projector.errors import TakenOver
from landed_services.projector.loop import Projector
from landed_services.projector.membership import Membership
from landed_services.projector.session import Session
from landed_services.projector.store import LookedUp, Position, Store, Wanted
from landed_services.projector.verifying import verify

from .conftest import Running, running
from .driving import TENANT, Driver, entries
from .looking import rows, wait_for_end, wait_until
from .processes import is_running, projector_process

OWNERS = "SELECT owner, count(*) FROM positions GROUP BY owner ORDER BY 2"
TAKEOVER_S = 2.0
SLACK = 10
"""The time of a takeover is for a quiet machine; a busy one may take so many times as long."""


def split(database: PostgresSettings) -> list[int]:
    """How many partitions each owner has; 0 stands for "nobody"."""
    return [0 if owner == "" else count for owner, count in rows(database, OWNERS)]


def decided(settings: KafkaSettings) -> dict[str, set[str]]:
    """Ids of the decisions about each claim that stand on the log: an append that was repeated has the same."""
    found: dict[str, set[str]] = {}
    for entry in entries(settings):
        if isinstance(entry.event, ev.DispatchGranted | ev.DispatchRefused):
            found.setdefault(entry.event.claim_id, set()).add(entry.event.event_id)
    return found


def answered(settings: KafkaSettings) -> Counter[str]:
    """How often each claim was answered, by the topic of replies."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap, "group.id": "counting", "enable.auto.commit": False})
    found: Counter[str] = Counter()
    try:
        partitions = consumer.list_topics(settings.replies_topic, timeout=10).topics[settings.replies_topic].partitions
        for partition in partitions:
            begin, end = consumer.get_watermark_offsets(TopicPartition(settings.replies_topic, partition), timeout=10)
            consumer.assign([TopicPartition(settings.replies_topic, partition, begin)])
            while begin < end:
                message = consumer.poll(5)
                assert message is not None
                assert message.error() is None
                begin = message.offset() + 1
                found.update(one.claim_id for one in msgspec.json.decode(message.value() or b"", type=list[Verdict]))
    finally:
        consumer.close()
    return found


@pytest.fixture
def twelve(log_settings: KafkaSettings) -> KafkaSettings:
    name = uuid.uuid4().hex[:8]
    topics = {"topic": f"p.{name}.operations", "replies_topic": f"p.{name}.replies"}
    settings = msgspec.structs.replace(log_settings, **topics)
    ensure_topics(settings, partitions=12)
    return settings


class Load:
    """Claims of new operations one after the other, from a thread, until the end of the block; how long each verdict took."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._stop = threading.Event()
        self.waits_s: list[float] = []
        self.verdicts: list[Verdict] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            claim, began = self._driver.claim_of(), time.monotonic()
            asked = self._driver.ask(self._driver.prepared(f"load-{len(self.verdicts)}", claim), claim)
            self.verdicts.append(asked.result(30))
            self.waits_s.append(time.monotonic() - began)


def test_two_projectors_share_the_partitions_and_a_rolling_restart_makes_nobody_wait_for_five_seconds(
    twelve: KafkaSettings, database: PostgresSettings
) -> None:
    driver = Driver(twelve)

    def started() -> Running:
        one = Running(twelve, database)
        one.start()
        return one

    def serve(sizes: list[int]) -> None:
        """What a rolling restart waits for before the next step."""
        wait_until(lambda: split(database) == sizes, f"they own {sizes}")
        wait_until(lambda: all(one.stop.is_set() or one.projector.caught_up.is_set() for one in fleet), "all are ready")

    fleet = [started()]
    try:
        serve([12])
        with Load(driver) as load:
            fleet.append(started())
            serve([6, 6])
            for number in range(2):
                fleet[number].stop.set()
                fleet[number].join()
                serve([12])
                fleet.append(started())
                serve([6, 6])
    finally:
        for one in fleet:
            one.stop.set()
            one.join()
        driver.close()
    assert [one.error for one in fleet] == [None] * 4
    assert {verdict.reason for verdict in load.verdicts} == {None}
    assert max(load.waits_s) < 5.0
    assert verify(twelve, database).equal


@pytest.mark.parametrize(
    "failing",
    ["projector.in_transaction:kill", "projector.before_commit:stop", "projector.committed:stop", "projector.appended:stop"],
)
def test_what_a_dead_or_frozen_projector_owned_is_taken_over_and_it_changes_nothing_any_more(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, failing: str
) -> None:
    """Within two seconds; every claim gets one decision and one answer, though the frozen one wakes up afterwards."""
    claims, asked = list[str](), list[Future[Verdict]]()

    def ask() -> None:
        claim = driver.claim_of()
        asked.append(driver.ask(driver.prepared(f"op-{len(claims)}", claim), claim))
        claims.append(claim.claim_id)

    with running(log_settings, database), projector_process(log_settings, database, failing=failing) as failed:
        wait_until(lambda: split(database) == [1, 2] or not is_running(failed), "they share")
        while is_running(failed):
            ask()
            time.sleep(0.01)
        began = time.monotonic()
        wait_until(lambda: split(database) == [3], "the other one owns all")
        took_s = time.monotonic() - began
        for _ in range(6):
            ask()
        verdicts = [one.result(20) for one in asked]
        if failing.endswith("stop"):
            failed.send_signal(signal.SIGCONT)
            wait_until(lambda: split(database) == [1, 2], "the one that woke up has a share again")
            ask()
            verdicts.append(asked[-1].result(20))
            failed.send_signal(signal.SIGTERM)
            assert failed.wait(20) == 0
        wait_for_end(log_settings, database)
    assert took_s < TAKEOVER_S * SLACK
    assert [(one.claim_id, one.granted) for one in verdicts] == [(claim, True) for claim in claims]
    assert {claim: len(events) for claim, events in decided(log_settings).items()} == dict.fromkeys(claims, 1)
    assert answered(log_settings) == Counter(claims)
    assert verify(log_settings, database).equal


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_of_two_claims_of_one_id_under_routes_of_two_projectors_one_is_granted(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """Their transactions overlap: without a lock on the id neither sees the other. Whoever comes *late* has the older intent."""
    write, advance = Store.write, Store.advance

    def slowly(self: Store, view: Any, decisions: Sequence[Any], *, large: bool) -> None:
        write(self, view, decisions, large=large)
        if decisions:
            time.sleep(0.6)

    def lately(self: Store, moves: Sequence[tuple[Position, Position]], wanted: Wanted) -> LookedUp:
        if wanted.operation_ids and older in [was.partition for was, _ in moves]:
            time.sleep(late)
        return advance(self, moves, wanted)

    monkeypatch.setattr(Store, "write", slowly)
    monkeypatch.setattr(Store, "advance", lately)
    with running(log_settings, database), running(log_settings, database, wait=False):
        wait_until(lambda: split(database) == [1, 2], "they share")
        wait_until(lambda: rows(database, "SELECT bool_and(caught_up) FROM positions") == [(True,)], "both have caught up")
        time.sleep(0.5)
        owners = dict(rows(database, "SELECT partition, owner FROM positions"))
        older = min(owners, key=lambda one: list(owners.values()).count(owners[one]))
        newer = next(one for one in owners if owners[one] != owners[older])
        asked = []
        for partition in (older, newer):
            group = next(f"g-{n}" for n in range(100) if partition_for(TENANT, f"g-{n}", 3) == partition)
            claim = driver.claim_of(wait_s=60.0)
            asked.append(driver.ask(driver.prepared("op-1", claim, group_id=group), claim))
        verdicts = [one.result(30) for one in asked]
        wait_for_end(log_settings, database)
    assert sorted([one.reason for one in verdicts], key=str) == [None, Refusal.ROUTE_MISMATCH]
    if late:
        assert verdicts[1].granted


def test_a_new_operation_is_not_granted_while_the_partition_of_another_projector_has_not_caught_up(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id may be dispatched there: what is not folded yet is not in the tables."""
    monkeypatch.setattr(Store, "mark_caught_up", lambda *_: None)
    with running(log_settings, database, wait=False), running(log_settings, database, wait=False):
        wait_until(lambda: split(database) == [1, 2], "they share")
        assert driver.perform("op-1").reason is Refusal.LEDGER_UNAVAILABLE


def test_a_projector_that_was_silent_for_too_long_answers_nobody_before_the_database_confirms_its_positions(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions were taken while its decision was on its way: the answer comes from whoever owns them then, once."""
    append, taken = KafkaEventLog.append, list[ev.Event]()

    def loses_its_partitions(self: KafkaEventLog, event: ev.Event) -> Future[Appended]:
        if event.actor == "projector" and not taken:
            taken.append(event)
            rows(database, "UPDATE positions SET owner_epoch = owner_epoch + 1 RETURNING 1")
        return append(self, event)

    monkeypatch.setattr(KafkaEventLog, "append", loses_its_partitions)
    monkeypatch.setattr(Membership, "is_known", property(lambda _: False))
    monkeypatch.setattr(Session, "has_its_share", lambda _: True)  # only the transaction tells
    with running(log_settings, database):
        claim = driver.claim_of()
        assert driver.ask(driver.prepared("op-1", claim), claim).result(20).granted
        wait_for_end(log_settings, database)
    assert answered(log_settings) == Counter([claim.claim_id])


@pytest.fixture
def owned(database: PostgresSettings) -> Iterator[tuple[Store, Position]]:
    """A session that owns a partition, and where it stands."""
    store = Store(database)
    taken = store.take_over([0], topic_id="t", owner="first")[0]
    stands = msgspec.structs.replace(taken, next_offset=5, last_offset=4, last_digest=b"d", leader_epoch=2)
    with store.transaction(large=False):
        store.advance([(taken, stands)], Wanted(routes=[]))
    yield store, stands
    store.close()


def test_a_session_that_owns_its_partition_commits(owned: tuple[Store, Position]) -> None:
    store, stands = owned
    with store.transaction(large=False):
        store.advance([(stands, msgspec.structs.replace(stands, next_offset=6, last_offset=5))], Wanted(routes=[]))


@pytest.mark.parametrize(
    "changes",
    ["owner_epoch = owner_epoch + 1", "next_offset = 6", "last_digest = 'x'", "last_digest = NULL", "leader_epoch = 3"],
)
def test_a_session_commits_nothing_on_a_position_that_is_not_as_it_left_it(
    database: PostgresSettings, owned: tuple[Store, Position], changes: str
) -> None:
    store, stands = owned
    rows(database, f"UPDATE positions SET {changes} RETURNING 1")
    kept = rows(database, "SELECT * FROM positions")
    with pytest.raises(TakenOver), store.transaction(large=False):
        store.advance([(stands, msgspec.structs.replace(stands, next_offset=9))], Wanted(routes=[]))
    assert rows(database, "SELECT * FROM positions") == kept


def test_a_partition_whose_owner_is_there_is_left_to_it(database: PostgresSettings, owned: tuple[Store, Position]) -> None:
    other = Store(database)
    try:
        assert other.take_over([0], topic_id="t", owner="second", others=["first"]) == {}
        assert other.take_over([0], topic_id="t", owner="second")[0].owner_epoch == owned[1].owner_epoch + 1
    finally:
        other.close()


def test_a_projector_whose_partitions_are_reset_notices_without_traffic(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database) as one:
        assert driver.perform("op-1").granted
        wait_for_end(log_settings, database)
        rows(database, "UPDATE positions SET owner_epoch = owner_epoch + 1, owner = '', caught_up = false RETURNING 1")
        wait_until(lambda: split(database) == [3] and one.projector.caught_up.is_set(), "it owns them again")
        assert driver.perform("op-2").granted
    assert isinstance(one.projector, Projector)
    assert one.error is None


@pytest.mark.parametrize(("reused", "there"), [(None, False), ("now() - interval '1 hour'", False), ("backend_start", True)])
def test_a_projector_is_there_only_as_long_as_its_session_however_lately_it_beat(
    database: PostgresSettings, reused: str | None, there: bool
) -> None:
    """One that is killed loses its session at once, and the process number of a session may come again."""
    beat = "INSERT INTO projectors SELECT 'other', pid, {}, (extract(epoch FROM now()) * 1000)::bigint + 60000"
    with connect(database) as session:
        pid = session.info.backend_pid
        rows(database, f"{beat.format(reused or 'backend_start')} FROM pg_stat_activity WHERE pid = %s RETURNING 1", pid)
        if reused is None:
            session.close()
            wait_until(lambda: not rows(database, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid), "its session is over")
        with Membership(database, "one") as one:
            assert set(one.seen.live) == ({one.name, "other"} if there else {one.name})


def test_a_projector_whose_loop_stands_still_says_no_more_that_it_is_there(
    database: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session lives and its thread beats, but nobody decides: the others take over until it turns again."""
    monkeypatch.setattr(membership, "BEAT_S", 0.05)
    monkeypatch.setattr(membership, "STUCK_AFTER_S", 1.0)
    with Membership(database, "still") as still, Membership(database, "turning") as turning:

        def sees_it() -> bool:
            turning.turned()
            return still.name in turning.seen.live

        wait_until(sees_it, "it is there")
        wait_until(lambda: not sees_it(), "it stands still, so it is not there", seconds=10)

        def turns_again() -> bool:
            still.turned()
            return sees_it()

        wait_until(turns_again, "it turns again", seconds=10)
