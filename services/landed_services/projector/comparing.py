"""Rows that a fold of the log gives, beside the rows of the tables: what differs, with both values.

Tables that only grow are compared span by span while the log is folded; states at the end, group by group, both sides in the
order of the bytes of tenant and route, so that neither has to be in memory whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import msgspec

from landed.adapters.postgres.bodies import operation_of, route_of_body
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.news import NEWS_COLUMNS
from landed.adapters.postgres.routes import StoredRoute
from landed.adapters.postgres.rows import (
    EVENT_COLUMNS,
    OPERATION_COLUMNS,
    REFUSED_COLUMNS,
    ROUTE_COLUMNS,
    Row,
    has_row,
    operation_row,
    route_row,
)
from landed.adapters.postgres.statements import statement
from landed_services.projector.batch import Changes

DIFFERENCES_MAX: Final = 1_000
"""More than that are counted, not listed."""
SHOWN_MAX: Final = 200
"""Characters of a value that are shown."""
_NAMED_AT_ONCE: Final = 500

K = TypeVar("K")
Choice = Callable[[str, str], bool]
"""Whether the group of that tenant and route is compared."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One value that the tables hold and the log does not give, or the other way round."""

    table: str
    partition: int
    offset: int | None
    """Of the event, or of the last event that changed the operation or group."""
    tenant_id: str | None = None
    route: str | None = None
    operation_id: str | None = None
    field: str
    log: str | None
    """What the fold of the log gives; None: no such row."""
    database: str | None
    """What the table holds; None: no such row."""

    def __str__(self) -> str:
        names = (("tenant", self.tenant_id), ("route", self.route), ("operation", self.operation_id))
        about = ", ".join(f"{name} {value}" for name, value in names if value)
        place = f"partition {self.partition}" + ("" if self.offset is None else f", offset {self.offset}")
        where = f"{about} ({place})" if about else place
        return f"{self.table}: {where}: {self.field}: log {self.log}, database {self.database}"


class Found:
    """What was compared, and what differs."""

    def __init__(self) -> None:
        self.listed: list[Difference] = []
        self.total = self.events = self.operations = 0

    def add(self, difference: Difference) -> None:
        self.total += 1
        if len(self.listed) < DIFFERENCES_MAX:
            self.listed.append(difference)


def compare_span(
    connection: Any,
    partition: int,
    changes: Changes,
    names: Mapping[str, Any],
    found: Found,
    *,
    compared: Callable[[int, str, str], bool],
    refused: Callable[[int, bytes | None], bool],
) -> None:
    """Compares the tables that only grow over one span of offsets.

    Args:
        names: parameters of the statements `verify_events`, `verify_news` and `verify_refused_records`.
        compared: whether the row at that offset, of that tenant and route, is compared: as the statements see it.
        refused: the same for a refused record, by its offset and the part of its key that is kept.
    """

    def is_compared(row: Row) -> bool:
        return compared(row[1], unescaped(row[tenant]), unescaped(row[route]))

    for table, columns, rows in (
        ("events", EVENT_COLUMNS, changes.events),
        ("news", NEWS_COLUMNS, [row[: len(NEWS_COLUMNS)] for row in changes.news]),
    ):
        tenant, route = (list(columns).index(name) for name in ("tenant_id", "route"))
        wanted = [row for row in rows if is_compared(row)]
        if table == "events":
            found.events += len(wanted)
        stored = [row for row in _stored(connection, table, names) if is_compared(row)]
        for one in _unequal(table, partition, columns, 2, wanted, stored):
            found.add(one)
    key = list(REFUSED_COLUMNS).index("record_key")
    aside = [row for row in changes.refused if refused(row[1], row[key])]
    there = [row for row in _stored(connection, "refused_records", names) if refused(row[1], row[key])]
    for one in _unequal("refused_records", partition, REFUSED_COLUMNS, 2, aside, there):
        found.add(one)


def compare_states(
    connection: Any,
    partition: int,
    folded: Callable[[], Iterable[StoredRoute]],
    names: Mapping[str, Any],
    found: Found,
    chosen: Choice,
) -> None:
    """Compares operations and groups at the end of a fold.

    Args:
        folded: gives all routes that were folded and are compared, ordered by `key_of`.
        names: parameters of `verify_operations` and `verify_routes`.
        chosen: whether a group was folded; of another one that the tables give, it is only known that the log did not change it.
    """
    for table, columns, rows_of in (("operations", OPERATION_COLUMNS, _operation_rows), ("routes", ROUTE_COLUMNS, _route_rows)):
        ours = ((key_of(one.route.tenant_id, one.route.route), rows_of(one)) for one in folded())
        theirs = (
            (key, list(rows))
            for key, rows in groupby(_stored(connection, table, names), key=lambda row: (row[0].encode(), row[1].encode()))
        )
        keys, late = (3 if table == "operations" else 2), list[list[Row]]()
        for _, (wanted, stored) in side_by_side(ours, theirs, order=lambda key: key):
            if table == "operations":
                found.operations += len(wanted)
            if wanted and not stored:
                # Named one by one: those that the statement leaves out may be there all the same, and out of date.
                late.append(wanted)
            elif stored and not wanted and not chosen(unescaped(stored[0][0]), unescaped(stored[0][1])):
                _unmoved(table, partition, columns, stored, names, found)
            else:
                for one in _unequal(table, partition, columns, keys, wanted, stored):
                    found.add(one)
            if len(late) >= _NAMED_AT_ONCE:
                _compare_named(connection, table, partition, columns, keys, late, found)
                late.clear()
        if late:
            _compare_named(connection, table, partition, columns, keys, late, found)


def key_of(tenant_id: str, route: str) -> tuple[bytes, bytes]:
    """What groups are ordered by: the bytes of their names as the tables hold them."""
    return escaped(tenant_id).encode(), escaped(route).encode()


def _operation_rows(stored: StoredRoute) -> list[Row]:
    route = stored.route
    return [operation_row(route, route.operations[name], place) for name, place in stored.places.items()]


def _route_rows(stored: StoredRoute) -> list[Row]:
    return [route_row(stored.route, stored.head_place)] if stored.head_place is not None and has_row(stored.route) else []


def side_by_side(*sides: Iterator[tuple[K, list[Row]]], order: Callable[[K], Any]) -> Iterator[tuple[K, list[list[Row]]]]:
    """The groups of all *sides*, which are in one *order*, together where their keys are one; empty where a side has none."""
    heads = [next(side, None) for side in sides]
    while any(head is not None for head in heads):
        key = min((head[0] for head in heads if head is not None), key=order)
        found: list[list[Row]] = []
        for number, head in enumerate(heads):
            if head is None or head[0] != key:
                found.append([])
                continue
            found.append(head[1])
            heads[number] = next(sides[number], None)
        yield key, found


def _compare_named(
    connection: Any, table: str, partition: int, columns: Mapping[str, str], keys: int, groups: Sequence[list[Row]], found: Found
) -> None:
    names: dict[tuple[str, str], None] = {(rows[0][0], rows[0][1]): None for rows in groups}
    asked = {"tenant_ids": [one for one, _ in names], "routes": [one for _, one in names]}
    stored = connection.execute(statement(f"verify_{table}_of"), asked, binary=True).fetchall()
    wanted = [row for rows in groups for row in rows]
    for one in _unequal(table, partition, columns, keys, wanted, stored):
        found.add(one)


def _unmoved(
    table: str, partition: int, columns: Mapping[str, str], stored: Iterable[Row], names: Mapping[str, Any], found: Found
) -> None:
    """Rows that say that the log changed them of late, of a group that it did not change."""
    for row in stored:
        here = dict(zip(columns, row, strict=True))
        if here["last_offset"] < names["until"]:
            since = f"nothing from offset {names['since']} on"
            found.add(_difference(table, partition, here, "last_offset", since, _shown(here["last_offset"])))


def _stored(connection: Any, table: str, names: Mapping[str, Any]) -> Iterator[Row]:
    with connection.transaction(), connection.cursor(name=f"verify_{table}") as cursor:
        cursor.itersize = 5_000
        cursor.execute(statement(f"verify_{table}"), names, binary=True)
        yield from cursor


def _unequal(
    table: str, partition: int, columns: Mapping[str, str], keys: int, wanted: Iterable[Row], stored: Iterable[Row]
) -> Iterator[Difference]:
    expected = {row[:keys]: row for row in wanted}
    for row in stored:
        given = expected.pop(row[:keys], None)
        if given is None:
            yield _difference(table, partition, dict(zip(columns, row, strict=True)), "row", None, "is there")
        elif given != row:
            yield from _fields(table, partition, columns, given, row)
    for row in expected.values():
        yield _difference(table, partition, dict(zip(columns, row, strict=True)), "row", "is there", None)


def _fields(table: str, partition: int, columns: Mapping[str, str], wanted: Row, stored: Row) -> Iterator[Difference]:
    row = dict(zip(columns, wanted, strict=True))
    for name, log, database in zip(columns, wanted, stored, strict=True):
        if log == database:
            continue
        if name == "body":
            yield from _bodies(table, partition, row, log, database)
        else:
            yield _difference(table, partition, row, name, _shown(log), _shown(database))


def _bodies(table: str, partition: int, row: Mapping[str, Any], log: bytes, database: bytes) -> Iterator[Difference]:
    """Names the fields of a state that differ."""
    decode: Any = operation_of if table == "operations" else route_of_body
    try:
        there = decode(database)
    except msgspec.MsgspecError:
        yield _difference(table, partition, row, "body", f"{len(log)} bytes", f"{len(database)} bytes that are no state")
        return
    here, named = decode(log), False
    for name in here.__struct_fields__:
        if getattr(here, name) != getattr(there, name):
            named = True
            yield _difference(table, partition, row, f"body.{name}", _shown(getattr(here, name)), _shown(getattr(there, name)))
    if not named:
        yield _difference(table, partition, row, "body", f"{len(log)} bytes", f"{len(database)} other bytes of the same state")


def _difference(
    table: str, partition: int, row: Mapping[str, Any], field: str, log: str | None, database: str | None
) -> Difference:
    return Difference(
        table=table,
        partition=partition,
        offset=row.get("log_offset", row.get("last_offset")),
        tenant_id=unescaped(row.get("tenant_id")),
        route=unescaped(row.get("route")),
        operation_id=unescaped(row.get("operation_id")),
        field=field,
        log=log,
        database=database,
    )


def _shown(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"
