"""Where the ledger is and who writes to it: from a URL, from the environment, or as a value.

    memory://                                 a ledger in this process, gone with it
    kafka://host:port[,host:port…][/topic]    a ledger on Kafka

Environment (a URL or a keyword given in code wins): LANDED_KAFKA_BOOTSTRAP, LANDED_TOPIC, LANDED_REPLIES_TOPIC, LANDED_TENANT,
LANDED_WORKER, LANDED_WRITER_KEY_ID and LANDED_WRITER_KEY (signs what is appended; text of at least 16 bytes),
LANDED_TRUSTED_KEYS (other writers' keys, `id=key,id=key`; once any key is set, records without a right MAC are refused),
LANDED_DIGEST_KEY (of the tenant; without it no digests of arguments are recorded), LANDED_SCHEMA_REGISTRY_URL,
LANDED_SCHEMA_REGISTRY_LOGIN and LANDED_SCHEMA_REGISTRY_CA (records are written in that registry's framing), LANDED_CLOUDEVENTS
(on or off: whether records are written with the headers of CloudEvents; else on with a registry and off without).
"""

import os
import re
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from landed.core.contract import Problem
from landed.core.identity import RequestError, check_id
from landed.sdk.errors import SettingsError
from landed.wire.errors import KeyRingError
from landed.wire.mac import UNSIGNED, KeyRing
from landed.wire.registry import RegistrySettings, registry_from

TOPIC: Final = "landed.operations"
REPLIES_TOPIC: Final = "landed.replies"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HOST: Final = re.compile(r"[^\s,:/]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")


class Secret:
    """Bytes that no message shows."""

    __slots__ = ("value",)

    def __init__(self, value: bytes) -> None:
        self.value: Final = value

    def __repr__(self) -> str:
        return "Secret(…)"


_IN_MEMORY: Final = Secret(b"digests that never leave the process")


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text.encode())


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that connects a ledger. Durations in seconds."""

    tenant: str
    bootstrap: str | None
    """Kafka servers, `host:port,host:port`; None: in memory, said on purpose."""
    topic: str = TOPIC
    replies_topic: str = REPLIES_TOPIC
    worker: str
    """Name of this process on the log."""
    ring: KeyRing = UNSIGNED
    registry: RegistrySettings | None = None
    """Schema registry in whose framing records are written; None: without one."""
    cloud_events: bool = False
    """Records are written with the headers of CloudEvents."""
    digest_key: Secret | None = None
    """Of the tenant, alike for all its writers: key of the digests that name a differing argument."""
    wait: float = 5.0
    """Longest wait for a verdict."""
    record_wait: float = 5.0
    """Longest wait for the acknowledgement of an outcome; after it the caller is told `Unknown` and the ledger keeps trying."""
    keep_trying: float = 300.0
    """How long an event is appended again before it is given up."""


def settings_from(
    url: str | None = None, *, environment: Mapping[str, str] | None = None, **given: str | float | None
) -> Settings:
    """Settings from *url*, keywords (`tenant`, `worker`, `wait`, `record_wait`, `keep_trying`) and the environment.

    Raises:
        SettingsError: lists every field and rule that is broken; shows no secret.
    """
    env = os.environ if environment is None else environment
    found: list[Problem] = []
    bootstrap, topic = _server(url, env, found)
    values = {name: value for name, value in given.items() if value is not None}
    tenant = _tenant(values.pop("tenant", None) or env.get("LANDED_TENANT"), found)
    worker = _name("worker", values.pop("worker", None) or env.get("LANDED_WORKER") or _process_name(), found)
    durations = {name: _duration(name, value, found) for name, value in values.items()}
    replies = replies_topic(env, topic, found)
    ring = key_ring(env, found)
    registry = schema_registry(env, found)
    as_cloud_events = cloud_events(env, registry, found)
    digest_key = env.get("LANDED_DIGEST_KEY")
    if digest_key is not None and len(digest_key.encode()) < 16:
        found.append(Problem("LANDED_DIGEST_KEY", "must be at least 16 bytes"))
    if found:
        raise SettingsError("settings", found)
    return Settings(
        tenant=tenant,
        bootstrap=bootstrap,
        topic=topic,
        replies_topic=replies,
        worker=worker,
        ring=ring,
        registry=registry,
        cloud_events=as_cloud_events,
        digest_key=_IN_MEMORY if digest_key is None and bootstrap is None else _secret(digest_key),
        **durations,
    )


def settings_for(url: str | Settings | None, **given: Any) -> Settings:
    """*url* itself where it is settings already, else as `settings_from`.

    Raises:
        SettingsError: as `settings_from`, and where ready settings come together with keywords.
    """
    if not isinstance(url, Settings):
        return settings_from(url, **given)
    found = [Problem(name, "is in the settings already") for name, value in given.items() if value is not None]
    if found:
        raise SettingsError("settings", found)
    return url


def _server(url: str | None, env: Mapping[str, str], found: list[Problem]) -> tuple[str | None, str]:
    topic = env.get("LANDED_TOPIC", TOPIC)
    if url is None:
        bootstrap = env.get("LANDED_KAFKA_BOOTSTRAP")
        if bootstrap is None:
            found.append(Problem("url", "give memory:// or kafka://host:port, or set LANDED_KAFKA_BOOTSTRAP"))
        else:
            _check_hosts("LANDED_KAFKA_BOOTSTRAP", bootstrap, found)
    else:
        try:
            parts = urlsplit(str(url))
        except ValueError as error:
            found.append(Problem("url", f"is no URL: {error}"))
            return None, topic
        if parts.scheme not in ("memory", "kafka"):
            found.append(Problem("url", f"must start with memory:// or kafka://, got {parts.scheme or 'no scheme'!r}"))
            return None, topic
        if parts.scheme == "memory":
            return None, topic
        bootstrap = parts.netloc
        if "@" in bootstrap:
            found.append(Problem("url", "must not carry credentials"))
        else:
            _check_hosts("url", bootstrap, found)
        topic = parts.path.strip("/") or topic
    return bootstrap, _topic("topic", topic, found)


def ledger_topic(env: Mapping[str, str], found: list[Problem]) -> str:
    """Topic of the environment; what is wrong is added to *found*."""
    return _topic("LANDED_TOPIC", env.get("LANDED_TOPIC", TOPIC), found)


def replies_topic(env: Mapping[str, str], topic: str, found: list[Problem]) -> str:
    """Topic of the verdicts beside the ledger's *topic*; what is wrong is added to *found*."""
    replies = _topic("LANDED_REPLIES_TOPIC", env.get("LANDED_REPLIES_TOPIC", REPLIES_TOPIC), found)
    if replies == topic:
        found.append(Problem("LANDED_REPLIES_TOPIC", "must be another topic than the ledger's"))
    return replies


def _topic(field: str, name: str, found: list[Problem]) -> str:
    if not _TOPIC.fullmatch(name):
        found.append(Problem(field, "must be a topic name: 1-249 letters, digits, dots, hyphens, underscores"))
    return name


def _check_hosts(field: str, bootstrap: str, found: list[Problem]) -> None:
    if not all(_HOST.fullmatch(host) for host in bootstrap.split(",")):
        found.append(Problem(field, "must name servers as host:port, separated by commas"))


def _tenant(value: object, found: list[Problem]) -> str:
    if value is None:
        found.append(Problem("tenant", "is required: give it, or set LANDED_TENANT"))
        return ""
    return _name("tenant", value, found)


def _name(field: str, value: object, found: list[Problem]) -> str:
    try:
        return check_id(field, value)
    except RequestError as error:
        found.append(error.problem)
        return ""


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _duration(name: str, value: object, found: list[Problem]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86_400:
        found.append(Problem(name, "must be greater than 0 and less than 86400 (seconds)"))
        return 1.0
    return float(value)


def key_ring(env: Mapping[str, str], found: list[Problem]) -> KeyRing:
    """Keys of the environment; once there is one, records without a right MAC are refused. What is wrong is added to *found*."""
    key_id, secret = env.get("LANDED_WRITER_KEY_ID"), env.get("LANDED_WRITER_KEY")
    if (key_id is None) != (secret is None):
        missing = "LANDED_WRITER_KEY" if secret is None else "LANDED_WRITER_KEY_ID"
        found.append(Problem(missing, "key id and key are set together"))
    keys = _trusted(env.get("LANDED_TRUSTED_KEYS", ""), found)
    if key_id is not None and secret is not None:
        keys[key_id] = secret.encode()
    if not keys:
        return UNSIGNED
    try:
        return KeyRing(keys, signing=key_id if key_id in keys else None, mandatory=True)
    except KeyRingError:
        # Not the error's own words: they name the key id, and an id and a key that were swapped would show the key.
        rule = "key ids are 1-64 letters, digits, dots, hyphens or underscores; keys are at least 16 bytes"
        found.append(Problem("LANDED_WRITER_KEY", rule))
        return UNSIGNED


def schema_registry(env: Mapping[str, str], found: list[Problem]) -> RegistrySettings | None:
    """Schema registry of the environment, None without one; what is wrong is added to *found*."""
    registry, wrong = registry_from(env)
    found += [Problem(field, rule) for field, rule in wrong]
    return registry


def cloud_events(env: Mapping[str, str], registry: RegistrySettings | None, found: list[Problem]) -> bool:
    """Whether the environment wants the headers of CloudEvents; what is wrong is added to *found*."""
    wanted = env.get("LANDED_CLOUDEVENTS") or ("off" if registry is None else "on")
    if wanted not in ("on", "off"):
        found.append(Problem("LANDED_CLOUDEVENTS", "must be on or off"))
    return wanted == "on"


def _trusted(text: str, found: list[Problem]) -> dict[str, bytes]:
    keys = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        key_id, equals, secret = part.partition("=")
        if not equals or not key_id or not secret:
            # The part may hold a key, so it is not repeated.
            found.append(Problem("LANDED_TRUSTED_KEYS", "must be id=key, several with commas between"))
        else:
            keys[key_id] = secret.encode()
    return keys
