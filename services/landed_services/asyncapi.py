"""The AsyncAPI 3.0 document of the ledger: its topics, every record that may stand on them, and their schemas. Made from the code
that writes them, so that it says nothing else. Pure.

Source: AsyncAPI 3.0.0; Kafka bindings 0.5.0; docs/decoding.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

import msgspec

import landed_schemas
from landed.adapters.kafka.settings import LEDGER_TOPIC, REPLIES_TOPIC
from landed.adapters.kafka.topics import LEDGER_CONFIG, PARTITIONS_DEFAULT, REPLIES_CONFIG
from landed.core.verdict import Verdict
from landed.wire import cloudevents, records
from landed.wire.registry import subject

Document = dict[str, Any]

_AVRO: Final = "application/vnd.apache.avro;version=1.9.0"
_BINDING: Final = "0.5.0"
_PAYLOAD: Final = "components/messages/verdicts/payload"

_DESCRIPTION: Final = """\
An event-sourced ledger of tool calls with effects. Its topic is the truth: every record is one event, and the state of an
operation is the fold of its records in log order.

A value is in Avro's single-object encoding (C3 01, the CRC-64-AVRO fingerprint of its schema, the body). Writers with a schema
registry put a zero byte and the schema's id there (4 bytes, big-endian) in place of marker and fingerprint. Both may stand on one
topic; the header landed-schema names the schema in either case. docs/decoding.md shows consumers for both.
"""

_TEXT: Final = {"type": "string"}
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    records.HEADER_TYPE: {**_TEXT, "description": "Name of the event."},
    records.HEADER_SCHEMA: {**_TEXT, "description": "CRC-64-AVRO fingerprint of the schema, little-endian, hexadecimal."},
    records.HEADER_KEY_ID: {**_TEXT, "description": "Key id of the MAC; only together with it."},
    records.HEADER_MAC: {
        **_TEXT,
        "pattern": "^[0-9a-f]{64}$",
        "description": "HMAC-SHA256 over record key and value; docs/events.md says of which bytes.",
    },
    records.HEADER_TRACE: {**_TEXT, "description": "W3C trace context, where the writer had one."},
    cloudevents.SPECVERSION: {**_TEXT, "const": "1.0"},
    cloudevents.ID: {**_TEXT, "description": "The event id; a repeat of an event has the same one."},
    cloudevents.SOURCE: {**_TEXT, "description": "//landed/tenants/ and the tenant, percent-encoded; //landed without one."},
    cloudevents.TYPE: {**_TEXT, "description": "Full name of the event's Avro record."},
    cloudevents.SUBJECT: {**_TEXT, "description": "The operation, or the route where there is none."},
    cloudevents.CONTENT_TYPE: {**_TEXT, "const": "application/avro"},
}
_ALWAYS: Final = (records.HEADER_TYPE, records.HEADER_SCHEMA)


def document(*, topic: str = LEDGER_TOPIC, replies_topic: str = REPLIES_TOPIC) -> Document:
    """The document as plain values, in the order in which it is to be read."""
    schemas = landed_schemas.schemas()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "landed: the ledger's topics",
            "version": version("landed"),
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/avro",
        "channels": {
            "operations": {
                "address": topic,
                "title": "The ledger",
                "description": "Compacted under keys that never repeat, so that compaction removes only what a tombstone names. "
                "Partition: (murmur2(key up to its second slash) & 0x7fffffff) % partitions.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in schemas},
                "bindings": {"kafka": _topic_binding(topic, LEDGER_CONFIG, partitions=PARTITIONS_DEFAULT)},
            },
            "replies": {
                "address": replies_topic,
                "title": "Verdicts on their way to who claimed",
                "description": "Kept for a short while and never read again. For the SDK; other consumers read the ledger.",
                "messages": {"verdicts": {"$ref": "#/components/messages/verdicts"}},
                "bindings": {"kafka": _topic_binding(replies_topic, REPLIES_CONFIG)},
            },
        },
        "operations": {
            "publishEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/operations"},
                "summary": "What anybody may read: every event, in log order within a partition.",
            },
            "takeEvents": {
                "action": "receive",
                "channel": {"$ref": "#/channels/operations"},
                "summary": "What the services fold: events of every writer whose MAC is right.",
            },
            "sendVerdicts": {
                "action": "send",
                "channel": {"$ref": "#/channels/replies"},
                "summary": "Answers to claims, as the fold gave them.",
            },
        },
        "components": {
            "messages": {
                **{name: _event(name, schema, topic) for name, schema in schemas.items()},
                "verdicts": _verdicts(),
            },
            "schemas": {"recordHeaders": {"type": "object", "required": list(_ALWAYS), "properties": _HEADERS}},
        },
    }


def as_yaml(described: Document) -> str:
    """*described* as YAML, long texts as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    made: str = yaml.dump(described, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=128)
    return made


def _event(name: str, schema: landed_schemas.Schema, topic: str) -> Document:
    raw = json.loads(landed_schemas.text(name))
    own = {
        records.HEADER_TYPE: name,
        records.HEADER_SCHEMA: landed_schemas.fingerprint(schema).hex(),
        cloudevents.TYPE: schema["name"],
    }
    return {
        "name": schema["name"],
        "title": name,
        "summary": raw["doc"],
        "contentType": "application/avro",
        "headers": {
            "type": "object",
            "allOf": [{"$ref": "#/components/schemas/recordHeaders"}],
            "properties": {header: {"const": value} for header, value in own.items()},
        },
        "payload": {"schemaFormat": _AVRO, "schema": raw},
        "bindings": {
            "kafka": {
                "key": {
                    "type": "string",
                    "description": "tenant/route/operation/event_id/nonce, each part percent-encoded; no two records share one.",
                },
                "schemaIdLocation": "payload",
                "schemaIdPayloadEncoding": "confluent",
                "schemaLookupStrategy": "TopicRecordNameStrategy",
                "bindingVersion": _BINDING,
            }
        },
        "x-landed-subject": subject(topic, schema),
    }


def _verdicts() -> Document:
    described, parts = msgspec.json.schema_components([Verdict])
    # Definitions stand in the payload itself, so that it can be lifted out as one JSON Schema.
    text = json.dumps({"type": "array", "items": described[0], "definitions": parts})
    payload = json.loads(text.replace("#/$defs/", f"#/{_PAYLOAD}/definitions/"))
    return {
        "name": "verdicts",
        "title": "verdicts",
        "summary": "Verdicts for one instance of the SDK, in their order.",
        "contentType": "application/json",
        "payload": payload,
        "bindings": {
            "kafka": {
                "key": {**_TEXT, "description": "Name of the instance that waits: `reply_to` of its claims."},
                "bindingVersion": _BINDING,
            }
        },
    }


def _topic_binding(topic: str, config: Mapping[str, str], *, partitions: int | None = None) -> Document:
    """Settings of a topic that the guarantees stand on, in the types that the binding wants."""
    typed: Document = {name: int(value) if value.isdecimal() else value for name, value in config.items()}
    typed["cleanup.policy"] = config["cleanup.policy"].split(",")
    bound = {"topic": topic} if partitions is None else {"topic": topic, "partitions": partitions}
    return {**bound, "topicConfiguration": typed, "bindingVersion": _BINDING}
