"""The log on a real broker: what is acknowledged is there, in order, and what is wrong with a topic is said."""

import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from landed.adapters.kafka import (
    KafkaEventLog,
    KafkaSettings,
    KafkaVerdictInbox,
    LogReader,
    LogTruncated,
    LogUnreachable,
    ReplySender,
    TopicUnfit,
    check_replies,
    check_topic,
    ensure_topics,
)
from landed.adapters.kafka.replies import _partition
from landed.core.events import AgentStatement, Entry, Heartbeat
from landed.core.verdict import Verdict
from landed.core.vocabulary import State
from landed.ports.log import NothingAppended
from landed.wire.ids import with_event_id
from landed.wire.mac import KeyRing
from landed.wire.partition import partition_for
from landed.wire.records import read


def statement(number: int, operation_id: str = "op-1") -> AgentStatement:
    return with_event_id(
        AgentStatement(
            event_id="",
            tenant_id="acme",
            route=operation_id,
            operation_id=operation_id,
            actor="agent",
            message_digest=str(number),
            claimed_state="done",
        )
    )


def read_all(settings: KafkaSettings, count: int) -> list[Entry]:
    reader = LogReader(settings)
    reader.assign(reader.beginning_offsets())
    found: list[Entry] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        for record in reader.poll(500, 0.2):
            entry = read(record, ring=settings.ring, partitions=reader.partitions)
            assert isinstance(entry, Entry), entry
            found.append(entry)
    reader.close()
    return found


def poll_for(reader: LogReader, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reader.poll(10, 0.2)


def test_what_is_acknowledged_is_on_the_log_in_the_order_of_the_calls(log: KafkaEventLog, settings: KafkaSettings) -> None:
    events = [statement(number) for number in range(300)]
    acknowledged = log.append_all(events, timeout_s=20)
    entries = read_all(settings, 300)
    assert [entry.event for entry in entries] == events
    assert [(entry.position, entry.at_ms) for entry in entries] == [(one.position, one.at_ms) for one in acknowledged]
    assert {one.position.partition for one in acknowledged} == {partition_for("acme", "op-1", 3)}


def test_an_append_is_acknowledged_at_once_and_not_after_a_linger(log: KafkaEventLog) -> None:
    log.append(statement(0)).result(timeout=10)
    waits = []
    for number in range(1, 51):
        began = time.perf_counter()
        log.append(statement(number)).result(timeout=10)
        waits.append(time.perf_counter() - began)
    p50 = sorted(waits)[25] * 1000
    print(f"append acknowledged: p50 {p50:.2f} ms")
    assert p50 < 20, "librdkafka's default linger alone is 5 ms"


def test_an_event_that_cannot_be_written_is_certainly_not_on_the_log(log: KafkaEventLog) -> None:
    broken = replace(statement(1), claimed_state="\ud800")
    with pytest.raises(NothingAppended, match="claimed_state"):
        log.append(broken).result(timeout=5)


def test_a_closed_log_appends_nothing(settings: KafkaSettings) -> None:
    log = KafkaEventLog(settings)
    log.close()
    with pytest.raises(NothingAppended, match="closed"):
        log.append(statement(1)).result(timeout=5)


def test_a_broker_that_is_not_there_is_reported_in_time_and_by_name() -> None:
    nowhere = KafkaSettings(bootstrap="127.0.0.1:1", ring=KeyRing())
    began = time.monotonic()
    with pytest.raises(LogUnreachable, match=r"127\.0\.0\.1:1"):
        KafkaEventLog(nowhere, connect_timeout_s=1)
    assert time.monotonic() - began < 10


def test_topics_are_created_once_and_a_second_time_changes_nothing(settings: KafkaSettings) -> None:
    first = check_topic(settings)
    assert ensure_topics(settings, partitions=3) == first
    assert first.partitions == 3
    assert first.problems == ()


def test_a_topic_with_other_settings_is_unfit_and_each_setting_is_named(settings: KafkaSettings) -> None:
    other = replace(settings, topic=settings.topic + ".other")
    admin = AdminClient({"bootstrap.servers": settings.bootstrap, "logger": None} | {"log_level": 0})
    config = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
    for future in admin.create_topics([NewTopic(other.topic, 3, 1, config=config)]).values():
        future.result(timeout=10)
    with pytest.raises(TopicUnfit, match=r"cleanup\.policy is 'delete', needs 'compact'.*message\.timestamp\.type"):
        ensure_topics(other)


def test_a_topic_of_verdicts_with_unfit_settings_is_told_and_one_that_keeps_longer_is_not(settings: KafkaSettings) -> None:
    def with_settings(**config: str) -> tuple[str, ...]:
        name = f"replies-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": settings.bootstrap})
        made = NewTopic(name, 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
        admin.create_topics([made], operation_timeout=10)[name].result(timeout=10)
        deadline = time.monotonic() + 30
        while True:
            try:
                return check_replies(replace(settings, replies_topic=name)).problems
            except TopicUnfit:  # created, and not yet known to the broker that is asked
                assert time.monotonic() < deadline
                time.sleep(0.1)

    assert with_settings(cleanup_policy="delete", retention_ms="7200000") == ()
    assert "cleanup.policy is 'compact'" in with_settings(cleanup_policy="compact")[0]
    assert "retention.ms is '1000'" in with_settings(retention_ms="1000")[0]
    with pytest.raises(TopicUnfit, match="'nowhere' does not exist"):
        check_replies(replace(settings, replies_topic="nowhere"))


def test_a_missing_topic_is_unfit(settings: KafkaSettings) -> None:
    with pytest.raises(TopicUnfit, match="does not exist"):
        check_topic(replace(settings, topic="not.there"))


def test_an_offset_that_the_log_does_not_hold_stops_the_reader(log: KafkaEventLog, settings: KafkaSettings) -> None:
    place = log.append(statement(1)).result(timeout=10).position
    reader = LogReader(settings)
    reader.assign({place.partition: place.offset + 1000})
    with pytest.raises(LogTruncated, match=rf"partition {place.partition}"):
        poll_for(reader, 20)
    reader.close()


def test_a_setting_that_the_guarantees_stand_on_cannot_be_changed(settings: KafkaSettings) -> None:
    with pytest.raises(ValueError, match="acks"):
        KafkaEventLog(replace(settings, extra={"acks": "1"}))


def test_an_event_of_the_topic_itself_goes_to_the_partition_that_is_named(log: KafkaEventLog, settings: KafkaSettings) -> None:
    beat = with_event_id(Heartbeat(event_id="", tenant_id="", route="", actor="projector"))
    assert log.append_to_partition(beat, 2).result(timeout=10).position.partition == 2
    assert read_all(settings, 1)[0].event == beat


def verdict(reply_to: str, claim_id: str) -> Verdict:
    return Verdict(
        tenant_id="acme",
        operation_id="op-1",
        claim_id=claim_id,
        reply_to=reply_to,
        state=State.DISPATCHED,
        version=2,
        attempt=1,
        lease_ms=1000,
        at_ms=1,
    )


def test_a_verdict_reaches_the_instance_that_waits_and_no_other(settings: KafkaSettings) -> None:
    sender, first, second = ReplySender(settings), KafkaVerdictInbox(settings, "one"), KafkaVerdictInbox(settings, "two")
    waiting, other = first.expect("c1"), second.expect("c1")
    sender.send([verdict("one", "c1")])
    assert waiting.result(timeout=10) == verdict("one", "c1")
    sender.send([verdict("two", "c1")])
    assert other.result(timeout=10).reply_to == "two"
    for one in (first, second):
        one.close()
    sender.close()


def test_the_first_verdict_after_connecting_is_not_lost(settings: KafkaSettings) -> None:
    sender = ReplySender(settings)
    for number in range(5):
        inbox = KafkaVerdictInbox(settings, f"instance-{number}")
        waiting = inbox.expect("c")
        sender.send([verdict(f"instance-{number}", "c")])
        assert waiting.result(timeout=10).claim_id == "c"
        inbox.close()
    sender.close()


def test_garbage_among_the_verdicts_does_not_deafen_an_instance(settings: KafkaSettings) -> None:
    unsigned = replace(settings, ring=KeyRing())
    inbox, sender = KafkaVerdictInbox(unsigned, "one"), ReplySender(unsigned)
    raw = Producer({"bootstrap.servers": settings.bootstrap, "log_level": 0})
    deep = b'{"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for garbage in (b"", b"\xff", b"{}", deep, None):
        raw.produce(settings.replies_topic, value=garbage, key=b"one", partition=_partition(b"one", 3), headers=[("x", None)])
    raw.flush(10)
    waiting = inbox.expect("c1")
    sender.send([verdict("one", "c1")])
    assert waiting.result(timeout=10).claim_id == "c1"
    inbox.close()
    sender.close()


def test_an_instance_hears_again_after_its_topic_was_cut_off(settings: KafkaSettings) -> None:
    """A broker that lost the end of the topic, or a topic that was made anew: the old place is beyond the end."""
    inbox, sender = KafkaVerdictInbox(settings, "one"), ReplySender(settings)
    for number in range(3):
        waiting = inbox.expect(f"c{number}")
        sender.send([verdict("one", f"c{number}")])
        waiting.result(timeout=10)
    sender.close()
    admin = AdminClient({"bootstrap.servers": settings.bootstrap, "log_level": 0})
    admin.delete_topics([settings.replies_topic])[settings.replies_topic].result(timeout=10)
    deadline = time.monotonic() + 30
    while settings.replies_topic in admin.list_topics(timeout=5).topics:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ensure_topics(settings, partitions=3)
    while True:
        sender, waiting = ReplySender(settings), inbox.expect("again")
        sender.send([verdict("one", "again")])
        sender.close()
        try:
            assert waiting.result(timeout=1).claim_id == "again"
            break
        except TimeoutError:
            assert time.monotonic() < deadline, "it is deaf"
    inbox.close()


def test_a_forged_verdict_grants_nothing(settings: KafkaSettings) -> None:
    forged = replace(settings, ring=KeyRing({"writer-1": b"another secret, not the right one"}, signing="writer-1"))
    inbox, forger, sender = KafkaVerdictInbox(settings, "one"), ReplySender(forged), ReplySender(settings)
    waiting = inbox.expect("c1")
    forger.send([verdict("one", "c1")])
    forger.close()
    raw = Producer({"bootstrap.servers": settings.bootstrap, "log_level": 0})
    raw.produce(settings.replies_topic, value=b"{}", key=b"one", partition=0)
    raw.flush(10)
    marker = inbox.expect("c2")
    sender.send([verdict("one", "c2")])
    assert marker.result(timeout=10).claim_id == "c2"
    assert not waiting.done(), "a verdict with a wrong MAC was delivered"
    inbox.close()
    sender.close()
