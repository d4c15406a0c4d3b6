"""From a record of the log to what the fold takes: an event, a frozen operation, or a record that is refused. Pure and total.

The projector and a replay read through it, so that both fold the same. What the wire cannot read it says itself; here stand the
rules of the norm that a decoded event may still break, so that no record of the log, whoever wrote it, stops a partition.
"""

import hashlib
import re
from functools import lru_cache
from typing import Final

import msgspec

from landed.core import events as ev
from landed.core.identity import RequestError, check_id
from landed.core.state import COMPENSATE
from landed.wire.codec import Codec
from landed.wire.mac import KeyRing
from landed.wire.reasons import Reason
from landed.wire.records import FIRST_BYTES, Frozen, Record, Unreadable, read

KEY_BYTES_KEPT: Final = 256
DAMAGED: Final = "batch_damaged"
_OF_THE_TOPIC: Final = (ev.Genesis, ev.Heartbeat)
_OF_A_POLICY: Final = (ev.PolicyChanged, ev.BreakerChanged)
_NUMBERED: Final = re.compile(r":\d{1,6}\Z")


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is kept aside and stepped over."""

    reason: str
    field: str
    at_ms: int | None
    digest: str


class Freezing(msgspec.Struct, frozen=True, kw_only=True):
    """A record that freezes an operation, or all of a route where it names none."""

    tenant_id: str
    route: str
    operation_id: str | None
    event_id: str
    type: str
    reason: str
    field: str
    at_ms: int | None
    digest: str


class Skipped(msgspec.Struct, frozen=True):
    """A tombstone: retention removed a record."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A record and what it is to the fold."""

    record: Record
    what: ev.Entry | Freezing | Refused | Skipped


def read_item(record: Record, *, ring: KeyRing, partitions: int, using: Codec | None = None) -> Item:
    """What *record* is to the fold. Never raises.

    Args:
        using: another codec than the one of the schemas that this version ships.
    """
    if record.damaged:
        return Item(record=record, what=Refused(reason=DAMAGED, field="batch", at_ms=None, digest=""))
    found = read(record, ring=ring, partitions=partitions, using=using)
    if isinstance(found, ev.Entry):
        return Item(record=record, what=_checked(found))
    if isinstance(found, Frozen):
        return Item(record=record, what=_freezing(found))
    if found.reason is Reason.TOMBSTONE:
        return Item(record=record, what=Skipped())
    return Item(record=record, what=_refused(found))


def record_digest(record: Record) -> bytes:
    """SHA-256 over key and value of *record*: the same place with other bytes is another log."""
    key, value = record.key or b"", record.value or b""
    return hashlib.sha256(b"".join((len(key).to_bytes(8, "big"), key, value))).digest()


def first_bytes(record: Record) -> bytes:
    return (record.value or b"")[:FIRST_BYTES]


def _refused(found: Unreadable | Frozen) -> Refused:
    return Refused(reason=str(found.reason), field=found.field, at_ms=found.at_ms, digest=found.digest)


def _freezing(found: Frozen) -> Freezing | Refused:
    field = _unfit_id(found.tenant_id, found.route, found.operation_id)
    if field is not None:
        return Refused(reason="invalid_id", field=field, at_ms=found.at_ms, digest=found.digest)
    return Freezing(
        tenant_id=found.tenant_id,
        route=found.route,
        operation_id=found.operation_id,
        event_id=found.event_id,
        type=found.schema or "",
        reason=str(found.reason),
        field=found.field,
        at_ms=found.at_ms,
        digest=found.digest,
    )


def _checked(entry: ev.Entry) -> ev.Entry | Refused:
    event = entry.event
    if isinstance(event, _OF_THE_TOPIC):
        return entry
    if isinstance(event, _OF_A_POLICY):
        field = _unfit_id(event.tenant_id, event.route.removeprefix("policy:"), event.operation_id)
    else:
        field = _unfit_id(event.tenant_id, event.route, event.operation_id)
    if field is not None:
        return Refused(reason="invalid_id", field=field, at_ms=entry.at_ms, digest=entry.digest)
    return entry


def _unfit_id(tenant_id: str, route: str, operation_id: str | None) -> str | None:
    if not _fits(tenant_id):
        return "tenant_id"
    if not _fits(route):
        return "route"
    return None if operation_id is None or _fits(operation_id) or _fits_inverse(operation_id) else "operation_id"


@lru_cache(maxsize=65_536)
def _fits(value: str) -> bool:
    try:
        check_id("id", value)
    except RequestError:
        return False
    return True


def _fits_inverse(operation_id: str) -> bool:
    return operation_id.startswith(COMPENSATE) and _fits(_NUMBERED.sub("", operation_id[len(COMPENSATE) :]))
