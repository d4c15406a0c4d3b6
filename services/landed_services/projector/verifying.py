"""`landed verify`: folds the log anew and compares what comes out with the tables, byte by byte.

The tables are read in one snapshot and the log up to the positions of that snapshot, so a projector may go on working meanwhile.
One partition after the other, so that only the state of one is in memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from landed.adapters.kafka import KafkaSettings, LogReader, check_topic
from landed.adapters.postgres import PostgresSettings, check_schema, connect, translated
from landed.adapters.postgres.bodies import operation_of, route_of_body
from landed.adapters.postgres.escaping import unescaped
from landed.adapters.postgres.news import NEWS_COLUMNS
from landed.adapters.postgres.rows import EVENT_COLUMNS, OPERATION_COLUMNS, REFUSED_COLUMNS, ROUTE_COLUMNS, Row
from landed.adapters.postgres.statements import statement
from landed_services.projector.batch import View
from landed_services.projector.continuity import check_continuity
from landed_services.projector.errors import NotFolded
from landed_services.projector.reading import read_item
from landed_services.projector.store import Position
from landed_services.projector.verifying_rooms import compare_rooms

RECORDS_MAX: Final = 10_000
DIFFERENCES_MAX: Final = 1_000
"""More than that are counted, not listed."""
SHOWN_MAX: Final = 200
"""Characters of a value that are shown."""


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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    partitions: int
    events: int
    operations: int
    differences: tuple[Difference, ...]
    differences_total: int

    @property
    def equal(self) -> bool:
        return self.differences_total == 0


class _Found:
    def __init__(self) -> None:
        self.listed: list[Difference] = []
        self.total = self.events = self.operations = 0

    def add(self, difference: Difference) -> None:
        self.total += 1
        if len(self.listed) < DIFFERENCES_MAX:
            self.listed.append(difference)


def verify(log_settings: KafkaSettings, database: PostgresSettings) -> Report:
    """Compares the fold of the log with the tables, up to the positions that the tables have reached.

    Raises:
        NotFolded: the tables hold no position, so there is nothing to compare.
        LogReplaced: the log does not continue where the database stands.
        LogError, DatabaseError: one of them could not be read.
    """
    facts = check_topic(log_settings)
    found = _Found()
    reader = LogReader(log_settings, replay=True)
    try:
        with connect(database) as connection, translated(database):
            check_schema(database, connection)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            positions = _positions(connection)
            if not positions:
                raise NotFolded(f"{database.shown}: nobody has folded this log yet: start `landed projector`, then verify")
            check_continuity(reader, positions, topic_id=facts.topic_id)
            for partition, place in positions.items():
                view = _folded(reader, log_settings, partition, place.next_offset)
                _compare(connection, partition, view, found)
            compare_rooms(connection, lambda **said: found.add(Difference(**said)))
            connection.execute("ROLLBACK")
    finally:
        reader.close()
    return Report(
        partitions=len(positions),
        events=found.events,
        operations=found.operations,
        differences=tuple(found.listed),
        differences_total=found.total,
    )


def _positions(connection: Any) -> dict[int, Position]:
    rows = connection.execute(statement("positions")).fetchall()
    return {
        partition: Position(
            partition=partition,
            owner_epoch=owner_epoch,
            topic_id=topic_id,
            next_offset=next_offset,
            last_offset=last_offset,
            last_digest=last_digest,
            leader_epoch=leader_epoch,
        )
        for partition, owner_epoch, topic_id, next_offset, last_offset, last_digest, leader_epoch in rows
    }


def _folded(reader: LogReader, settings: KafkaSettings, partition: int, until: int) -> View:
    """The view that the log of *partition* gives, from its beginning to before *until*; its changes are all of its rows."""
    view = View()
    reader.assign({partition: 0})
    offset = 0
    while offset < until:
        records = reader.poll(RECORDS_MAX, 1.0)
        items = [read_item(one, ring=settings.ring, partitions=reader.partitions) for one in records if one.offset < until]
        view.hold_empty(view.missing(items))
        for item in items:
            view.fold(item)
        if records:
            offset = records[-1].offset + 1
        view.changes.forget_what_follows()
    return view


def _compare(connection: Any, partition: int, view: View, found: _Found) -> None:
    changes = view.changes
    found.events += len(changes.events)
    operations = view.operation_rows()
    found.operations += len(operations)
    tables: tuple[tuple[str, Mapping[str, str], int, Iterable[Row]], ...] = (
        ("events", EVENT_COLUMNS, 2, changes.events),
        ("refused_records", REFUSED_COLUMNS, 2, changes.refused),
        ("news", NEWS_COLUMNS, 2, [row[: len(NEWS_COLUMNS)] for row in changes.news]),
        ("operations", OPERATION_COLUMNS, 3, operations),
        ("routes", ROUTE_COLUMNS, 2, view.route_rows()),
    )
    for table, columns, key_columns, rows in tables:
        expected = {row[:key_columns]: row for row in rows}
        for stored in _stored(connection, table, partition):
            wanted = expected.pop(stored[:key_columns], None)
            if wanted is None:
                found.add(_difference(table, partition, dict(zip(columns, stored, strict=True)), "row", None, "is there"))
            elif wanted != stored:
                for difference in _fields(table, partition, columns, wanted, stored):
                    found.add(difference)
        for wanted in expected.values():
            found.add(_difference(table, partition, dict(zip(columns, wanted, strict=True)), "row", "is there", None))


def _stored(connection: Any, table: str, partition: int) -> Iterator[Row]:
    with connection.cursor(name=f"verify_{table}") as cursor:
        cursor.itersize = 5_000
        cursor.execute(statement(f"verify_{table}"), {"partition": partition}, binary=True)
        yield from cursor


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
