"""Verdicts reach the instance that waits: those of one turn together in one record, as many as a record holds."""

import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from landed.adapters.kafka import KafkaSettings, KafkaVerdictInbox, ReplySender, replies
from landed.adapters.kafka.replies import RECORD_BYTES_MAX
from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal, State
from landed.wire.mac import KeyRing


def verdict(reply_to: str, number: int, *, detail: str = "") -> Verdict:
    return Verdict(
        tenant_id="acme",
        operation_id=f"op-{number}",
        claim_id=uuid.uuid4().hex,
        reply_to=reply_to,
        state=State.PREPARED,
        version=number,
        reason=Refusal.LEDGER_UNAVAILABLE,
        detail={"unchecked": detail},
        at_ms=1,
    )


def records_of(settings: KafkaSettings) -> int:
    consumer = Consumer({"bootstrap.servers": settings.bootstrap, "group.id": "count", "error_cb": lambda _: None})
    try:
        topic = consumer.list_topics(settings.replies_topic, timeout=10).topics[settings.replies_topic]
        ends = [
            consumer.get_watermark_offsets(TopicPartition(settings.replies_topic, one), timeout=10) for one in topic.partitions
        ]
        return sum(high - low for low, high in ends)
    finally:
        consumer.close()


def test_verdicts_of_one_turn_travel_together_and_reach_each_instance_that_waits(settings: KafkaSettings) -> None:
    inboxes = [KafkaVerdictInbox(settings, name) for name in ("first", "second")]
    sender = ReplySender(settings)
    try:
        verdicts = [verdict(inboxes[number % 2].reply_to, number) for number in range(300)]
        waiting = [inboxes[number % 2].expect(one.claim_id) for number, one in enumerate(verdicts)]
        sender.send(verdicts)
        assert [future.result(timeout=20) for future in waiting] == verdicts
        assert records_of(settings) == 2
    finally:
        sender.close()
        for inbox in inboxes:
            inbox.close()


def test_verdicts_that_do_not_fit_into_one_record_travel_in_several(settings: KafkaSettings) -> None:
    inbox = KafkaVerdictInbox(settings, "large")
    sender = ReplySender(settings)
    try:
        verdicts = [verdict("large", number, detail="x" * (RECORD_BYTES_MAX // 4)) for number in range(10)]
        waiting = [inbox.expect(one.claim_id) for one in verdicts]
        sender.send(verdicts)
        assert [future.result(timeout=20) for future in waiting] == verdicts
        assert records_of(settings) == 4
    finally:
        sender.close()
        inbox.close()


def test_a_verdict_of_a_record_with_a_wrong_mac_answers_nobody(settings: KafkaSettings) -> None:
    inbox = KafkaVerdictInbox(settings, "careful")
    ring = KeyRing({"writer-1": b"another secret of thirty-two bytes"}, signing="writer-1")
    forger = ReplySender(KafkaSettings(bootstrap=settings.bootstrap, ring=ring, replies_topic=settings.replies_topic))
    sender = ReplySender(settings)
    try:
        forged, right = verdict("careful", 1), verdict("careful", 2)
        answers = [inbox.expect(forged.claim_id), inbox.expect(right.claim_id)]
        forger.send([forged])
        forger.flush(10)
        sender.send([right])
        assert answers[1].result(timeout=20) == right
        time.sleep(0.2)
        assert not answers[0].done()
    finally:
        forger.close()
        sender.close()
        inbox.close()


def test_a_verdict_that_cannot_be_read_keeps_none_of_its_record_back(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = KafkaVerdictInbox(settings, "patient")
    sender = ReplySender(settings)
    encode = replies._ENCODE
    monkeypatch.setattr(
        replies, "_ENCODE", lambda one: encode(one).replace(b'"prepared"', b'"word"') if one.version == 1 else encode(one)
    )
    try:
        verdicts = [verdict("patient", number) for number in range(3)]
        waiting = [inbox.expect(one.claim_id) for one in verdicts]
        sender.send(verdicts)
        assert [waiting[number].result(timeout=20) for number in (0, 2)] == [verdicts[0], verdicts[2]]
        assert not waiting[1].done()
        assert records_of(settings) == 1
    finally:
        sender.close()
        inbox.close()
