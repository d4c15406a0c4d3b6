"""``landed asyncapi``: the ledger's topics and records in the words of AsyncAPI."""

from __future__ import annotations

import os

from ._exit import Exit
from ._output import Format, print_value


def asyncapi(*, output: Format = "text") -> int:
    """Print the AsyncAPI 3.0 document of the ledger's topics, with the Avro schema of every event; as YAML, or as JSON.

    It asks no server. LANDED_TOPIC and LANDED_REPLIES_TOPIC name the topics.

    For example:

        landed asyncapi > asyncapi.yaml

        landed asyncapi -o json
    """
    from landed.core.contract import Problem
    from landed.sdk.errors import SettingsError
    from landed.sdk.settings import ledger_topic, replies_topic
    from landed_services.asyncapi import as_yaml, document

    found: list[Problem] = []
    topic = ledger_topic(os.environ, found)
    replies = replies_topic(os.environ, topic, found)
    if found:
        raise SettingsError("settings", found)
    described = document(topic=topic, replies_topic=replies)
    if output == "text":
        print(as_yaml(described), end="")
    else:
        print_value(described, output)
    return Exit.DONE
