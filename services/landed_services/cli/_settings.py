"""Where the commands that work on a ledger find it: explicit settings first, the embedded servers else."""

from __future__ import annotations

import os

from landed.adapters.embedded import Servers, find_servers
from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.core.contract import Problem
from landed.sdk.errors import SettingsError
from landed.sdk.settings import REPLIES_TOPIC, TOPIC, key_ring

from ._output import note


def ledger_servers() -> Servers:
    """Servers named by LANDED_KAFKA_BOOTSTRAP and LANDED_DATABASE_URL, for the rest the embedded ones; says which."""
    return find_servers(say=note)


def log_settings(servers: Servers, *, client_id: str = "landed-cli") -> KafkaSettings:
    """The ledger's log: LANDED_TOPIC, LANDED_REPLIES_TOPIC and the writer keys of the environment.

    Raises:
        SettingsError: lists every field and rule that is broken.
    """
    found: list[Problem] = []
    ring = key_ring(os.environ, found)
    if found:
        raise SettingsError("settings", found)
    return KafkaSettings(
        bootstrap=servers.bootstrap,
        topic=os.environ.get("LANDED_TOPIC", TOPIC),
        replies_topic=os.environ.get("LANDED_REPLIES_TOPIC", REPLIES_TOPIC),
        ring=ring,
        client_id=client_id,
    )


def database_settings(servers: Servers) -> PostgresSettings:
    """The ledger's view."""
    return PostgresSettings(url=servers.database_url)
