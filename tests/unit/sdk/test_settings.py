"""Settings come from a URL, from keywords or from the environment; what is wrong is said all at once, without secrets."""

from typing import Any

import pytest

from landed.sdk.async_ledger import AsyncLedger
from landed.sdk.errors import SettingsError
from landed.sdk.ledger import Ledger
from landed.sdk.settings import Settings, settings_from

SECRET = "a secret of the writer, long enough"


def test_a_kafka_url_names_servers_and_topic() -> None:
    found = settings_from("kafka://127.0.0.1:9092,[::1]:9093/acme.operations", environment={}, tenant="acme")
    assert (found.bootstrap, found.topic, found.replies_topic) == (
        "127.0.0.1:9092,[::1]:9093",
        "acme.operations",
        "landed.replies",
    )


def test_without_a_topic_the_url_means_the_usual_one() -> None:
    assert settings_from("kafka://k:9092", environment={}, tenant="acme").topic == "landed.operations"
    assert settings_from("kafka://k:9092", environment={"LANDED_TOPIC": "t"}, tenant="acme").topic == "t"


def test_everything_can_come_from_the_environment() -> None:
    environment = {
        "LANDED_KAFKA_BOOTSTRAP": "k:9092",
        "LANDED_TOPIC": "acme.operations",
        "LANDED_REPLIES_TOPIC": "acme.replies",
        "LANDED_TENANT": "acme",
        "LANDED_WORKER": "worker-7",
        "LANDED_WRITER_KEY_ID": "writer-1",
        "LANDED_WRITER_KEY": SECRET,
        "LANDED_DIGEST_KEY": SECRET,
    }
    found = settings_from(environment=environment)
    assert (found.bootstrap, found.topic, found.replies_topic) == ("k:9092", "acme.operations", "acme.replies")
    assert (found.tenant, found.worker, found.ring.signing) == ("acme", "worker-7", "writer-1")
    assert SECRET not in repr(found)
    assert found.digest_key is not None
    assert found.digest_key.value == SECRET.encode()


def test_a_schema_registry_is_named_by_the_environment_and_its_password_is_not_shown() -> None:
    environment = {
        "LANDED_SCHEMA_REGISTRY_URL": "https://a:8081/apis/ccompat/v7,https://b",
        "LANDED_SCHEMA_REGISTRY_LOGIN": f"me:{SECRET}",
        "LANDED_SCHEMA_REGISTRY_CA": "/etc/ca.pem",
    }
    found = settings_from("kafka://k:9092", environment=environment, tenant="acme").registry
    assert found is not None
    assert (found.url, found.ca) == ("https://a:8081/apis/ccompat/v7,https://b", "/etc/ca.pem")
    assert found.login == f"me:{SECRET}"
    assert SECRET not in repr(found)
    assert settings_from("kafka://k:9092", environment={"LANDED_SCHEMA_REGISTRY_URL": ""}, tenant="acme").registry is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANDED_CLOUDEVENTS": "on"}, True),
        ({"LANDED_SCHEMA_REGISTRY_URL": "http://a"}, True),
        ({"LANDED_SCHEMA_REGISTRY_URL": "http://a", "LANDED_CLOUDEVENTS": "off"}, False),
    ],
    ids=["neither", "asked for", "with a registry", "not wanted"],
)
def test_records_are_cloud_events_where_somebody_asks_for_them(environment: dict[str, str], expected: bool) -> None:
    assert settings_from("kafka://k:9092", environment=environment, tenant="acme").cloud_events is expected


def test_what_the_code_says_wins_over_the_environment() -> None:
    environment = {"LANDED_KAFKA_BOOTSTRAP": "k:9092", "LANDED_TENANT": "acme", "LANDED_WORKER": "w"}
    found = settings_from("memory://", environment=environment, tenant="other", worker="mine", wait=2)
    assert (found.bootstrap, found.tenant, found.worker, found.wait) == (None, "other", "mine", 2.0)


def test_without_a_digest_key_nothing_on_kafka_is_digested_since_guessable_values_would_show() -> None:
    assert settings_from("kafka://k:9092", environment={}, tenant="acme").digest_key is None


WRONG: list[tuple[str | None, dict[str, str], dict[str, Any], list[str]]] = [
    (None, {}, {}, ["url: give memory:// or kafka://", "tenant: is required"]),
    ("redis://x", {}, {"tenant": "a"}, ["url: must start with memory:// or kafka://, got 'redis'"]),
    ("127.0.0.1:9092", {}, {"tenant": "a"}, ["url: must start with memory:// or kafka://"]),
    ("kafka://host", {}, {"tenant": "a"}, ["url: must name servers as host:port"]),
    ("kafka://user:pw@host:9092", {}, {"tenant": "a"}, ["url: must not carry credentials"]),
    ("kafka://host:9092/bad/topic", {}, {"tenant": "a"}, ["topic: must be a topic name"]),
    ("memory://", {}, {"tenant": "a\n"}, ["tenant: must not contain control characters"]),
    ("memory://", {}, {"tenant": "a", "wait": 0}, ["wait: must be greater than 0"]),
    ("memory://", {}, {"tenant": "a", "wait": "soon"}, ["wait: must be greater than 0"]),
    ("memory://", {"LANDED_WRITER_KEY": SECRET}, {"tenant": "a"}, ["LANDED_WRITER_KEY_ID: key id and key are set together"]),
    ("memory://", {"LANDED_WRITER_KEY_ID": "w"}, {"tenant": "a"}, ["LANDED_WRITER_KEY: key id and key are set together"]),
    ("memory://", {"LANDED_WRITER_KEY_ID": "w", "LANDED_WRITER_KEY": "hunter2"}, {"tenant": "a"}, ["at least 16 bytes"]),
    (
        "memory://",
        {"LANDED_WRITER_KEY_ID": f"{SECRET}: swapped", "LANDED_WRITER_KEY": "writer-1, long enough for a key"},
        {"tenant": "a"},
        ["LANDED_WRITER_KEY: key ids are"],
    ),
    ("memory://", {"LANDED_TRUSTED_KEYS": "hunter2"}, {"tenant": "a"}, ["LANDED_TRUSTED_KEYS: must be id=key"]),
    ("memory://", {"LANDED_DIGEST_KEY": "hunter2"}, {"tenant": "a"}, ["LANDED_DIGEST_KEY: must be at least 16 bytes"]),
    ("memory://", {"LANDED_REPLIES_TOPIC": "a b"}, {"tenant": "a"}, ["LANDED_REPLIES_TOPIC: must be a topic name"]),
    ("memory://", {"LANDED_REPLIES_TOPIC": "t", "LANDED_TOPIC": "t"}, {"tenant": "a"}, ["LANDED_REPLIES_TOPIC: must be another"]),
    ("memory://", {}, {"tenant": "a", "worker": "w\x00"}, ["worker: must not contain control characters"]),
    ("memory://", {"LANDED_WORKER": "w" * 200}, {"tenant": "a"}, ["worker: must have 1 to 180 characters"]),
    ("kafka://[::1", {}, {"tenant": "a"}, ["url: is no URL"]),
    (
        "memory://",
        {"LANDED_SCHEMA_REGISTRY_URL": "http://user:hunter2@registry"},
        {"tenant": "a"},
        ["LANDED_SCHEMA_REGISTRY_URL: must be http:// or https:// URLs without a login"],
    ),
    (
        "memory://",
        {"LANDED_SCHEMA_REGISTRY_URL": "registry:8081"},
        {"tenant": "a"},
        ["LANDED_SCHEMA_REGISTRY_URL: must be http://"],
    ),
    ("memory://", {"LANDED_SCHEMA_REGISTRY_URL": "http://a,b"}, {"tenant": "a"}, ["LANDED_SCHEMA_REGISTRY_URL: must be http://"]),
    ("memory://", {"LANDED_SCHEMA_REGISTRY_URL": "http://a:x"}, {"tenant": "a"}, ["LANDED_SCHEMA_REGISTRY_URL: must be http://"]),
    (
        "memory://",
        {"LANDED_SCHEMA_REGISTRY_URL": "http://a", "LANDED_SCHEMA_REGISTRY_LOGIN": "hunter2"},
        {"tenant": "a"},
        ["LANDED_SCHEMA_REGISTRY_LOGIN: must be user:password"],
    ),
    (
        "memory://",
        {"LANDED_SCHEMA_REGISTRY_LOGIN": "u:hunter2", "LANDED_SCHEMA_REGISTRY_CA": "/ca"},
        {"tenant": "a"},
        ["LANDED_SCHEMA_REGISTRY_LOGIN: needs LANDED_SCHEMA_REGISTRY_URL", "LANDED_SCHEMA_REGISTRY_CA: needs"],
    ),
    ("memory://", {"LANDED_CLOUDEVENTS": "yes"}, {"tenant": "a"}, ["LANDED_CLOUDEVENTS: must be on or off"]),
    (None, {"LANDED_KAFKA_BOOTSTRAP": "nowhere"}, {"tenant": "a"}, ["LANDED_KAFKA_BOOTSTRAP: must name servers"]),
]


@pytest.mark.parametrize(("url", "environment", "given", "rules"), WRONG, ids=[row[3][0] for row in WRONG])
def test_wrong_settings_name_every_field_and_rule_and_no_secret(
    url: str | None, environment: dict[str, str], given: dict[str, Any], rules: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(url, environment=environment, **given)
    text = str(caught.value)
    for rule in rules:
        assert rule in text
    assert "hunter2" not in text
    assert "pw" not in text
    assert SECRET not in text


@pytest.mark.parametrize("kind", [Ledger, AsyncLedger])
def test_ready_settings_and_keywords_at_once_are_refused(kind: type[Ledger] | type[AsyncLedger]) -> None:
    with pytest.raises(SettingsError, match="tenant: is in the settings already"):
        kind.connect(Settings(bootstrap=None, tenant="acme", worker="w"), tenant="other")


@pytest.mark.parametrize("kind", [Ledger, AsyncLedger])
def test_a_ledger_connects_from_ready_settings(kind: type[Ledger] | type[AsyncLedger]) -> None:
    ledger = kind.connect(Settings(bootstrap=None, tenant="acme", worker="w"))
    assert ledger.parts.settings.tenant == "acme"
    ledger.parts.close(1.0)
