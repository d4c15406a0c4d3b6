"""docs/events.md says what the schemas and the code say, field by field and word by word."""

from pathlib import Path
from typing import Any

import pytest

import landed_schemas
from landed.core.events import CATALOGUE, Event
from landed.wire import keys, mac, records
from landed.wire.reasons import FREEZING, Reason

DOCUMENT = (Path(__file__).parents[2] / "docs" / "events.md").read_text("utf-8")
PLAIN = {"string": "text", "long": "integer", "boolean": "true or false"}


def sections(text: str, mark: str) -> dict[str, str]:
    """Text below each heading that begins with *mark*, by the heading's words."""
    found: dict[str, str] = {}
    for part in f"\n{text}".split(f"\n{mark} ")[1:]:
        title, _, body = part.partition("\n")
        found[title.strip().strip("`")] = body.split("\n## ")[0]
    return found


CHAPTERS, ENTRIES = sections(DOCUMENT, "##"), sections(DOCUMENT, "###")


def type_words(node: Any) -> str:
    if isinstance(node, list):
        return f"{type_words(node[1])}, or null"
    if isinstance(node, str):
        return PLAIN.get(node) or f"`{node.rpartition('.')[2]}`"
    if node["type"] == "array":
        return f"list of {type_words(node['items'])}"
    if node["type"] == "map":
        return f"map of text to {type_words(node['values'])}"
    return f"`{node['name'].rpartition('.')[2]}`"


def field_row(field: dict[str, Any]) -> str:
    return f"| `{field['name']}` | {type_words(field['type'])} | {field['doc']} |"


def symbol_rows(enum: dict[str, Any]) -> list[str]:
    """A row for each symbol, from the schema's words `symbol: meaning; symbol: meaning.`"""
    words = enum["doc"].partition(f"{enum['symbols'][0]}: ")
    meanings = f"{words[1]}{words[2]}".rstrip(".")
    rows = []
    for symbol, after in zip(enum["symbols"], [*enum["symbols"][1:], None], strict=True):
        start = meanings.index(f"{symbol}: ") + len(f"{symbol}: ")
        end = len(meanings) if after is None else meanings.index(f"; {after}: ", start)
        rows.append(f"| `{symbol}` | {meanings[start:end]} |")
        meanings = meanings[end:]
    return rows


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


def shared_types() -> dict[str, dict[str, Any]]:
    """Records and enums that stand inside the schemas, by their short name."""
    found: dict[str, dict[str, Any]] = {}

    def collect(node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                collect(each)
        elif isinstance(node, dict):
            if node["type"] in ("record", "enum"):
                found[node["name"].rpartition(".")[2]] = node
            for field in node.get("fields", ()):
                collect(field["type"])
            collect(node.get("items"))
            collect(node.get("values"))

    for schema in landed_schemas.schemas().values():
        for field in schema["fields"]:
            collect(field["type"])
    return found


def test_the_document_has_an_entry_for_each_event_and_shared_type_and_no_other() -> None:
    assert set(ENTRIES) == set(CATALOGUE) | set(shared_types())


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_an_event_is_documented_with_its_meaning_its_writers_and_each_of_its_fields(name: str) -> None:
    schema = landed_schemas.schemas()[name]
    entry = ENTRIES[name].strip().splitlines()
    assert entry[0] == schema["doc"]
    assert entry[1].startswith("Written by: ")
    assert rows(ENTRIES[name]) == [field_row(field) for field in schema["fields"][len(Event.__struct_fields__) :]]


def test_the_envelope_is_documented_with_each_of_its_fields() -> None:
    envelope = landed_schemas.schemas()["heartbeat"]["fields"]
    assert rows(CHAPTERS["Envelope"]) == [field_row(field) for field in envelope]


@pytest.mark.parametrize("name", list(shared_types()))
def test_a_shared_type_is_documented_with_each_of_its_fields_or_words(name: str) -> None:
    node = shared_types()[name]
    assert ENTRIES[name].strip()
    expected = [field_row(field) for field in node["fields"]] if "fields" in node else symbol_rows(node)
    assert rows(ENTRIES[name]) == expected


def test_every_reason_is_documented_in_order_with_what_it_does_to_the_operation() -> None:
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows(CHAPTERS["Records that are not taken"])]
    assert [(row[0], row[2]) for row in table] == [(f"`{each}`", "frozen" if each in FREEZING else "–") for each in Reason]
    assert all(row[1] for row in table)


@pytest.mark.parametrize(
    "name", [records.HEADER_TYPE, records.HEADER_SCHEMA, records.HEADER_KEY_ID, records.HEADER_MAC, records.HEADER_TRACE]
)
def test_every_header_is_documented(name: str) -> None:
    assert f"| `{name}` |" in CHAPTERS["Headers"]


@pytest.mark.parametrize("limit", [records.RECORD_BYTES_MAX, records.FIRST_BYTES, keys.KEY_BYTES_MAX, mac.SECRET_BYTES_MIN])
def test_every_limit_is_documented(limit: int) -> None:
    assert f"{limit:,} bytes" in DOCUMENT
