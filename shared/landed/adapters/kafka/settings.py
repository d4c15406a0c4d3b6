"""Where the log is and how a client of it is set up."""

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from landed.wire.mac import KeyRing
from landed.wire.registry import RegistrySettings

LEDGER_TOPIC: Final = "landed.operations"
REPLIES_TOPIC: Final = "landed.replies"

_LOG = logging.getLogger("landed.kafka")
# A library prints nothing by itself; whoever sets up logging sees it all.
logging.getLogger("landed").addHandler(logging.NullHandler())


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connection to one ledger.

    `extra` goes to librdkafka as it stands (TLS, SASL); it may not change what the ledger relies on.
    """

    bootstrap: str
    ring: KeyRing
    topic: str = LEDGER_TOPIC
    replies_topic: str = REPLIES_TOPIC
    client_id: str = "landed"
    registry: RegistrySettings | None = None
    """Schema registry in whose framing records are written; None: without one. What is read may be of either framing."""
    cloud_events: bool = False
    """Records are written with the headers of CloudEvents."""
    extra: Mapping[str, str] = {}

    def __repr__(self) -> str:
        # `extra` may hold passwords.
        return f"KafkaSettings(bootstrap={self.bootstrap!r}, topic={self.topic!r}, client_id={self.client_id!r})"


RELIED_ON: Final = frozenset(
    {"acks", "enable.idempotence", "enable.auto.commit", "auto.offset.reset", "isolation.level", "check.crcs", "linger.ms"}
)
"""librdkafka settings that a user may not change: the guarantees stand on them."""


def client_config(settings: KafkaSettings, **own: Any) -> dict[str, Any]:
    """librdkafka configuration: *own* on top of the user's `extra`.

    Raises:
        ValueError: `extra` names a setting that the ledger relies on.
    """
    forbidden = sorted(RELIED_ON & settings.extra.keys())
    if forbidden:
        raise ValueError(f"extra: {', '.join(forbidden)} cannot be changed, the ledger relies on it")
    return {
        **settings.extra,
        "bootstrap.servers": settings.bootstrap,
        "client.id": f"{settings.client_id}-{os.getpid()}",
        "error_cb": _on_error,
        "logger": _LOG,
        # A broker that comes back is found again within a second, not after a back-off of ten.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        **{name.replace("_", "."): value for name, value in own.items()},
    }


def _on_error(error: Any) -> None:
    # Errors of a connection are told here and only here; what they mean for a call comes with its own answer.
    _LOG.warning("broker: %s", error, extra={"action": "kafka_error", "code": error.name()})
