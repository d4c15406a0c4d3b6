"""Part of `landed verify`: what ceilings count, what calls hold alone and what breakers were told, beside the events of the log.

The rows of events are the log's, which is compared before; so these tables are compared with them, in one snapshot. A grant may
be forgotten once it is an hour old and over; one that is not must be there. Source: docs/semantics.md §2, §9.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.rows import Row
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.wire.codec import decode
from landed.wire.errors import DecodeError
from landed_services.projector.comparing import Difference, Found, side_by_side
from landed_services.projector.counting import read_breaker
from landed_services.projector.rooms import FORGET_AFTER_MS

_FETCHED_AT_ONCE: Final = 2_000
_Key = tuple[str, str, str]
"""Tenant, route, operation, as they stand in the tables."""


class _Counted(NamedTuple):
    attempt: int
    effect_type: str | None
    decided_at_ms: int
    void: bool


class _Expected(NamedTuple):
    counted: _Counted
    partition: int
    offset: int
    must_be_there: bool


_Rows = dict[tuple[str, str | None], Any]
"""By claim, and by the resource where it is of one."""


def compare_rooms(connection: Any, found: Found) -> None:
    """Adds each difference in `grants`, `resources_taken` and `breakers`, inside the transaction at hand."""
    (now_ms,) = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()
    since_ms = now_ms - FORGET_AFTER_MS
    said = _groups(_rows(connection, "verify_granted", {"since_ms": since_ms}))
    grants, resources = _groups(_rows(connection, "verify_grants")), _groups(_rows(connection, "verify_resources_taken"))
    for key, (events, counted, held) in side_by_side(said, grants, resources, order=_in_order):
        expected_grants, expected_resources = _expected(events, since_ms)
        _compare("grants", key, expected_grants, counted, found)
        _compare("resources_taken", key, expected_resources, held, found)
    _compare_breakers(connection, found)


def _rows(connection: Any, name: str, parameters: dict[str, Any] | None = None) -> Iterator[Row]:
    with connection.cursor(name=name) as cursor:
        cursor.itersize = _FETCHED_AT_ONCE
        cursor.execute(statement(name), parameters or {}, binary=True)
        yield from cursor


def _groups(rows: Iterable[Row]) -> Iterator[tuple[_Key, list[Row]]]:
    for key, group in groupby(rows, key=lambda row: row[:3]):
        yield key, [row[3:] for row in group]


def _in_order(key: _Key) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in key)


def _expected(events: list[Row], since_ms: int) -> tuple[_Rows, _Rows]:
    """What the events of one operation, in log order, say that is counted and held."""
    grants: _Rows = {}
    resources: _Rows = {}
    # Of an operation that is settled: its last attempt.
    over_to: int | None = events[0][-1] if events else None
    for partition, offset, accepted, value, effect_type, _ in events:
        try:
            event = decode(value)
        except DecodeError:
            continue
        if isinstance(event, ev.DispatchGranted) and event.decided_at_ms is not None:
            claim_id, known = escaped(event.claim_id) or "", (escaped(event.claim_id), None) in grants
            counted = _Counted(event.attempt, effect_type or "", event.decided_at_ms, not accepted)
            if not known:
                grants[claim_id, None] = _Expected(counted, partition, offset, False)
                for resource in event.resources:
                    resources[claim_id, escaped(resource)] = _Expected(
                        counted._replace(effect_type=None), partition, offset, False
                    )
        elif isinstance(event, ev.DispatchReleased) and event.attempt is not None and accepted:
            for rows in (grants, resources):
                for name, one in rows.items():
                    if name[0] == escaped(event.claim_id):
                        rows[name] = one._replace(counted=one.counted._replace(void=True))
    for rows in (grants, resources):
        for name, one in rows.items():
            is_over = one.counted.void or (over_to is not None and over_to >= one.counted.attempt)
            rows[name] = one._replace(must_be_there=one.counted.decided_at_ms >= since_ms or not is_over)
    return grants, resources


def _compare(table: str, key: _Key, expected: _Rows, stored: list[Row], found: Found) -> None:
    tenant_id, route, operation_id = map(unescaped, key)

    def differs(field: str, log: object, database: object, place: _Expected | None) -> None:
        found.add(
            Difference(
                table=table,
                partition=-1 if place is None else place.partition,
                offset=None if place is None else place.offset,
                tenant_id=tenant_id,
                route=route,
                operation_id=operation_id,
                field=field,
                log=None if log is None else str(log),
                database=None if database is None else str(database),
            )
        )

    for claim_id, resource, attempt, effect_type, decided_at_ms, void, on_its_way in stored:
        wanted: _Expected | None = expected.pop((claim_id, resource), None)
        if on_its_way:
            continue
        name = f"claim {unescaped(claim_id)}" + ("" if resource is None else f", resource {unescaped(resource)}")
        if wanted is None:
            differs(name, None, "is there", None)
            continue
        there = _Counted(attempt, effect_type, decided_at_ms, void)
        for field in _Counted._fields:
            if getattr(there, field) != getattr(wanted.counted, field):
                differs(f"{name}: {field}", getattr(wanted.counted, field), getattr(there, field), wanted)
    for (claim_id, resource), wanted in expected.items():
        if wanted.must_be_there:
            name = f"claim {unescaped(claim_id)}" + ("" if resource is None else f", resource {unescaped(resource)}")
            differs(name, "is there", None, wanted)


def _compare_breakers(connection: Any, found: Found) -> None:
    for (tenant_id, key), group in groupby(_rows(connection, "verify_breakers"), key=lambda row: row[:2]):
        where, offset, log, there = -1, None, None, None
        for _, _, partition, at, value, text, is_open, at_ms in group:
            where, there = partition, None if text is None else (unescaped(text), is_open, at_ms)
            said = _told(value)
            if said is not None and (log is None or log[2] < said[2]):
                offset, log = at, said
        if log != there:
            found.add(
                Difference(
                    table="breakers",
                    partition=where,
                    offset=offset,
                    tenant_id=unescaped(tenant_id),
                    field=f"{unescaped(key)}: told",
                    log=None if log is None else str(log),
                    database=None if there is None else str(there),
                )
            )


def _told(value: bytes | None) -> tuple[str | None, bool, int] | None:
    """What an event says of a breaker: its JSON, whether it is open, and when that was decided."""
    try:
        event = None if value is None else decode(value)
    except DecodeError:
        return None
    if not isinstance(event, ev.BreakerChanged):
        return None
    new = read_breaker(event.new)
    return event.new, new is not None and new.state == "open", event.decided_at_ms or 0


__all__ = ["compare_rooms"]
