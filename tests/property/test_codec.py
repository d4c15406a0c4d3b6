"""Whatever an event says comes back from the wire, and whatever stands on the log, reading it never raises."""

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from landed.core.events import CATALOGUE, Entry, Event, Genesis, Heartbeat
from landed.wire.codec import decode, encode
from landed.wire.errors import DecodeError
from landed.wire.ids import derive_event_id, with_event_id
from landed.wire.keys import RecordKey, build_key, parse_key
from landed.wire.mac import UNSIGNED, KeyRing
from landed.wire.records import Frozen, OutgoingRecord, Record, Unreadable, read, write

PARTITIONS = 12
RING = KeyRing(
    {"w1": b"first secret of sixteen and more", "w2": b"other secret of sixteen and more"}, signing="w1", mandatory=True
)
RINGS = st.sampled_from([RING, UNSIGNED, KeyRing({"w1": b"first secret of sixteen and more"})])

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Every text that UTF-8 can carry, NUL and control characters among it."""
NUMBER = st.integers(-(2**63), 2**63 - 1)


def value_of(declared: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's declared type."""
    if declared is str:
        return TEXT
    if declared is int:
        return NUMBER
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin is list:
        return st.lists(value_of(args[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, value_of(args[1]), max_size=3)
    if args:
        return st.one_of(*(st.none() if each is type(None) else value_of(each) for each in args))
    if issubclass(declared, msgspec.Struct):
        return values(declared)
    return st.from_type(declared)


def values(struct: type[Any], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of *struct*, every field of it drawn."""
    drawn = {field.name: value_of(field.type) for field in msgspec.structs.fields(struct)}
    return st.builds(struct, **(drawn | fixed))


EVENTS = st.sampled_from(list(CATALOGUE.values())).flatmap(values)
ID = TEXT.filter(bool)


@st.composite
def placed_events(draw: st.DrawFn) -> Event:
    """Any event that may be written: with its ids, on its route."""
    event: Event = draw(EVENTS)
    route, topic = draw(ID), isinstance(event, Genesis | Heartbeat)
    return msgspec.structs.replace(
        event,
        event_id=draw(ID),
        tenant_id=draw(TEXT if topic else ID),
        route="" if topic else route,
        operation_id=draw(st.none() | ID),
        group_id=draw(st.sampled_from([None, route])),
    )


def out_of(event: Event, ring: KeyRing = RING) -> OutgoingRecord:
    partition = 5 if isinstance(event, Genesis | Heartbeat) else None
    return write(event, ring=ring, nonce="n1", partitions=PARTITIONS, partition=partition)


def stands(out: OutgoingRecord, **changes: Any) -> Record:
    parts = {"key": out.key, "value": out.value, "headers": out.headers, "partition": out.partition}
    return Record(**{**parts, "offset": 7, "timestamp_ms": 1, **changes})


@pytest.mark.parametrize("event", list(CATALOGUE.values()), ids=list(CATALOGUE))
@settings(max_examples=25)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(event: type[Event], data: st.DataObject) -> None:
    said = data.draw(values(event))
    assert decode(encode(said)) == said
    assert type(decode(encode(said))) is event


@given(EVENTS)
def test_bytes_are_canonical(event: Event) -> None:
    assert encode(decode(encode(event))) == encode(event)


@given(EVENTS, EVENTS)
def test_two_events_have_one_id_only_if_they_say_the_same(one: Event, two: Event) -> None:
    alike = type(one) is type(two) and msgspec.structs.replace(one, event_id="") == msgspec.structs.replace(two, event_id="")
    assert (derive_event_id(one) == derive_event_id(two)) == alike
    assert derive_event_id(with_event_id(one)) == derive_event_id(one)


@given(tenant_id=TEXT, route=TEXT, operation_id=st.none() | ID, event_id=ID, nonce=ID)
def test_a_key_comes_back_as_it_was(**parts: Any) -> None:
    key = RecordKey(**parts)
    assert parse_key(build_key(key)) == key


SPELLINGS = st.lists(
    st.sampled_from([b"a", b"%61", b"%3A", b"%3a", b":", b"%C3%BC", b"%C3", b"%2F", b"~", b"%7E", b"%"]), max_size=2
)


@given(st.lists(SPELLINGS.map(b"".join), min_size=5, max_size=5).map(b"/".join))
def test_whatever_is_taken_for_a_key_is_its_only_spelling(data: bytes) -> None:
    try:
        key = parse_key(data)
    except DecodeError:
        return
    assert build_key(key) == data


@given(placed_events(), RINGS)
def test_what_was_written_is_read(event: Event, ring: KeyRing) -> None:
    signing = RING if ring.mandatory else UNSIGNED
    out = out_of(event, signing)
    got = read(stands(out), ring=ring, partitions=PARTITIONS)
    assert isinstance(got, Entry), got
    assert got.event == event


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["landed-type", "landed-schema", "landed-key-id", "landed-mac", "traceparent"]) | TEXT,
        st.none() | st.binary(max_size=70) | st.sampled_from([b"w1", b"lease_renewed", b"0" * 64]),
    ),
    max_size=6,
).map(tuple)


@settings(max_examples=300)
@given(
    key=st.none()
    | st.binary()
    | st.builds(lambda p: b"/".join(p), st.lists(st.from_regex(rb"[a-c%2F]{0,4}", fullmatch=True), min_size=4, max_size=6)),
    value=st.none() | st.binary() | st.binary().map(lambda tail: b"\xc3\x01" + tail),
    headers=HEADERS,
    partition=st.integers(-1, PARTITIONS),
    timestamp_ms=st.none() | st.integers(),
    ring=RINGS,
)
def test_reading_never_raises_whatever_stands_on_the_log(ring: KeyRing, **parts: Any) -> None:
    got = read(Record(**parts, offset=0), ring=ring, partitions=PARTITIONS)
    assert isinstance(got, Unreadable | Frozen)


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """*data* with a few bytes changed, cut out, put in or doubled."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 8)))
        data = data[:at] + draw(st.binary(max_size=8) | st.just(data[at:end] * 2)) + data[end:]
    return data


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(placed_events(), st.data())
def test_reading_never_raises_on_a_changed_record_of_somebody_who_holds_a_key(event: Event, data: st.DataObject) -> None:
    out = out_of(event)
    key = data.draw(st.just(out.key) | mutations(out.key))
    value = data.draw(mutations(out.value) | mutations(out.value[10:]).map(lambda body: out.value[:10] + body))
    signed = RING.sign(key, value)
    assert signed is not None
    record = stands(out, key=key, value=value, headers=(("landed-key-id", signed[0].encode()), ("landed-mac", signed[1])))
    assert isinstance(read(record, ring=RING, partitions=PARTITIONS), Entry | Unreadable | Frozen)


@settings(max_examples=300)
@given(placed_events(), st.data())
def test_a_change_of_key_or_value_without_the_key_is_refused_and_freezes_nothing(event: Event, data: st.DataObject) -> None:
    out = out_of(event)
    key, value = data.draw(st.just(out.key) | mutations(out.key)), data.draw(st.just(out.value) | mutations(out.value))
    assume((key, value) != (out.key, out.value))
    assert isinstance(read(stands(out, key=key, value=value), ring=RING, partitions=PARTITIONS), Unreadable)


@given(placed_events(), HEADERS)
def test_other_headers_on_a_right_record_freeze_nothing(event: Event, headers: Any) -> None:
    out = out_of(event)
    assert not isinstance(read(stands(out, headers=headers), ring=RING, partitions=PARTITIONS), Frozen)
    assert not isinstance(read(stands(out, headers=out.headers + headers), ring=RING, partitions=PARTITIONS), Frozen)


@given(EVENTS)
def test_an_event_that_was_encoded_for_its_id_has_the_bytes_of_one_that_was_not(event: Event) -> None:
    identified = with_event_id(event)
    unknown = msgspec.structs.replace(identified)
    assert encode(identified) == encode(unknown)


def test_an_equal_id_alone_is_not_taken_for_the_same_event() -> None:
    first = with_event_id(Heartbeat(event_id="", tenant_id="", route="", actor="a"))
    other = msgspec.structs.replace(first, actor="b")
    assert decode(encode(other)) == other
