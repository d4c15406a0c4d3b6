"""A bundle: one file that tells the same story anywhere, and is refused once it was touched, naming the first bad record."""

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.replay.support import RING, items, lost_answer, record_of

import landed_schemas
from landed.wire.codec import Codec
from landed.wire.mac import UNSIGNED, KeyRing
from landed.wire.records import Record
from landed_services.reading import Freezing, Item, Refused, read_item
from landed_services.replay.bundle import Bundle, Head, Written, write_bundle
from landed_services.replay.errors import BundleRefused, NoBundle
from landed_services.replay.scope import Scope
from landed_services.replay.telling import Story

HEAD = Head(landed_bundle=1, release="0.1.0", topic="landed.operations", partitions=1, scope={}, made_at_ms=1)
STRANGER = KeyRing({"writer-1": b"another secret of thirty-two bytes"}, signing="writer-1", mandatory=True)
OTHER = KeyRing({"writer-2": b"another secret of thirty-two bytes"}, mandatory=False)
Lines = list[dict[str, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "b.landed", items(lost_answer().log))
    return tmp_path / "b.landed"


def write(path: Path, log: list[Item], ring: KeyRing = RING) -> Written:
    return write_bundle(path, HEAD, log, ring)


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def rewrite(path: Path, lines: Lines) -> None:
    path.write_bytes(gzip.compress(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)))


def records_in(lines: Lines) -> list[int]:
    return [number for number, line in enumerate(lines) if line.get("is") == "record"]


def test_a_bundle_tells_the_story_that_the_log_tells(path: Path) -> None:
    bundle, told, first = Bundle(path, RING), Story(Scope()), Story(Scope())
    log = items(lost_answer().log)
    assert list(told.lines(bundle.items())) == list(first.lines(log))
    assert list(told.decisions()) == list(first.decisions())
    assert (bundle.checked.records, bundle.checked.signed_by, bundle.checked.proven) == (len(log), "writer-1", True)


@pytest.mark.parametrize("ring", [UNSIGNED, OTHER], ids=["no key", "another key"])
def test_who_holds_no_key_reads_it_and_is_told_that_its_origin_is_not_proven(path: Path, ring: KeyRing) -> None:
    bundle = Bundle(path, ring)
    assert len(list(bundle.items())) == 7
    assert not bundle.checked.proven


def other_value(lines: Lines, at: int) -> None:
    value = bytearray(base64.b64decode(lines[at]["value"]))
    value[-1] ^= 1
    lines[at]["value"] = base64.b64encode(bytes(value)).decode()


def other_time(lines: Lines, at: int) -> None:
    lines[at]["at_ms"] += 1


def other_header(lines: Lines, at: int) -> None:
    lines[at]["headers"] = []


def taken_out(lines: Lines, at: int) -> None:
    lines.pop(at)


def twice(lines: Lines, at: int) -> None:
    lines.insert(at, lines[at - 1])


def other_order(lines: Lines, at: int) -> None:
    lines.insert(at, lines.pop(at + 1))


@pytest.mark.parametrize("ring", [RING, UNSIGNED], ids=["with the key", "without"])
@pytest.mark.parametrize("touch", [other_value, other_time, other_header, taken_out, twice, other_order])
def test_a_touched_bundle_is_refused_and_names_the_first_bad_record(
    path: Path, touch: Callable[[Lines, int], None], ring: KeyRing
) -> None:
    lines = lines_of(path)
    at = records_in(lines)[3]
    touch(lines, at)
    rewrite(path, lines)
    with pytest.raises(BundleRefused, match=rf"line {at + 1}: record 0:{lines[at]['offset']} is not what was exported"):
        Bundle(path, ring)


def test_a_bundle_that_was_made_anew_around_a_changed_record_names_it_to_who_holds_the_key(path: Path) -> None:
    lines = lines_of(path)
    forged = []
    for number, entry in enumerate(lost_answer().log):
        forged.append(record_of(entry, STRANGER if number == 3 else RING))
    made = [read_item(one, ring=UNSIGNED, partitions=1) for one in forged]
    path.unlink()
    write(path, made, STRANGER)
    assert len(lines_of(path)) == len(lines)
    with pytest.raises(BundleRefused, match="record 0:3 is not what its writer signed: mac_wrong"):
        Bundle(path, RING)


def test_a_signature_of_somebody_else_is_refused_though_every_record_is_right(path: Path) -> None:
    path.unlink()
    write(path, items(lost_answer().log), STRANGER)
    with pytest.raises(BundleRefused, match="its signature under key writer-1: mac_wrong"):
        Bundle(path, RING)


def test_where_keys_are_set_a_bundle_without_a_signature_is_refused(path: Path) -> None:
    path.unlink()
    written = write(path, items(lost_answer().log, UNSIGNED), UNSIGNED)
    assert written.signed_by is None
    assert not Bundle(path, UNSIGNED).checked.proven
    with pytest.raises(BundleRefused, match="it is not signed"):
        Bundle(path, RING)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_bundle_that_breaks_off_is_refused(path: Path, kept: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(BundleRefused):
        Bundle(path, UNSIGNED)


def test_lines_after_the_end_and_a_missing_end_are_refused(path: Path) -> None:
    lines = lines_of(path)
    rewrite(path, [*lines, lines[-2]])
    with pytest.raises(BundleRefused, match="something follows the end"):
        Bundle(path, UNSIGNED)
    rewrite(path, lines[:-1])
    with pytest.raises(BundleRefused, match="it breaks off after record 0:6"):
        Bundle(path, UNSIGNED)


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b""), gzip.compress(b"{}\n")],
    ids=["empty", "not compressed", "compressed nothing", "compressed object"],
)
def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(NoBundle):
        Bundle(tmp_path / "x", UNSIGNED)


def test_a_later_format_is_named(path: Path) -> None:
    lines = lines_of(path)
    lines[0]["landed_bundle"] = 2
    rewrite(path, lines)
    with pytest.raises(NoBundle, match="format 2; this release reads format 1"):
        Bundle(path, UNSIGNED)


def test_of_a_record_that_was_not_taken_no_content_leaves_the_log(tmp_path: Path) -> None:
    secret = b"customer content"
    stray = Record(key=b"k", value=secret, headers=(("x", secret),), partition=0, offset=0, timestamp_ms=5)
    taken = record_of(lost_answer().log[0])
    noted = msgspec.structs.replace(taken, headers=(*taken.headers, ("x-note", secret)), offset=1)
    path = tmp_path / "b"
    write(path, [read_item(one, ring=RING, partitions=1) for one in (stray, noted)])
    text = gzip.decompress(path.read_bytes())
    assert secret not in text
    assert base64.b64encode(secret) not in text
    first, second = Bundle(path, RING).items()
    assert isinstance(first.what, Refused)
    assert first.what.reason == "key_malformed"
    assert not isinstance(second.what, Refused)


def test_records_of_another_release_are_read_by_the_schemas_in_the_bundle_once_its_origin_is_proven(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {name: schema for name, schema in landed_schemas.schemas().items() if name != "outcome_unknown"}
    other = landed_schemas.parse(json.dumps({"type": "record", "name": "landed.OutcomeUnknown", "fields": []}))
    monkeypatch.setattr(landed_schemas, "schemas", lambda: {**older, "outcome_unknown": other})
    monkeypatch.setattr("landed.wire.records.codec", lambda: Codec(older))
    proven = list(Bundle(path, RING).items())
    assert not any(isinstance(item.what, Freezing) for item in proven)
    unproven = list(Bundle(path, UNSIGNED).items())
    assert [type(item.what) for item in unproven].count(Freezing) == 1


def test_no_file_is_overwritten_and_none_is_left_half_written(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        write(path, [])
    assert path.read_bytes() == before

    def breaks() -> Any:
        yield items(lost_answer().log)[0]
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_bundle(tmp_path / "c", HEAD, breaks(), RING)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.landed"]


def test_equal_content_gives_equal_bytes(path: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", items(lost_answer().log))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
