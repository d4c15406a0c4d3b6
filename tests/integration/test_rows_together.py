"""Rows that are written by one statement are those that a statement for each would have written."""

import os
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from landed.adapters.postgres import PostgresSettings, connect, migrate, together
from landed.adapters.postgres.rows import EVENT_COLUMNS, OPERATION_COLUMNS
from landed.adapters.postgres.statements import statement

TEXTS = ["", "plain", "quoted \" and \\ and ' and %s", "\u2603 \U0001f600 \u00e9", "\x01\x1f\x7f", "null", "{}"]
OF_KIND: Mapping[str, list[Any]] = {
    "text": TEXTS,
    "text[]": [[], TEXTS, ["one"]],
    "int2": [0, 3],
    "int4": [0, 2**31 - 1],
    "int8": [0, 2**63 - 1, -(2**63), 2**53 + 1],
    "bool": [True, False],
    "bytea": [b"", bytes(range(256)), os.urandom(1000)],
}


@pytest.fixture
def connection(fresh_database: str) -> Any:
    settings = PostgresSettings(url=fresh_database)
    migrate(settings)
    with connect(settings) as opened:
        yield opened


def rows_of(columns: Mapping[str, str], own: Mapping[str, Any], number: int) -> list[tuple[Any, ...]]:
    """Rows in which every column once holds each value of its kind, and null where it may."""
    found = []
    for row in range(number):
        values = {}
        for place, (column, kind) in enumerate(columns.items()):
            values[column] = OF_KIND[kind][(row + place) % len(OF_KIND[kind])]
        found.append(tuple({**values, **{name: give(row) for name, give in own.items()}}.values()))
    return found


TABLES = {
    "insert_event": ("events", EVENT_COLUMNS, {"partition": lambda row: 1, "log_offset": lambda row: row}),
    "upsert_operation": (
        "operations",
        OPERATION_COLUMNS,
        {
            "operation_id": lambda row: f"op-{row}",
            "group_id": lambda row: None,
            "reference": lambda row: None if row % 2 else "re",
        },
    ),
}


def table_of(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    return connection.execute(f"SELECT * FROM {table} ORDER BY {table}::text".encode()).fetchall()


@pytest.mark.parametrize("name", TABLES)
def test_one_statement_writes_what_one_for_each_row_writes(connection: psycopg.Connection[Any], name: str) -> None:
    table, columns, own = TABLES[name]
    rows = rows_of(columns, own, 20)
    for row in rows:
        connection.execute(statement(name), row)
    expected = table_of(connection, table)
    connection.execute(f"TRUNCATE {table}".encode())
    together.write_together(connection, name, columns, rows)
    assert table_of(connection, table) == expected
    assert len(expected) == 20


def test_what_is_known_already_is_brought_up_to_date(connection: psycopg.Connection[Any]) -> None:
    _, columns, own = TABLES["upsert_operation"]
    before, after = rows_of(columns, own, 8), rows_of(columns, {**own, "state": lambda row: "later"}, 12)
    together.write_together(connection, "upsert_operation", columns, before)
    together.write_together(connection, "upsert_operation", columns, after)
    found = connection.execute("SELECT state, count(*) FROM operations GROUP BY state").fetchall()
    assert found == [("later", 12)]


def test_very_long_rows_go_in_several_statements(connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "BYTES_MAX", 3_000)
    _, columns, own = TABLES["insert_event"]
    rows = rows_of(columns, {**own, "value": lambda row: b"x" * 1_000}, 10)
    connection.execute("CREATE TEMPORARY TABLE statements AS SELECT 0 AS number")
    connection.execute(
        "CREATE FUNCTION pg_temp.counted() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN UPDATE statements SET number = number + 1; RETURN NULL; END $$"
    )
    connection.execute("CREATE TRIGGER counted AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.counted()")
    together.write_together(connection, "insert_event", columns, rows)
    assert connection.execute("SELECT count(*), (SELECT number FROM statements) FROM events").fetchall() == [(10, 10)]


def test_a_statement_of_other_columns_is_refused(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(LookupError, match="does not insert 2 values"):
        together.write_together(connection, "insert_event", {"partition": "int4", "log_offset": "int8"}, [(1, 2)])
