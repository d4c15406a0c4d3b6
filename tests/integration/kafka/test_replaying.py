"""A replay of a topic on a real broker: in order over partitions, up to its end, without a producer and without a database."""

import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Producer

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, LogReader
from landed.core.events import AgentStatement, Event, PolicyChanged
from landed.wire.ids import with_event_id
from landed.wire.partition import partition_for
from landed_services.cli._app import run
from landed_services.reading import Item, read_item
from landed_services.replay.scope import Cut, Scope
from landed_services.replay.telling import Line, Story
from landed_services.replay.topic import Progress, Topic

OPERATIONS = ("op-1", "op-2", "op-3", "op-4")


def statement(number: int, tenant_id: str = "acme") -> Event:
    name = OPERATIONS[number % len(OPERATIONS)]
    return with_event_id(
        AgentStatement(
            event_id="",
            tenant_id=tenant_id,
            route=name,
            operation_id=name,
            actor="agent",
            message_digest=str(number),
            claimed_state="done",
        )
    )


@pytest.fixture
def filled(log: KafkaEventLog, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    """A topic of three partitions with forty events of four operations, then twenty later; no producer can be made any more."""
    log.append_all([statement(number) for number in range(40)], timeout_s=20)
    time.sleep(0.05)
    log.append_all([statement(number) for number in range(40, 60)], timeout_s=20)

    def no_producer(*_: object, **__: object) -> None:
        raise AssertionError("a replay made a producer")

    monkeypatch.setattr(confluent_kafka, "Producer", no_producer)
    monkeypatch.setattr("landed.adapters.kafka.producer.Producer", no_producer)
    monkeypatch.setattr("landed.adapters.kafka.replies.Producer", no_producer)
    return settings


def told(settings: KafkaSettings, scope: Scope) -> list[Line]:
    topic = Topic(settings)
    narrowed = topic.find(scope)
    items: list[Item] = [
        read_item(one, ring=settings.ring, partitions=topic.partitions)
        for one in topic.records(narrowed)
        if narrowed.admits_key(one.key)
    ]
    return list(Story(narrowed).lines(items))


def test_all_partitions_are_told_in_the_order_of_append_times(filled: KafkaSettings) -> None:
    lines = told(filled, Scope(tenant_id="acme"))
    assert len(lines) == 60
    assert {line.partition for line in lines} == {partition_for("acme", name, 3) for name in OPERATIONS}
    places = [(line.at_ms, line.partition, line.offset) for line in lines]
    assert places == sorted(places)


def test_an_end_in_time_reads_no_further_than_the_index_of_times_says(filled: KafkaSettings) -> None:
    whole = told(filled, Scope(tenant_id="acme"))
    until_ms = whole[39].at_ms
    assert told(filled, Scope(tenant_id="acme", until=Cut(at_ms=until_ms))) == [line for line in whole if line.at_ms <= until_ms]
    read = list(Topic(filled).records(Scope(until=Cut(at_ms=until_ms))))
    assert len(read) == len([line for line in whole if line.at_ms <= until_ms])
    assert list(Topic(filled).records(Scope(until=Cut(at_ms=whole[0].at_ms - 1)))) == []


def test_a_beginning_in_time_folds_only_what_has_an_event_since(filled: KafkaSettings, log: KafkaEventLog) -> None:
    time.sleep(0.05)
    log.append_all([statement(number) for number in range(60, 80, 4)], timeout_s=20)
    whole = told(filled, Scope(tenant_id="acme"))
    first = Cut(at_ms=whole[60].at_ms)
    topic = Topic(filled)
    near = topic.near(Scope(tenant_id="acme", first=first))
    assert near.routes == frozenset({("acme", "op-1")})
    assert told(filled, near) == whole[60:]
    assert len([one for one in topic.records(near) if near.admits_key(one.key)]) == 20
    late = Scope(tenant_id="acme", first=Cut(at_ms=whole[-1].at_ms + 1))
    assert told(filled, topic.near(late)) == []
    for as_it_is in (
        Scope(tenant_id="acme", first=Cut(at_ms=whole[0].at_ms)),  # more than half of it
        Scope(tenant_id="acme", group="op-1", first=first),
        Scope(tenant_id="acme", operation_id="op-2", first=first),
        Scope(first=first),
    ):
        assert topic.near(as_it_is) is as_it_is


def test_the_first_offset_at_a_time_is_that_of_the_index(filled: KafkaSettings) -> None:
    whole = told(filled, Scope(tenant_id="acme"))
    reader = LogReader(filled)
    try:
        ends = reader.end_offsets()
        found = reader.offsets_at(whole[40].at_ms)
        assert reader.offsets_at(whole[-1].at_ms + 1) == ends
    finally:
        reader.close()
    for partition, end in ends.items():
        later = [line.offset for line in whole if line.partition == partition and line.at_ms >= whole[40].at_ms]
        assert found[partition] == min(later, default=end)


def test_an_operation_is_found_without_its_group_and_only_its_partition_is_read(filled: KafkaSettings) -> None:
    topic = Topic(filled)
    narrowed = topic.find(Scope(tenant_id="acme", operation_id="op-2"))
    assert narrowed.routes == frozenset({("acme", "op-2")})
    assert {one.partition for one in topic.records(narrowed)} == {partition_for("acme", "op-2", 3)}
    assert len(told(filled, Scope(tenant_id="acme", operation_id="op-2"))) == 15
    assert told(filled, Scope(tenant_id="acme", operation_id="nobody's")) == []


def test_progress_ends_at_the_whole(filled: KafkaSettings) -> None:
    said: list[Progress] = []
    list(Topic(filled).records(Scope(), said.append))
    assert said[0].total == 60
    assert 0 < said[0].done <= 60


def test_transactions_that_left_markers_do_not_keep_a_replay_waiting(settings: KafkaSettings, log: KafkaEventLog) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap, "transactional.id": settings.topic, "error_cb": lambda _: None})
    log.append_all([statement(0)], timeout_s=20)
    producer.init_transactions(20)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(settings.topic, b"x", partition=partition_for("acme", "op-1", 3))
        producer.abort_transaction(20)
    begun = time.monotonic()
    assert len(list(Topic(settings).records(Scope()))) == 1
    assert time.monotonic() - begun < 10


def test_what_is_exported_tells_what_the_topic_tells_with_no_database_at_hand(
    filled: KafkaSettings, log: KafkaEventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a part the policies come along for `what-if`, and are no part of its story."""
    said = PolicyChanged(
        event_id="",
        tenant_id="acme",
        route="policy:tool:*",
        actor="anna",
        scope="tool:*",
        new='{"approval":true}',
        who="anna",
        why="careful",
    )
    log.append_all([with_event_id(said)], timeout_s=20)
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", filled.bootstrap)
    monkeypatch.setenv("LANDED_TOPIC", filled.topic)
    monkeypatch.setenv("LANDED_REPLIES_TOPIC", filled.replies_topic)
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", "writer-1")
    monkeypatch.setenv("LANDED_WRITER_KEY", "a secret of thirty-two bytes or so")
    monkeypatch.setenv("LANDED_DATABASE_URL", "postgresql://127.0.0.1:1/x")
    file = str(tmp_path / "b.landed")
    for asked in ([], ["--operation", "op-2"]):
        Path(file).unlink(missing_ok=True)
        assert run(["replay", "export", file, "--tenant", "acme", *asked]) == 0
        assert "signed under key writer-1" in capsys.readouterr().out
        assert run(["replay", "--tenant", "acme", *asked, "-o", "jsonl"]) == 0
        from_topic = capsys.readouterr().out
        assert run(["replay", file, "-o", "jsonl"]) == 0
        assert capsys.readouterr().out == from_topic
        assert len(from_topic.splitlines()) == (15 if asked else 61)
        for of, source in (((file,), file), (("--tenant", "acme", *asked), "the topic")):
            assert run(["replay", "what-if", *of, "-o", "jsonl"]) == 0
            shown = capsys.readouterr()
            assert f'"events":{16 if asked else 61},"decisions":0' in shown.out
            assert f"Recorded policies, from {source}: tool:* version 1" in " ".join(shown.err.split())


def test_several_processes_tell_what_one_tells(
    filled: KafkaSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", filled.bootstrap)
    monkeypatch.setenv("LANDED_TOPIC", filled.topic)
    monkeypatch.setenv("LANDED_REPLIES_TOPIC", filled.replies_topic)
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", "writer-1")
    monkeypatch.setenv("LANDED_WRITER_KEY", "a secret of thirty-two bytes or so")
    for output in ("json", "html", "text"):
        shown = []
        for processes in ("1", "2"):
            assert run(["replay", "--all-tenants", "--processes", processes, "-o", output]) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
        assert shown[0].count("agent_statement") >= 60
