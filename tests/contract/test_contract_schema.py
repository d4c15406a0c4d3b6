"""The published JSON Schema of contract files is the one that the code makes, and says of every field what it means."""

import json
from pathlib import Path

import msgspec
import pytest

import landed_schemas
from landed.core import contract as parts
from landed.core.contract import Contract
from landed.core.contract_schema import _PARTS_OF, contracts_schema
from landed.core.contract_words import MEANING, PARTS

PUBLISHED = Path(landed_schemas.__file__).parent / "contracts.schema.json"


def fields() -> set[str]:
    found = {field.name for field in msgspec.structs.fields(Contract)}
    for name, prefix in _PARTS_OF.items():
        found |= {f"{prefix}.{field.name}" for field in msgspec.structs.fields(getattr(parts, name))}
    return found


def test_the_published_schema_is_the_one_of_the_code() -> None:
    """Stale? landed contracts schema > schemas/landed_schemas/contracts.schema.json"""
    assert json.loads(PUBLISHED.read_text()) == contracts_schema()


def test_every_field_of_a_contract_has_a_meaning_and_no_other_has() -> None:
    assert set(MEANING) == fields()


def test_every_field_is_in_one_of_the_five_parts() -> None:
    named = [name for _, names in PARTS for name in names]
    assert sorted(named) == sorted(field.name for field in msgspec.structs.fields(Contract))
    assert [part for part, _ in PARTS] == ["effect", "request", "answer", "reconciliation", "compensation"]


@pytest.mark.parametrize("name", ["Contract", *_PARTS_OF])
def test_the_schema_takes_no_unknown_field(name: str) -> None:
    assert contracts_schema()["$defs"][name]["additionalProperties"] is False
