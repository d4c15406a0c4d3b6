"""What may change in a schema after its release. Each verdict is held against a real Avro reader on real bytes."""

import copy
import io
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

import landed_schemas

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Told",
    "fields": [
        {"name": "who", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "word", "type": {"type": "enum", "name": "Word", "symbols": ["yes", "no"]}},
        {
            "name": "many",
            "type": {"type": "array", "items": {"type": "record", "name": "Each", "fields": [{"name": "n", "type": "long"}]}},
        },
        {"name": "by_name", "type": {"type": "map", "values": "Each"}},
    ],
}
DATUM: dict[str, Any] = {"who": "a", "note": "b", "word": "no", "many": [{"n": 1}], "by_name": {"x": {"n": 2}}}


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    new = copy.deepcopy(OLD)
    change(new)
    return new


def parsed(schema: dict[str, Any]) -> Any:
    return fastavro.parse_schema(copy.deepcopy(schema))


def problems(new: dict[str, Any]) -> list[str]:
    return landed_schemas.problems(old=parsed(OLD), new=parsed(new))


def carried(datum: dict[str, Any], *, written: dict[str, Any], read: dict[str, Any]) -> Any:
    """*datum* as a reader of one schema sees what was written under the other."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed(written), datum)
    out.seek(0)
    return fastavro.schemaless_reader(out, parsed(written), parsed(read))


def field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in schema["fields"] if each["name"] == name)
    return found


def without(schema: dict[str, Any], name: str) -> None:
    schema["fields"].remove(field(schema, name))


def test_the_same_schema_may_follow_itself() -> None:
    assert problems(OLD) == []


def test_a_field_with_a_default_may_be_added_and_is_read_both_ways() -> None:
    new = changed(lambda s: s["fields"].append({"name": "extra", "type": ["null", "long"], "default": None}))
    assert problems(new) == []
    assert carried(DATUM, written=OLD, read=new) == {**DATUM, "extra": None}
    assert carried({**DATUM, "extra": 7}, written=new, read=OLD) == DATUM


def test_a_field_without_a_default_may_not_be_added() -> None:
    new = changed(lambda s: s["fields"].append({"name": "extra", "type": "long"}))
    assert problems(new) == ["extra: was added without a default"]
    with pytest.raises(fastavro.read.SchemaResolutionError):
        carried(DATUM, written=OLD, read=new)


def test_a_field_inside_a_shared_type_counts_wherever_the_type_stands() -> None:
    def change(schema: dict[str, Any]) -> None:
        field(schema, "many")["type"]["items"]["fields"].append({"name": "m", "type": "long"})

    assert problems(changed(change)) == ["many[].m: was added without a default", "by_name[].m: was added without a default"]


def test_a_field_without_a_default_may_not_be_removed() -> None:
    new = changed(lambda s: without(s, "who"))
    assert problems(new) == ["who: was removed and had no default"]
    with pytest.raises(fastavro.read.SchemaResolutionError):
        carried({k: v for k, v in DATUM.items() if k != "who"}, written=new, read=OLD)


def test_a_field_with_a_default_may_be_removed() -> None:
    new = changed(lambda s: without(s, "note"))
    assert problems(new) == []
    assert carried({k: v for k, v in DATUM.items() if k != "note"}, written=new, read=OLD) == {**DATUM, "note": None}


def test_a_type_may_not_change() -> None:
    assert problems(changed(lambda s: field(s, "who").update(type="long"))) == ["who: string became long"]


def test_a_required_field_may_not_become_optional() -> None:
    """Avro would read one direction; the other breaks on the first null."""
    new = changed(lambda s: field(s, "who").update(type=["null", "string"], default=None))
    assert problems(new) == ["who: string became null | string"]
    with pytest.raises(fastavro.read.SchemaResolutionError):
        carried({**DATUM, "who": None}, written=new, read=OLD)


def test_a_record_may_not_change_its_name() -> None:
    assert problems(changed(lambda s: s.update(name="Other"))) == ["the record: record Told became record Other"]


def test_a_symbol_may_be_added_at_the_end_and_stops_an_older_reader_at_the_records_that_use_it() -> None:
    new = changed(lambda s: field(s, "word")["type"]["symbols"].append("maybe"))
    assert problems(new) == []
    assert carried(DATUM, written=OLD, read=new) == DATUM
    assert carried(DATUM, written=new, read=OLD) == DATUM
    with pytest.raises(fastavro.read.SchemaResolutionError):
        carried({**DATUM, "word": "maybe"}, written=new, read=OLD)


@pytest.mark.parametrize("symbols", [["yes"], ["no", "yes"], ["maybe", "yes", "no"]])
def test_a_symbol_may_not_be_removed_or_moved(symbols: list[str]) -> None:
    new = changed(lambda s: field(s, "word")["type"].update(symbols=symbols))
    assert problems(new) == ["word: symbols were removed or moved"]


def test_an_enum_may_not_have_a_default_since_an_unknown_symbol_would_be_read_as_another() -> None:
    defaulted = changed(lambda s: field(s, "word")["type"].update(default="yes"))
    assert problems(defaulted) == ["word: an enum has a default, so an unknown symbol would be read as another"]
    newer = changed(lambda s: field(s, "word")["type"]["symbols"].append("maybe"))
    assert carried({**DATUM, "word": "maybe"}, written=newer, read=defaulted)["word"] == "yes"
