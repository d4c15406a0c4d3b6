"""Looks at the view from outside: what its tables hold, and whether it has reached the end of the log."""

import time
from collections.abc import Callable
from typing import Any

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.adapters.postgres import PostgresSettings, connect

VIEW = ("operations", "routes", "events", "refused_records", "undecided")


def rows(database: PostgresSettings, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with connect(database) as connection:
        return connection.execute(query, parameters).fetchall()  # type: ignore[arg-type]


def view(database: PostgresSettings) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that is folded from the log."""
    return {table: sorted(rows(database, f"SELECT {table}::text FROM {table}")) for table in VIEW}


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(0.02)


def wait_for_end(settings: KafkaSettings, database: PostgresSettings, *, seconds: float = 60.0) -> None:
    """Waits until the view has reached the end of the log and no decision is on its way."""
    reader = LogReader(settings)

    def reached() -> bool:
        ends = {one: end for one, end in reader.end_offsets().items() if end}
        stands = dict(rows(database, "SELECT partition, next_offset FROM positions"))
        if any(stands.get(one, 0) < end for one, end in ends.items()):
            return False
        return rows(database, "SELECT count(*) FROM decisions WHERE returned_offset IS NULL") == [(0,)]

    try:
        wait_until(reached, "the view reaches the end of the log", seconds=seconds)
    finally:
        reader.close()
