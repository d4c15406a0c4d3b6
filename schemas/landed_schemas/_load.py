"""Reads the schema files that are shipped inside the package."""

import functools
import json
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any, Final, cast

import fastavro
from fastavro.schema import fingerprint as avro_fingerprint
from fastavro.schema import to_parsing_canonical_form

Schema = dict[str, Any]
"""A parsed Avro schema as fastavro takes it. Shared: not to be changed."""

_SUFFIX: Final = ".avsc"


def parse(text: str) -> Schema:
    """The schema in *text*, checked against the rules of Avro.

    Raises:
        fastavro.schema.SchemaParseException, fastavro.schema.UnknownType: it breaks one of them.
        json.JSONDecodeError: it is not JSON.
    """
    return cast(Schema, fastavro.parse_schema(json.loads(text)))


def fingerprint(schema: Schema) -> bytes:
    """CRC-64-AVRO of the schema's Parsing Canonical Form: 8 bytes, little-endian as single-object encoding puts them.

    Names, types, symbols and their order count; docs and defaults do not.
    """
    # fastavro's hexadecimal text is little-endian already; turned round it would be one that no other reader knows.
    return bytes.fromhex(avro_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@functools.cache
def schemas() -> Mapping[str, Schema]:
    """The present schema of every event, by the event's name on the log."""
    return _folder(resources.files(__package__) / "events")


def text(name: str) -> str:
    """The present schema of the event *name* as it stands in its file: complete, with its docs and defaults."""
    return (resources.files(__package__) / "events" / f"{name}{_SUFFIX}").read_text("utf-8")


@functools.cache
def released() -> Mapping[str, Mapping[str, Schema]]:
    """The schemas of every release, by version and then by the event's name; empty before the first release."""
    versions = resources.files(__package__) / "released"
    return MappingProxyType({each.name: _folder(each) for each in versions.iterdir() if each.is_dir()})


def _folder(folder: Traversable) -> Mapping[str, Schema]:
    files = sorted((each for each in folder.iterdir() if each.name.endswith(_SUFFIX)), key=lambda each: each.name)
    return MappingProxyType({each.name.removesuffix(_SUFFIX): parse(each.read_text("utf-8")) for each in files})
