"""Looks at the embedded servers from outside, and the little work that shows that they serve."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from landed.adapters.embedded import Running

# The time that a rule names is for a quiet machine; a busy one may take this many times as long before a test fails.
SLACK = 10


def copy_folder(prepared: Path, copy: Path) -> None:
    """A data folder of its own with the content of *prepared*, whose servers are down; it knows of no ports yet."""
    subprocess.run(["cp", "-a", str(prepared), str(copy)], check=True)  # keeps the holes of sparse files
    (copy / "state.json").unlink()


def pids_on(folder: Path) -> set[int]:
    """Every process that works on *folder*: it has the path in its command line or stands in it. Zombies are gone."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            place = os.readlink(entry / "cwd")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX" and (str(folder) in words or Path(place).is_relative_to(folder)):
            found.add(int(entry.name))
    return found


def wait_until(true: Callable[[], bool], *, seconds: float) -> float:
    """How long it took until *true*; fails the test after *seconds*."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def append(running: Running, topic: str, value: bytes) -> None:
    """Create *topic* where it is missing, wait for its leader, and append one record that is acknowledged."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    wait_until(lambda: has_leader(admin, topic), seconds=30)
    failures: list[object] = []
    # Compressed, since the broker needs a native library to look inside.
    producer = Producer({"bootstrap.servers": running.bootstrap, "linger.ms": 0, "compression.type": "zstd"})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]


def has_leader(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(timeout=10).topics.get(topic)
    return found is not None and bool(found.partitions) and all(p.leader >= 0 for p in found.partitions.values())


def first_value(running: Running, topic: str) -> bytes | None:
    """The first record of *topic*."""
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def execute(running: Running, statement: str) -> list[tuple[object, ...]]:
    """Run *statement* in the embedded database; its rows, if it has any."""
    with psycopg.connect(running.database_url, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []
