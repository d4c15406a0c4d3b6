"""What a record is to a reader: an entry, a named reason, or the operation that has to be frozen. Never an exception."""

import hashlib
from typing import Any

import msgspec
import pytest

import landed_schemas
from landed.core.events import Entry, Event, Genesis, GroupOpened, Heartbeat, LeaseRenewed, PolicyChanged, Position
from landed.wire.codec import Codec, encode
from landed.wire.errors import EncodeError, KeyRingError
from landed.wire.framing import HEADER_BYTES, from_confluent, to_confluent
from landed.wire.keys import KEY_BYTES_MAX, RecordKey, build_key
from landed.wire.mac import UNSIGNED, KeyRing
from landed.wire.partition import partition_for
from landed.wire.reasons import FREEZING, Reason
from landed.wire.records import FIRST_BYTES, RECORD_BYTES_MAX, Frozen, OutgoingRecord, Record, Unreadable, read, write

PARTITIONS = 12
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RING = KeyRing({"w1": b"first secret of sixteen and more"}, signing="w1", mandatory=True)
STRANGER = KeyRing({"w1": b"other secret of sixteen and more"}, signing="w1", mandatory=True)
ENVELOPE: dict[str, Any] = {"event_id": "e1", "tenant_id": "acme", "route": "trip-1", "actor": "worker-1"}
RENEWED = LeaseRenewed(**ENVELOPE, operation_id="refund:42", claim_id="c1", attempt=1, lease_number=1, lease_ms=30_000)
OPENED = GroupOpened(**ENVELOPE, group_id="trip-1", workflow_type="trip")
NEWER = {name: schema for name, schema in landed_schemas.schemas().items() if name != "lease_renewed"}


def written(event: Event = RENEWED, ring: KeyRing = RING, **more: Any) -> OutgoingRecord:
    return write(event, ring=ring, nonce="n1", partitions=PARTITIONS, **more)


def appended(out: OutgoingRecord | None = None, **changes: Any) -> Record:
    """The record as it stands on the log, or would, had somebody written it so."""
    out = out or written()
    stands = {"key": out.key, "value": out.value, "headers": out.headers, "partition": out.partition, "offset": 7}
    return Record(**{**stands, "timestamp_ms": 1_900_000_000_000, **changes})


def resigned(out: OutgoingRecord, *, ring: KeyRing = RING, **changes: Any) -> Record:
    """A record changed by somebody who holds a key."""
    changed = appended(out, **changes)
    signed = ring.sign(changed.key or b"", changed.value or b"")
    assert signed is not None
    kept = [(name, value) for name, value in changed.headers if name not in ("landed-key-id", "landed-mac")]
    headers = (*kept, ("landed-key-id", signed[0].encode()), ("landed-mac", signed[1]))
    return msgspec.structs.replace(changed, headers=headers)


def header(out: OutgoingRecord, name: str, value: bytes | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((n, value if n == name else v) for n, v in out.headers)


def result(record: Record, ring: KeyRing = RING, using: Codec | None = None) -> Entry | Unreadable | Frozen:
    return read(record, ring=ring, partitions=PARTITIONS, using=using)


def unreadable(record: Record, ring: KeyRing = RING) -> tuple[Reason, str]:
    got = result(record, ring)
    assert isinstance(got, Unreadable), got
    return got.reason, got.field


def frozen(record: Record, ring: KeyRing = RING, using: Codec | None = None) -> Reason:
    got = result(record, ring, using)
    assert isinstance(got, Frozen), got
    assert (got.tenant_id, got.route, got.operation_id, got.event_id) == ("acme", "trip-1", "refund:42", "e1")
    return got.reason


# ---- writing -----------------------------------------------------------------------------------------------------------


def test_a_record_carries_key_value_headers_and_the_partition_of_its_route() -> None:
    out = written(traceparent=TRACE)
    assert out.key == b"acme/trip-1/refund%3A42/e1/n1"
    assert out.value == encode(RENEWED)
    assert out.partition == partition_for("acme", "trip-1", PARTITIONS)
    headers = dict(out.headers)
    assert list(headers) == ["landed-type", "landed-schema", "landed-key-id", "landed-mac", "traceparent"]
    assert headers["landed-type"] == b"lease_renewed"
    assert headers["landed-schema"] == out.value[2:HEADER_BYTES].hex().encode()
    assert (headers["landed-key-id"], headers["landed-mac"]) == (b"w1", RING.sign(out.key, out.value)[1])  # type: ignore[index]
    assert headers["traceparent"] == TRACE.encode()


def test_without_a_signing_key_a_record_carries_no_mac() -> None:
    assert [name for name, _ in written(ring=UNSIGNED).headers] == ["landed-type", "landed-schema"]


@pytest.mark.parametrize("malformed", ["", "x", TRACE + "\n", "ü"])
def test_a_malformed_trace_is_left_out_since_tracing_never_stops_an_event(malformed: str) -> None:
    assert "traceparent" not in dict(written(traceparent=malformed).headers)


@pytest.mark.parametrize("nonce", ["", "a/b", "a b", "a" * 65, "ü", "a\n"])
def test_a_nonce_has_a_plain_form(nonce: str) -> None:
    with pytest.raises(EncodeError, match="nonce: must be 1-64 letters"):
        write(RENEWED, ring=RING, nonce=nonce, partitions=PARTITIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"event_id": ""}, "event_id: must not be empty"),
        ({"tenant_id": ""}, "tenant_id: must not be empty"),
        ({"route": ""}, "route: must not be empty"),
        ({"operation_id": ""}, "operation_id: must not be empty"),
        ({"group_id": "trip-2"}, "group_id: must equal the route"),
    ],
)
def test_an_event_without_its_place_is_refused_and_the_field_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        written(msgspec.structs.replace(RENEWED, **change))


def test_nobody_picks_another_partition_than_the_route_does() -> None:
    own = partition_for("acme", "trip-1", PARTITIONS)
    assert written(partition=own).partition == own
    with pytest.raises(EncodeError, match="partition: must be left to the route"):
        written(partition=(own + 1) % PARTITIONS)


def test_genesis_and_heartbeat_stand_in_every_partition_and_have_no_route() -> None:
    beat = Heartbeat(event_id="e1", tenant_id="", route="", actor="retention")
    for partition in range(PARTITIONS):
        out = written(beat, partition=partition)
        assert out.key == b"///e1/n1"
        assert result(appended(out)) == Entry(
            event=beat,
            position=Position(partition=partition, offset=7),
            at_ms=1_900_000_000_000,
            digest=hashlib.sha256(out.value).hexdigest(),
        )
    for wrong in (None, -1, PARTITIONS):
        with pytest.raises(EncodeError, match="partition: must be 0 to 11"):
            written(beat, partition=wrong)
    with pytest.raises(EncodeError, match="route: must be empty"):
        written(msgspec.structs.replace(beat, route="trip-1"), partition=0)


def test_an_event_larger_than_the_limit_is_not_written() -> None:
    size = len(encode(msgspec.structs.replace(RENEWED, claim_id="")))
    fits = msgspec.structs.replace(RENEWED, claim_id="x" * (RECORD_BYTES_MAX - size - 2))
    assert len(written(fits).value) == RECORD_BYTES_MAX
    assert isinstance(result(appended(written(fits))), Entry)
    with pytest.raises(EncodeError, match=f"event: must be at most {RECORD_BYTES_MAX} bytes encoded, is {RECORD_BYTES_MAX + 1}"):
        written(msgspec.structs.replace(fits, claim_id=fits.claim_id + "x"))


def test_a_process_that_must_sign_and_cannot_writes_nothing() -> None:
    with pytest.raises(KeyRingError):
        written(ring=KeyRing({"w1": b"first secret of sixteen and more"}, mandatory=True))


# ---- reading: what is taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [RING, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize(
    "event",
    [
        RENEWED,
        OPENED,
        msgspec.structs.replace(RENEWED, group_id="trip-1"),
        msgspec.structs.replace(RENEWED, operation_id="compensate:refund:42"),
        PolicyChanged(**{**ENVELOPE, "route": "policy:tool:refund"}, scope="tool:refund", who="anna", why="incident"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_record_that_was_written_is_an_entry_at_its_place_with_the_logs_time(event: Event, ring: KeyRing) -> None:
    out = written(event, ring)
    assert result(appended(out), ring) == Entry(
        event=event,
        position=Position(partition=out.partition, offset=7),
        at_ms=1_900_000_000_000,
        digest=hashlib.sha256(out.value).hexdigest(),
    )


def test_a_second_copy_has_another_key_and_the_same_digest() -> None:
    one, two = (write(RENEWED, ring=RING, nonce=nonce, partitions=PARTITIONS) for nonce in ("n1", "n2"))
    first, second = result(appended(one)), result(appended(two))
    assert one.key != two.key
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert first.digest == second.digest


def test_another_content_under_the_same_id_has_another_digest() -> None:
    one, two = result(appended()), result(appended(written(msgspec.structs.replace(RENEWED, lease_ms=1))))
    assert isinstance(one, Entry)
    assert isinstance(two, Entry)
    assert one.event.event_id == two.event.event_id
    assert one.digest != two.digest


def test_headers_of_others_are_not_looked_at() -> None:
    out = written()
    assert isinstance(result(appended(out, headers=(*out.headers, ("x", None), ("x", b"\xff")))), Entry)


def test_hints_to_tools_may_be_left_out() -> None:
    out = written()
    kept = tuple(pair for pair in out.headers if pair[0] in ("landed-key-id", "landed-mac"))
    assert isinstance(result(appended(out, headers=kept)), Entry)


# ---- reading: what is refused and freezes nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b""])
def test_a_record_without_a_key_is_refused(key: bytes | None) -> None:
    assert unreadable(appended(key=key)) == (Reason.NO_KEY, "")


@pytest.mark.parametrize("key", [b"x", b"a/b/c/d/e/f", b"\xff" * 9, b"acme/trip-1/o//n1", b"x" * (KEY_BYTES_MAX + 1)])
def test_a_record_with_another_key_is_refused(key: bytes) -> None:
    assert unreadable(resigned(written(), key=key))[0] is Reason.KEY_MALFORMED


def test_a_tombstone_is_no_event() -> None:
    assert unreadable(appended(value=None, headers=())) == (Reason.TOMBSTONE, "")


@pytest.mark.parametrize("name", ["landed-type", "landed-schema", "landed-key-id", "landed-mac"])
def test_a_header_of_ours_that_is_null_or_stands_twice_is_refused_and_named(name: str) -> None:
    out = written()
    assert unreadable(appended(out, headers=header(out, name, None))) == (Reason.HEADER_MALFORMED, name)
    twice = (*out.headers, (name, dict(out.headers)[name]))
    assert unreadable(appended(out, headers=twice)) == (Reason.HEADER_MALFORMED, name)


@pytest.mark.parametrize(("left_out", "named"), [("landed-key-id", "landed-key-id"), ("landed-mac", "landed-mac")])
@pytest.mark.parametrize("ring", [RING, UNSIGNED])
def test_key_id_and_mac_come_together(left_out: str, named: str, ring: KeyRing) -> None:
    out = written()
    headers = tuple(pair for pair in out.headers if pair[0] != left_out)
    assert unreadable(appended(out, headers=headers), ring) == (Reason.HEADER_MALFORMED, named)


def test_a_mac_that_is_missing_where_it_is_mandatory_is_refused() -> None:
    assert unreadable(appended(written(ring=UNSIGNED))) == (Reason.MAC_MISSING, "")


@pytest.mark.parametrize("key_id", [b"w9", b"\xff", b""])
def test_a_mac_under_a_key_that_is_not_known_is_refused(key_id: bytes) -> None:
    out = written()
    assert unreadable(appended(out, headers=header(out, "landed-key-id", key_id))) == (Reason.MAC_UNKNOWN_KEY, "")


def test_a_record_of_a_stranger_is_refused() -> None:
    assert unreadable(appended(written(ring=STRANGER))) == (Reason.MAC_WRONG, "")


def test_every_byte_of_key_and_value_is_under_the_mac() -> None:
    out = written()
    for at in range(len(out.value)):
        flipped = out.value[:at] + bytes([out.value[at] ^ 1]) + out.value[at + 1 :]
        assert unreadable(appended(out, value=flipped)) == (Reason.MAC_WRONG, "")
    assert unreadable(appended(out, key=out.key[:-1] + b"2")) == (Reason.MAC_WRONG, "")


@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"\xc3\x01" + b"\x00" * 8, written().value + b"\x00", b"x" * (RECORD_BYTES_MAX + 1)]
)
def test_nobody_without_a_key_freezes_anything_where_macs_are_mandatory(value: bytes) -> None:
    out = written()
    assert unreadable(appended(out, value=value)) == (Reason.MAC_WRONG, "")
    assert unreadable(appended(out, value=value, headers=())) == (Reason.MAC_MISSING, "")


def test_a_record_in_another_partition_than_its_routes_is_refused_and_freezes_nothing() -> None:
    out = written()
    elsewhere = (out.partition + 1) % PARTITIONS
    assert unreadable(appended(out, partition=elsewhere)) == (Reason.MISROUTED, "partition")
    assert unreadable(resigned(out, partition=elsewhere, value=b"garbage")) == (Reason.MISROUTED, "partition")


def test_an_event_of_a_group_stands_on_the_route_of_that_group() -> None:
    astray = msgspec.structs.replace(RENEWED, group_id="trip-2")
    assert unreadable(resigned(written(), value=encode(astray))) == (Reason.MISROUTED, "group_id")


@pytest.mark.parametrize(
    ("change", "field"),
    [({"tenant_id": "", "route": ""}, "tenant_id"), ({"tenant_id": ""}, "tenant_id"), ({"route": ""}, "route")],
)
def test_only_genesis_and_heartbeat_have_no_tenant_and_no_route(change: dict[str, str], field: str) -> None:
    bare = msgspec.structs.replace(RENEWED, **change)
    key = build_key(
        RecordKey(tenant_id=bare.tenant_id, route=bare.route, operation_id=bare.operation_id, event_id=bare.event_id, nonce="n1")
    )
    own = partition_for(bare.tenant_id, bare.route, PARTITIONS)
    assert unreadable(resigned(written(), key=key, value=encode(bare), partition=own)) == (Reason.MISROUTED, field)


def test_genesis_on_a_route_is_refused() -> None:
    astray = Genesis(**ENVELOPE, partitions=12)
    key = build_key(RecordKey(tenant_id="acme", route="trip-1", operation_id=None, event_id="e1", nonce="n1"))
    record = resigned(written(), key=key, value=encode(astray), headers=())
    assert unreadable(record) == (Reason.MISROUTED, "route")


@pytest.mark.parametrize("name", ["landed-type", "landed-schema"])
@pytest.mark.parametrize("value", [b"group_opened", b"nonsense", b"\xff", b""])
def test_a_header_that_says_something_else_than_the_value_is_refused_and_freezes_nothing(name: str, value: bytes) -> None:
    """Headers are not under the MAC: a copy with other headers needs no key."""
    out = written()
    assert unreadable(appended(out, headers=header(out, name, value))) == (Reason.HEADER_MISMATCH, name)


@pytest.mark.parametrize(
    ("field", "other"),
    [("tenant_id", "acme2"), ("route", "trip-2"), ("operation_id", "x"), ("operation_id", None), ("event_id", "e2")],
)
def test_a_key_that_says_something_else_than_the_event_is_refused(field: str, other: str | None) -> None:
    said = msgspec.structs.replace(RENEWED, **{field: other})
    assert unreadable(resigned(written(), value=encode(said))) == (Reason.KEY_MISMATCH, field)


def test_an_operation_that_is_empty_is_not_one_that_is_absent() -> None:
    said = msgspec.structs.replace(OPENED, operation_id="")
    assert unreadable(resigned(written(OPENED), value=encode(said))) == (Reason.KEY_MISMATCH, "operation_id")


@pytest.mark.parametrize("timestamp_ms", [None, -1])
def test_a_record_without_an_append_time_of_the_log_is_refused(timestamp_ms: int | None) -> None:
    assert unreadable(appended(timestamp_ms=timestamp_ms)) == (Reason.NO_APPEND_TIME, "")


# ---- reading: what freezes its operation -------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [RING, UNSIGNED], ids=["MAC right", "MAC not required"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", Reason.NOT_FRAMED),
        (b"garbage", Reason.NOT_FRAMED),
        (b"\0\0\0\0\7body", Reason.SCHEMA_UNNAMED),
        (b"\xc3\x01" + b"\x00" * 8 + b"body", Reason.UNKNOWN_SCHEMA),
        (written().value[:-1], Reason.BODY_MALFORMED),
        (written().value + b"\x00", Reason.TRAILING_BYTES),
        (b"x" * (RECORD_BYTES_MAX + 1), Reason.TOO_LARGE),
    ],
    ids=lambda each: str(each) if isinstance(each, Reason) else "",
)
def test_what_cannot_be_decoded_freezes_the_operation_of_the_key(value: bytes, reason: Reason, ring: KeyRing) -> None:
    out = written(ring=ring)
    record = resigned(out, value=value) if ring is RING else appended(out, value=value)
    assert frozen(record, ring) is reason


def test_a_newer_schema_of_a_known_type_freezes_until_the_reader_knows_it() -> None:
    assert frozen(appended(), using=Codec(NEWER)) is Reason.UNKNOWN_SCHEMA
    assert isinstance(result(appended()), Entry)


def test_a_type_that_is_not_in_the_catalogue_freezes_and_is_told_from_a_newer_schema_by_its_header() -> None:
    out = written()
    newer = appended(out, headers=header(out, "landed-type", b"effect_admired"))
    assert frozen(newer, using=Codec(NEWER)) is Reason.UNKNOWN_TYPE


def test_a_frozen_record_says_where_it_stands_what_it_is_and_how_it_begins() -> None:
    out = written()
    value = b"\xc3\x01" + bytes(range(200))
    got = result(resigned(out, value=value))
    assert got == Frozen(
        reason=Reason.UNKNOWN_SCHEMA,
        position=Position(partition=out.partition, offset=7),
        at_ms=1_900_000_000_000,
        digest=hashlib.sha256(value).hexdigest(),
        first_bytes=value[:FIRST_BYTES],
        tenant_id="acme",
        route="trip-1",
        operation_id="refund:42",
        event_id="e1",
        schema="0001020304050607",
    )


def test_a_record_of_a_group_freezes_the_route_and_names_no_operation() -> None:
    got = result(resigned(written(OPENED), value=b"garbage"))
    assert isinstance(got, Frozen)
    assert (got.route, got.operation_id, got.schema) == ("trip-1", None, None)


def test_a_record_of_the_topic_itself_has_nothing_to_freeze() -> None:
    beat = written(Heartbeat(event_id="e1", tenant_id="", route="", actor="retention"), partition=3)
    assert unreadable(resigned(beat, value=b"garbage")) == (Reason.NOT_FRAMED, "")


def test_a_refused_record_says_where_it_stands_and_how_it_begins() -> None:
    out = written(msgspec.structs.replace(RENEWED, claim_id="c" * 100), STRANGER)
    assert result(appended(out)) == Unreadable(
        reason=Reason.MAC_WRONG,
        position=Position(partition=out.partition, offset=7),
        at_ms=1_900_000_000_000,
        digest=hashlib.sha256(out.value).hexdigest(),
        first_bytes=out.value[:FIRST_BYTES],
    )


def test_a_null_value_has_the_digest_of_nothing() -> None:
    got = result(appended(value=None))
    assert isinstance(got, Unreadable)
    assert (got.digest, got.first_bytes) == (hashlib.sha256(b"").hexdigest(), b"")


# ---- a registry's framing ------------------------------------------------------------------------------------------------


def fetched(out: OutgoingRecord, schema_id: int, **changed: bytes | None) -> Record:
    """The record of a writer with a registry, as it comes from the log; headers *changed* by name, or left out where None."""
    given = {name.replace("-", "_"): (name, value) for name, value in out.headers}
    headers = [(name, changed.get(key, value)) for key, (name, value) in given.items()]
    kept = tuple((name, value) for name, value in headers if value is not None)
    value = from_confluent(to_confluent(out.value, schema_id), dict(kept).get("landed-schema"))
    return appended(out, value=value, headers=kept)


@pytest.mark.parametrize("schema_id", [1, 77])
def test_a_record_is_the_same_entry_with_the_same_digest_under_whatever_id_a_registry_gave_its_schema(schema_id: int) -> None:
    entry = result(appended())
    assert isinstance(entry, Entry)
    assert result(fetched(written(), schema_id)) == entry


def test_a_changed_name_of_the_schema_makes_the_mac_wrong_so_no_body_is_read_as_another_event() -> None:
    other = landed_schemas.fingerprint(landed_schemas.schemas()["lease_expired"]).hex().encode()
    assert unreadable(fetched(written(), 7, landed_schema=other)) == (Reason.MAC_WRONG, "")


def test_a_schema_of_a_newer_release_freezes_as_in_the_other_framing() -> None:
    codec = Codec(NEWER)
    assert frozen(fetched(written(), 7), using=codec) is frozen(appended(), using=codec) is Reason.UNKNOWN_SCHEMA


def test_where_nothing_names_the_schema_a_signed_record_is_refused_and_freezes_nothing() -> None:
    assert unreadable(fetched(written(), 7, landed_schema=None)) == (Reason.SCHEMA_UNNAMED, "")


def test_where_nothing_names_the_schema_an_unsigned_record_freezes_only_where_no_mac_is_required() -> None:
    unsigned = fetched(written(ring=UNSIGNED), 7, landed_schema=None)
    assert frozen(unsigned, UNSIGNED) is Reason.SCHEMA_UNNAMED
    assert unreadable(unsigned) == (Reason.MAC_MISSING, "")


def test_only_what_cannot_be_decoded_freezes() -> None:
    assert {str(reason) for reason in FREEZING} == {
        "too_large", "schema_unnamed", "not_framed", "unknown_type", "unknown_schema", "body_malformed", "trailing_bytes",
    }  # fmt: skip
