"""The schemas are the contract of the log: they say what the events of the core say, and they say it to a reader without code."""

import enum
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import landed_schemas
from landed.core.events import CATALOGUE, Event

NORM = [
    "operation_prepared",
    "dispatch_requested",
    "dispatch_granted",
    "dispatch_refused",
    "dispatch_released",
    "lease_renewed",
    "lease_expired",
    "outcome_confirmed",
    "outcome_rejected",
    "outcome_unknown",
    "probe_recorded",
    "absence_established",
    "effect_reverted",
    "operation_cancelled",
    "operation_escalated",
    "review_decided",
    "approval_requested",
    "approval_decided",
    "webhook_received",
    "unmatched_news",
    "agent_statement",
    "group_opened",
    "group_closed",
    "unwind_requested",
    "group_unwinding",
    "compensation_authorized",
    "policy_changed",
    "breaker_changed",
    "operation_erased",
    "operation_retired",
    "genesis",
    "heartbeat",
]
"""The catalogue of docs/semantics.md §2, in its order."""

NAMESPACE = "landed.events.v1"
FOLDER = Path(landed_schemas.__file__).parent
EVERY_EVENT = pytest.mark.parametrize("name", list(CATALOGUE))


def raw(name: str) -> dict[str, Any]:
    """The schema as it stands in the file, before anything is resolved."""
    schema: dict[str, Any] = msgspec.json.decode((FOLDER / "events" / f"{name}.avsc").read_bytes())
    return schema


def named_types(node: Any) -> dict[str, dict[str, Any]]:
    """Every record and enum inside *node*, by name."""
    if isinstance(node, list):
        return {name: each for branch in node for name, each in named_types(branch).items()}
    if not isinstance(node, dict):
        return {}
    found = {node["name"]: node} if node["type"] in ("record", "enum") else {}
    inner = [field["type"] for field in node.get("fields", ())] + [node[k] for k in ("items", "values") if k in node]
    return found | named_types(inner)


def expected_type(declared: Any, seen: set[str]) -> Any:
    """The Avro type for a type of the core, without docs; a named type in full the first time, by name after that."""
    plain = {str: "string", int: "long", bool: "boolean"}
    if declared in plain:
        return plain[declared]
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin is types.UnionType:
        (inner,) = (each for each in args if each is not types.NoneType)
        return ["null", expected_type(inner, seen)]
    if origin is list:
        return {"type": "array", "items": expected_type(args[0], seen)}
    if origin is dict:
        assert args[0] is str
        return {"type": "map", "values": expected_type(args[1], seen)}
    if declared.__name__ in seen:
        return declared.__name__
    seen.add(declared.__name__)
    if issubclass(declared, enum.Enum):
        return {"type": "enum", "name": declared.__name__, "symbols": [member.value for member in declared]}
    return {"type": "record", "name": declared.__name__, "fields": expected_fields(declared, seen)}


def expected_fields(struct: type[msgspec.Struct], seen: set[str]) -> list[dict[str, Any]]:
    fields = []
    for field in msgspec.structs.fields(struct):
        expected = {"name": field.name, "type": expected_type(field.type, seen)}
        if isinstance(expected["type"], list):
            expected["default"] = None
            assert field.default in (None, msgspec.NODEFAULT)
        elif field.default is not msgspec.NODEFAULT:
            expected["default"] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            expected["default"] = field.default_factory()
        fields.append(expected)
    return fields


def undocumented(node: Any) -> Any:
    if isinstance(node, list):
        return [undocumented(each) for each in node]
    if isinstance(node, dict):
        return {key: undocumented(each) for key, each in node.items() if key != "doc"}
    return node


def test_the_catalogue_is_that_of_the_norm() -> None:
    assert sorted(CATALOGUE) == sorted(NORM)


def test_the_folder_holds_one_schema_for_each_event_and_nothing_else() -> None:
    assert {each.name for each in (FOLDER / "events").iterdir()} == {f"{name}.avsc" for name in NORM}
    assert set(landed_schemas.schemas()) == set(NORM)


@EVERY_EVENT
def test_a_schema_has_the_fields_of_its_event_with_their_types_nullability_and_defaults(name: str) -> None:
    event = CATALOGUE[name]
    assert undocumented(raw(name)) == {
        "type": "record",
        "name": event.__name__,
        "namespace": NAMESPACE,
        "fields": expected_fields(event, set()),
    }


@EVERY_EVENT
def test_a_record_is_named_as_its_event_is_on_the_log(name: str) -> None:
    assert raw(name)["name"] == "".join(word.capitalize() for word in name.split("_"))


@EVERY_EVENT
def test_every_record_field_and_symbol_is_documented(name: str) -> None:
    for each in named_types(raw(name)).values():
        assert each["doc"].endswith("."), each["name"]
        for field in each.get("fields", ()):
            assert field["doc"].endswith("."), f"{each['name']}.{field['name']}"
        for symbol in each.get("symbols", ()):
            assert f"{symbol}: " in each["doc"], f"{each['name']}: {symbol}"


@EVERY_EVENT
def test_every_time_says_its_unit_and_every_instant_its_zone(name: str) -> None:
    for each in named_types(raw(name)).values():
        for field in each.get("fields", ()):
            place = f"{each['name']}.{field['name']}"
            if field["name"].endswith("_ms"):
                assert "milliseconds" in field["doc"], place
            if field["name"].endswith("_at_ms") or "time" in field["name"]:
                assert "since the epoch, UTC" in field["doc"], place
            if field["name"].endswith("_s"):
                assert "seconds" in field["doc"], place


@EVERY_EVENT
def test_the_envelope_comes_first_and_is_the_same_to_the_letter_in_each_schema(name: str) -> None:
    size = len(Event.__struct_fields__)
    envelope = raw("heartbeat")["fields"]
    assert [field["name"] for field in envelope] == list(Event.__struct_fields__)
    assert raw(name)["fields"][:size] == envelope


def test_a_type_that_events_share_is_the_same_to_the_letter_in_each_schema() -> None:
    found: dict[str, dict[str, Any]] = {}
    for name in CATALOGUE:
        for type_name, node in named_types(raw(name)).items():
            assert found.setdefault(type_name, node) == node, f"{type_name} in {name}"
    assert {"Claim", "Position", "CallRecord", "Source"} <= set(found)


@EVERY_EVENT
def test_no_enum_has_a_default_that_an_unknown_symbol_could_turn_into(name: str) -> None:
    assert [each["name"] for each in named_types(raw(name)).values() if "symbols" in each and "default" in each] == []


def test_no_two_schemas_have_one_fingerprint() -> None:
    assert len({landed_schemas.fingerprint(schema) for schema in landed_schemas.schemas().values()}) == len(NORM)


def test_a_fingerprint_is_crc_64_avro_in_little_endian_bytes() -> None:
    """Known value: the Avro project's own test of the schema "int", 0x7275d51a3f395c8f."""
    assert int.from_bytes(landed_schemas.fingerprint(landed_schemas.parse('"int"')), "little") == 0x7275D51A3F395C8F


def test_a_fingerprint_does_not_change_with_words_only() -> None:
    silent = landed_schemas.parse(msgspec.json.encode(undocumented(raw("genesis"))).decode())
    assert landed_schemas.fingerprint(silent) == landed_schemas.fingerprint(landed_schemas.schemas()["genesis"])


def test_today_may_follow_every_release() -> None:
    """Both directions, against each released version: see docs/events.md."""
    today = landed_schemas.schemas()
    for version, schemas in landed_schemas.released().items():
        assert set(schemas) <= set(today), version
        for name, schema in schemas.items():
            assert landed_schemas.problems(old=schema, new=today[name]) == [], f"{name} since {version}"


def test_a_release_is_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "released" / "0.1.0").mkdir(parents=True)
    (tmp_path / "released" / "README.md").write_text("not a version")
    (tmp_path / "released" / "0.1.0" / "genesis.avsc").write_bytes((FOLDER / "events" / "genesis.avsc").read_bytes())
    (tmp_path / "released" / "0.1.0" / "NOTES.md").write_text("not a schema")
    landed_schemas.released.cache_clear()
    monkeypatch.setattr("landed_schemas._load.resources.files", lambda _: tmp_path)
    try:
        assert landed_schemas.released() == {"0.1.0": {"genesis": landed_schemas.schemas()["genesis"]}}
    finally:
        landed_schemas.released.cache_clear()
