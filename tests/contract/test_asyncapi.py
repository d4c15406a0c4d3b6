"""The AsyncAPI document is valid by the specification, says what the code does, and the one that ships is up to date."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
import yaml
from hypothesis import given, settings
from jsonschema import Draft7Validator
from tests.property.test_codec import out_of, placed_events

import landed_schemas
from landed.core.events import CATALOGUE, TYPE_OF, Event
from landed.core.verdict import Verdict
from landed.core.vocabulary import State
from landed.wire.cloudevents import cloud_event
from landed.wire.framing import HEADER_BYTES
from landed_services.asyncapi import as_yaml, document

SHIPPED = Path("docs/asyncapi.yaml")
SPECIFICATION = Path(__file__).parent / "asyncapi" / "3.0.0.json"
DOCUMENT = document()
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]


def test_the_document_is_valid_by_the_schema_of_the_specification() -> None:
    validator = Draft7Validator(json.loads(SPECIFICATION.read_text("utf-8")))
    assert [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(DOCUMENT)] == []


@pytest.mark.parametrize(
    "broken", [{"info": {"title": "no version"}}, {"channels": {"operations": {"address": 1}}}, {"asyncapi": "2"}]
)
def test_the_schema_of_the_specification_refuses_what_is_wrong(broken: dict[str, Any]) -> None:
    validator = Draft7Validator(json.loads(SPECIFICATION.read_text("utf-8")))
    assert not validator.is_valid({**DOCUMENT, **broken})


def test_the_shipped_document_is_what_the_code_makes() -> None:
    made = as_yaml(DOCUMENT)
    assert SHIPPED.read_text("utf-8") == made, f"write it anew: make docs (or: landed asyncapi > {SHIPPED})"
    assert yaml.safe_load(made) == DOCUMENT


def test_every_reference_leads_somewhere_in_the_document() -> None:
    found = list(_references(DOCUMENT))
    assert found
    for reference in found:
        node: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def _references(node: Any) -> Any:
    match node:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for value in node.values():
                yield from _references(value)
        case list():
            for value in node:
                yield from _references(value)


def test_there_is_one_message_for_each_event_and_one_for_verdicts() -> None:
    assert set(MESSAGES) == {*CATALOGUE, "verdicts"}
    assert set(DOCUMENT["channels"]["operations"]["messages"]) == set(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_payload_in_the_document_is_the_schema_that_the_event_is_written_under(name: str) -> None:
    described = fastavro.parse_schema(MESSAGES[name]["payload"]["schema"])
    fingerprint = landed_schemas.fingerprint(landed_schemas.schemas()[name])
    assert landed_schemas.fingerprint(described) == fingerprint  # type: ignore[arg-type]
    assert MESSAGES[name]["headers"]["properties"]["landed-schema"] == {"const": fingerprint.hex()}


@settings(max_examples=100)
@given(placed_events())
def test_every_record_has_the_headers_and_the_body_of_its_message(event: Event) -> None:
    message, record = MESSAGES[TYPE_OF[type(event)]], out_of(event)
    headers = {name: value.decode() for name, value in (*record.headers, *cloud_event(event))}
    assert set(headers) <= set(DOCUMENT["components"]["schemas"]["recordHeaders"]["properties"])
    described = {**message["headers"], "components": DOCUMENT["components"]}
    assert [error.message for error in Draft7Validator(described).iter_errors(headers)] == []
    body = io.BytesIO(record.value[HEADER_BYTES:])
    schema = fastavro.parse_schema(message["payload"]["schema"])
    assert fastavro.schemaless_reader(body, schema, None) == msgspec.to_builtins(event)
    assert not body.read()


def test_a_verdict_has_the_form_of_its_message() -> None:
    verdict = Verdict(
        tenant_id="acme", operation_id="refund-1", claim_id="c1", reply_to="sdk-1", state=State.DISPATCHED, version=2, at_ms=1
    )
    described = {**MESSAGES["verdicts"]["payload"], "components": DOCUMENT["components"]}
    validator = Draft7Validator(described)
    assert [error.message for error in validator.iter_errors([msgspec.to_builtins(verdict)])] == []
    assert not validator.is_valid([{"claim_id": "c1"}])
