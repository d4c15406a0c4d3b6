"""A ledger in a registry's framing, on a real registry: others decode it, and nothing changes for its own readers."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from msgspec.structs import replace
from tests.schema_registry import schema_registry

import landed_schemas
from landed.adapters.embedded import Finding, Level
from landed.adapters.kafka import KafkaEventLog, KafkaSettings, RegistryUnfit, RegistryUnreachable, SchemaRegistry
from landed.adapters.postgres import PostgresSettings
from landed.core.events import TYPE_OF, Entry
from landed.sdk.errors import LedgerUnavailable, SettingsError
from landed.sdk.parts import connected
from landed.sdk.settings import Settings
from landed.wire.framing import MARKER
from landed.wire.registry import RegistrySettings, subject
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.projector.verifying import verify
from landed_services.queries.health import ledger_findings

from .conftest import running
from .driving import Driver, entries
from .looking import rows, wait_for_end

DOCUMENT = Path("docs/decoding.md").read_text("utf-8")
NOWHERE = RegistrySettings(url="http://127.0.0.1:1")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistrySettings]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as url:
        yield RegistrySettings(url=url)


def doctor_says(log: KafkaSettings, database: PostgresSettings) -> Finding:
    (found,) = (one for one in ledger_findings(log, database) if one.check == "schema registry")
    return found


def test_consumers_without_this_library_decode_what_a_ledger_with_a_registry_writes(
    registry: RegistrySettings,
    log_settings: KafkaSettings,
    database: PostgresSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = replace(log_settings, registry=registry, cloud_events=True)
    of_the_sdk = Settings(bootstrap=settings.bootstrap, tenant="acme", worker="w", topic=settings.topic, registry=registry)

    # Without the schemas no writer starts, and each says what to do.
    with pytest.raises(RegistryUnfit, match=r"does not hold 32 of 32 schemas .*`landed schemas register`"):
        KafkaEventLog(settings)
    with pytest.raises(SettingsError, match=r"LANDED_SCHEMA_REGISTRY_URL: .*`landed schemas register`"):
        connected(of_the_sdk)

    # Registering asks, and is the same the second time.
    monkeypatch.setenv("LANDED_SCHEMA_REGISTRY_URL", registry.url)
    monkeypatch.setenv("LANDED_TOPIC", settings.topic)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert [run(["schemas"]), run(["schemas", "register"])] == [Exit.FOUND, Exit.USAGE]
    told = doctor_says(settings, database)
    assert (told.level, told.what) == (Level.PROBLEM, f"{registry.url}, of 32 schemas: 32 not registered")
    assert "landed schemas register" in told.advice
    assert doctor_says(replace(settings, registry=NOWHERE), database).level is Level.PROBLEM, "it cannot be asked"
    capsys.readouterr()
    held = []
    for _ in range(2):
        assert run(["schemas", "register", "--yes", "-o", "json"]) == Exit.DONE
        held.append(json.loads(capsys.readouterr().out))
    assert held[0] == held[1]
    assert {one["event"] for one in held[0]} == set(landed_schemas.schemas())
    assert {(one["problem"], one["version"], one["compatibility"]) for one in held[0]} == {("", 1, "BACKWARD_TRANSITIVE")}
    assert doctor_says(settings, database).level is Level.OK
    _the_registry_refuses_what_would_break_readers_and_takes_a_new_word(registry, settings.topic)

    framed, plain = Driver(settings), Driver(log_settings)
    try:
        with running(settings, database):
            for name in ("refund-1", "refund-2"):
                assert framed.perform(name, group_id="trip").granted
            wait_for_end(log_settings, database)
            first = entries(log_settings)
            assert {value[:1] for value in _values(log_settings)} == {b"\0"}
            assert _printed("follow.py", tmp_path, settings.bootstrap, settings.topic, registry.url) == _expected(first)

            # Another writer, without a registry: the same topic, and the same event again.
            twice = framed.prepared("refund-3", None)
            framed.append(twice)
            plain.append(twice)
            assert plain.perform("refund-3").granted
            wait_for_end(log_settings, database)
    finally:
        framed.close()
        plain.close()
    everything = entries(log_settings)
    assert {value[:1] for value in _values(log_settings)} == {b"\0", MARKER[:1]}
    assert _printed("decode.py", tmp_path, settings.bootstrap, settings.topic, "docs/asyncapi.yaml") == _expected(everything)
    assert rows(database, "SELECT count(*), count(DISTINCT digest) FROM events WHERE event_id = %s", twice.event_id) == [(2, 1)]
    assert rows(database, "SELECT count(*) FROM refused_records") == [(0,)]
    assert rows(database, "SELECT DISTINCT state FROM operations") == [("confirmed",)]

    # Readers ask nobody, whatever their settings say; nor does a process that has asked before.
    monkeypatch.setattr(SchemaRegistry, "ids", None)
    assert entries(replace(log_settings, registry=NOWHERE)) == everything
    assert verify(replace(log_settings, registry=NOWHERE), database).equal
    KafkaEventLog(settings).close()


def test_a_registry_that_is_out_of_reach_stops_a_writer_at_its_start_and_says_which(
    registry: RegistrySettings, log_settings: KafkaSettings
) -> None:
    nowhere = Settings(bootstrap=log_settings.bootstrap, tenant="acme", worker="w", topic=log_settings.topic, registry=NOWHERE)
    with pytest.raises(LedgerUnavailable, match=r"schema registry http://127\.0\.0\.1:1 cannot be asked"):
        connected(nowhere)
    no_registry = RegistrySettings(url=registry.url.replace("/apis/ccompat/v7", "/elsewhere"))
    with pytest.raises(RegistryUnreachable, match="/elsewhere"):
        KafkaEventLog(replace(log_settings, registry=no_registry))


def test_a_record_with_their_headers_is_a_cloud_event_to_the_library_of_cloud_events(log_settings: KafkaSettings) -> None:
    driver = Driver(replace(log_settings, cloud_events=True))
    event = driver.append(driver.prepared("refund:ü", None))
    driver.close()
    [message] = _messages(log_settings)
    headers = {name: value for name, value in message.headers() or () if isinstance(value, bytes)}
    read = from_binary_event(KafkaMessage(headers=headers, key=message.key(), value=message.value()))
    assert (read.get_id(), read.get_type()) == (event.event_id, "landed.events.v1.OperationPrepared")
    assert (read.get_source(), read.get_subject()) == ("//landed/tenants/acme", "refund:ü")
    assert read.get_datacontenttype() == "application/avro"


def _the_registry_refuses_what_would_break_readers_and_takes_a_new_word(registry: RegistrySettings, topic: str) -> None:
    client, name = SchemaRegistryClient({"url": registry.url}), "dispatch_refused"
    where = subject(topic, landed_schemas.schemas()[name])
    broken, grown = json.loads(landed_schemas.text(name)), json.loads(landed_schemas.text(name))
    broken["fields"].append({"name": "new", "type": "string"})
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(where, Schema(json.dumps(broken), "AVRO"))
    assert refused.value.http_status_code == 409
    [words] = [field["type"]["symbols"] for field in grown["fields"] if field["name"] == "reason"]
    words.append("of_a_later_release")
    # Writers of this release find theirs all the same, though it is not the latest any more.
    assert client.register_schema(where, Schema(json.dumps(grown), "AVRO")) > 0
    client.close()


# ---- seen from outside ---------------------------------------------------------------------------------------------------


def _printed(name: str, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """What the consumer of that name in the document prints, in no order between partitions."""
    [code] = re.findall(rf"```python\n(# {name} .*?)```", DOCUMENT, re.DOTALL)
    assert not re.search(r"^(import|from) .*landed", code, re.MULTILINE)
    (folder / name).write_text(code)
    ran = subprocess.run(
        [sys.executable, "-I", folder / name, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return sorted((json.loads(line) for line in ran.stdout.splitlines()), key=_order)


def _expected(found: list[Entry]) -> list[dict[str, Any]]:
    seen = [entry.event for entry in found]
    return sorted(({"type": TYPE_OF[type(event)], "event": msgspec.to_builtins(event)} for event in seen), key=_order)


def _order(printed: dict[str, Any]) -> str:
    return json.dumps(printed, sort_keys=True)


def _values(settings: KafkaSettings) -> list[bytes]:
    return [message.value() or b"" for message in _messages(settings)]


def _messages(settings: KafkaSettings) -> list[Any]:
    """Every record as the broker has it."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap, "group.id": "raw", "enable.partition.eof": True})
    try:
        left = set(consumer.list_topics(settings.topic, timeout=10).topics[settings.topic].partitions)
        consumer.assign([TopicPartition(settings.topic, partition, 0) for partition in left])
        found = []
        while left:
            message = consumer.poll(5)
            if message is not None and message.error() is not None:
                left.discard(message.partition())
            elif message is not None:
                found.append(message)
        return found
    finally:
        consumer.close()
