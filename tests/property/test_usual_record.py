"""Reading a record the short way, as nearly all can be read, takes nothing that a close look would not take alike."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.property.test_codec import RING, RINGS
from tests.unit.replay.support import lost_answer

from landed.core.events import Entry, Event
from landed.wire import records
from landed.wire.codec import codec
from landed.wire.keys import RecordKey, build_key, parse_key, speaks_for
from landed.wire.mac import KeyRing
from landed.wire.records import Record, read, write

PARTITIONS = 3
LOG = [one.event for one in lost_answer().log]


@st.composite
def touched(draw: Any) -> Record:
    """A record of an ordinary event, or one of which a part was changed."""
    event: Event = draw(st.sampled_from(LOG))
    if draw(st.booleans()):
        named = draw(st.sampled_from(["a/b", "ü", "%41", "a b", "-", "x" * 20]))
        event = replace(event, operation_id=named) if draw(st.booleans()) else replace(event, tenant_id=named)
    out = write(event, ring=RING, nonce="n", partitions=PARTITIONS)
    key, value, headers = out.key, out.value, list(out.headers)
    signed_anew = False
    match draw(st.integers(0, 9)):
        case 1:
            at = draw(st.integers(0, len(key) - 1))
            key, signed_anew = key[:at] + draw(st.binary(min_size=1, max_size=2)) + key[at + 1 :], draw(st.booleans())
        case 2:
            at = draw(st.integers(0, len(value) - 1))
            value, signed_anew = value[:at] + draw(st.binary(max_size=2)) + value[at + 1 :], draw(st.booleans())
        case 3:
            headers = draw(st.permutations(headers))
        case 4:
            headers.pop(draw(st.integers(0, len(headers) - 1)))
        case 5:
            headers.append(draw(st.sampled_from([*headers, ("other", b""), ("landed-mac", b"x"), ("traceparent", b"00")])))
        case 6:
            at = draw(st.integers(0, len(headers) - 1))
            headers[at] = (headers[at][0], draw(st.sampled_from([b"", b"w1", b"operation_prepared", None])))
        case 7:
            key, signed_anew = draw(st.sampled_from([b"", b"////", key + b"/", key[:-1], key.replace(b"/", b"%2F", 1)])), True
        case _:
            pass
    if signed_anew and (mac := RING.sign(key, value)) is not None:
        headers = [(name, mac[1] if name == "landed-mac" else given) for name, given in headers]
    return Record(
        key=key,
        value=value,
        headers=tuple(headers),
        partition=draw(st.sampled_from([out.partition, out.partition, out.partition, 0])),
        offset=draw(st.integers(0, 9)),
        timestamp_ms=draw(st.sampled_from([5, 5, 5, None, -1])),
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=touched(), ring=RINGS)
def test_the_short_way_gives_what_a_close_look_gives_or_nothing(
    record: Record, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(record, ring=ring, partitions=PARTITIONS)  # the codec knows the schema from now on
    short = records._usual(record, ring, PARTITIONS, codec())
    with monkeypatch.context() as patched:
        patched.setattr(records, "_usual", lambda *_: None)
        close = read(record, ring=ring, partitions=PARTITIONS)
    assert short is None or short == close
    assert read(record, ring=ring, partitions=PARTITIONS) == close


def test_every_record_as_it_is_written_goes_the_short_way() -> None:
    for event in LOG:
        out = write(event, ring=RING, nonce="n", partitions=PARTITIONS, traceparent="00-" + "1" * 32 + "-" + "1" * 16 + "-01")
        record = Record(key=out.key, value=out.value, headers=out.headers, partition=out.partition, offset=1, timestamp_ms=5)
        assert isinstance(read(record, ring=RING, partitions=PARTITIONS), Entry)
        assert records._usual(record, RING, PARTITIONS, codec()) is not None


PART = st.text("ab/%é-", max_size=3)


@given(said=st.tuples(PART, PART, PART, PART), key=st.tuples(PART, PART, PART, PART, PART), raw=st.booleans())
def test_a_key_speaks_for_an_event_only_if_taken_apart_it_does(
    said: tuple[str, str, str, str], key: tuple[str, str, str, str, str], raw: bool
) -> None:
    tenant_id, route, operation_id, event_id = said
    if not tenant_id or not route or not event_id:
        return
    for parts in (key, (*said, key[4])):
        try:
            built = "/".join(parts).encode() if raw else build_key(_key(parts))
            taken = parse_key(built)
        except Exception:
            taken = None
            built = "/".join(parts).encode()
        if speaks_for(built, tenant_id, route, operation_id or None, event_id):
            assert taken is not None
            assert (taken.tenant_id, taken.route, taken.operation_id, taken.event_id) == (
                tenant_id,
                route,
                operation_id or None,
                event_id,
            )


def test_a_slash_within_an_id_is_told_from_one_between_them() -> None:
    assert speaks_for(b"t/r/o/e/n", "t", "r", "o", "e")
    assert speaks_for(b"t/r//e/n", "t", "r", None, "e")
    assert not speaks_for(b"a/b/c/d/e/n", "a/b", "c", "d", "e")
    assert not speaks_for(b"t/r/o/e/n/x", "t", "r", "o", "e")
    assert not speaks_for(b"t/r/o/e/", "t", "r", "o", "e")


def _key(parts: tuple[str, ...]) -> RecordKey:
    return RecordKey(tenant_id=parts[0], route=parts[1], operation_id=parts[2] or None, event_id=parts[3], nonce=parts[4])
