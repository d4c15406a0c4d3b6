"""Where the commands that work on a ledger find it: explicit settings first, the embedded servers else.

Says which servers are used before it loads what talks to them, so that a person sees an answer at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from landed.core.contract import Problem
from landed.sdk.errors import SettingsError

from ._output import note

if TYPE_CHECKING:
    from landed.adapters.embedded import Servers
    from landed.adapters.kafka import KafkaSettings
    from landed.adapters.postgres import PostgresSettings


def ledger_servers() -> Servers:
    """Servers named by LANDED_KAFKA_BOOTSTRAP and LANDED_DATABASE_URL, for the rest the embedded ones; says which."""
    from landed.adapters.embedded import find_servers

    return find_servers(say=note)


def kafka_alone() -> Servers:
    """As `ledger_servers`, for a command that needs no database: none is looked for."""
    from landed.adapters.embedded import find_servers

    servers = find_servers(say=lambda _: None, settings={**os.environ, "LANDED_DATABASE_URL": "postgresql://unused/unused"})
    note(f"Using Kafka {servers.bootstrap} ({servers.kafka_from})")
    return servers


def log_settings(servers: Servers, *, client_id: str = "landed-cli") -> KafkaSettings:
    """The ledger's log: LANDED_TOPIC, LANDED_REPLIES_TOPIC, the writer keys and the schema registry of the environment.

    Raises:
        SettingsError: lists every field and rule that is broken.
    """
    from landed.adapters.kafka import KafkaSettings
    from landed.sdk.settings import cloud_events, key_ring, ledger_topic, replies_topic, schema_registry

    found: list[Problem] = []
    ring = key_ring(os.environ, found)
    topic = ledger_topic(os.environ, found)
    replies = replies_topic(os.environ, topic, found)
    registry = schema_registry(os.environ, found)
    as_cloud_events = cloud_events(os.environ, registry, found)
    if found:
        raise SettingsError("settings", found)
    return KafkaSettings(
        bootstrap=servers.bootstrap,
        topic=topic,
        replies_topic=replies,
        ring=ring,
        client_id=client_id,
        registry=registry,
        cloud_events=as_cloud_events,
    )


def database_settings(servers: Servers) -> PostgresSettings:
    """The ledger's view."""
    from landed.adapters.postgres import PostgresSettings

    return PostgresSettings(url=servers.database_url)
