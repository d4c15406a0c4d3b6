"""Does the cost stay flat while the tables grow? Fills them with copies of real rows, and measures live operations at each size.

`python -m bench.growing` takes tens of gigabytes and minutes at 3 million operations. With `--folder` what was filled stays
there, so that `--fill-only` can run on a busy machine and the measuring on an idle one.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import sql

from bench import ledger
from bench.cpu import Meter
from bench.measured import Load
from landed import AsyncLedger
from landed.adapters.embedded import embedded
from landed.adapters.kafka import KafkaSettings, check_topic
from landed.adapters.postgres import PostgresSettings
from landed_services.projector.store import Store, Wanted

SIZES = (10_000, 100_000, 1_000_000, 3_000_000)
BULK = 50_000
"""Operations from which indexes are built anew behind the rows, instead of row by row."""
LOOKED_UP = 20
ROUNDS = 50
TABLES = ("operations", "events", "decisions")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation costs at a size of the tables."""

    operations: int
    bytes: int
    load: Load
    looked_up_ms: float
    """Look-ups of a batch of 20 claims, compare-and-set of the position included."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growing", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="operations in the tables")
    parser.add_argument("--operations", type=int, default=2000, help="live operations of a run, by 256 callers")
    parser.add_argument("--folder", type=Path, help="keeps the servers' data there")
    parser.add_argument("--fill-only", action="store_true")
    given = parser.parse_args(words)
    with contextlib.ExitStack() as opened:
        folder = given.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="landed-growing-")))
        running = opened.enter_context(embedded(folder, wipe=given.folder is None))
        place = _place(folder, running.bootstrap, running.database_url)
        if not _count(place):
            asyncio.run(live(place, folder, {}, 200))
        points = []
        for size in sorted(given.sizes):
            fill(place, size)
            if not given.fill_only:
                points.append(measured(place, folder, given.operations))
    print(shown(points))


def _place(folder: Path, bootstrap: str, url: str) -> ledger.Place:
    """The ledger that the folder holds, or a new one; ports differ from run to run."""
    note = folder / "growing.json"
    if note.exists():
        topic, replies, database = msgspec.json.decode(note.read_bytes(), type=tuple[str, str, str])
        log = KafkaSettings(bootstrap=bootstrap, ring=ledger.RING, topic=topic, replies_topic=replies)
        return ledger.Place(log, PostgresSettings(url=url.rpartition("/")[0] + "/" + database))
    made = ledger.new_place(bootstrap, url)
    note.write_bytes(msgspec.json.encode((made.log.topic, made.log.replies_topic, made.view.url.rpartition("/")[2])))
    return made


# ---- filling ----------------------------------------------------------------------------------------------------------


def fill(place: ledger.Place, size: int) -> None:
    """Brings the tables to *size* operations: copies of rows that a projector wrote, under ids that spread over the indexes."""
    have = _count(place)
    if have >= size:
        return
    began = time.monotonic()
    indexes = _without_indexes(place) if size - have > BULK else contextlib.nullcontext()
    with _unsynced(place), indexes, ThreadPoolExecutor(len(TABLES)) as threads:
        list(threads.map(lambda table: _multiply(place, table, have + 1, size), TABLES))
    with _connected(place) as connection:
        for table in TABLES:
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
        connection.execute("CHECKPOINT")
    print(f"filled from {have:,} to {size:,} operations in {time.monotonic() - began:.0f} s", flush=True)


def _multiply(place: ledger.Place, table: str, first: int, last: int) -> None:
    own: dict[str, LiteralString] = {
        "route": "k.name",
        "operation_id": "k.name",
        "partition": "(k.n % 12)::integer",
        "claim_id": "md5('c' || k.n)",
        "reference": "'t_' || k.name",
        "event_id": "md5(k.n || '-' || t.r)",
        "first_offset": "-4 * k.n",
        "last_offset": "-4 * k.n",
        # In front of the log: no offset and no number is taken twice.
        "log_offset": "-4 * k.n - t.r",
        "number": "-k.n",
        "returned_offset": "-4 * k.n",
    }
    with _connected(place) as connection:
        columns = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(table))).description
        names = [one.name for one in columns or ()]
        values = [sql.SQL(own[name]) if name in own else sql.SQL("t.{}").format(sql.Identifier(name)) for name in names]
        connection.execute("SET synchronous_commit = off")
        connection.execute(
            sql.SQL(
                """
                WITH one AS (
                    SELECT tenant_id, route, operation_id FROM operations WHERE state = 'confirmed' AND first_offset >= 0 LIMIT 1
                ), t AS MATERIALIZED (
                    SELECT x.*, row_number() OVER () AS r FROM {table} AS x JOIN one USING (tenant_id, route, operation_id)
                )
                INSERT INTO {table} ({names})
                SELECT {values}
                FROM (SELECT n, 'old-' || md5(n::text) AS name FROM generate_series({first}::bigint, {last}::bigint) AS n) AS k
                CROSS JOIN t
                """
            ).format(
                table=sql.Identifier(table),
                names=sql.SQL(", ").join(map(sql.Identifier, names)),
                values=sql.SQL(", ").join(values),
                first=sql.Literal(first),
                last=sql.Literal(last),
            )
        )


@contextlib.contextmanager
def _unsynced(place: ledger.Place) -> Iterator[None]:
    """A server that waits for no disk, for the time of the filling alone."""
    settings = ("fsync", "off"), ("full_page_writes", "off"), ("max_wal_size", "16GB")
    with _connected(place) as connection:
        for name, value in settings:
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            for name, _ in settings:
                connection.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
            connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def _without_indexes(place: ledger.Place) -> Iterator[None]:
    with _connected(place) as connection:
        constraints = connection.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conrelid::regclass::text = ANY(%s) AND contype = 'p'",
            [list(TABLES)],
        ).fetchall()
        indexes = connection.execute(
            "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND NOT indexname = ANY(%s)",
            [list(TABLES), [name for _, name, _ in constraints]],
        ).fetchall()
        for table, name, _ in constraints:
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for _, name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
    yield

    def build(table: str) -> None:
        with _connected(place) as connection:
            connection.execute("SET maintenance_work_mem = '1GB'; SET synchronous_commit = off")
            for of, name, definition in constraints:
                if of == table:
                    connection.execute(f"ALTER TABLE {of} ADD CONSTRAINT {name} {definition}")
            for of, _, definition in indexes:
                if of == table:
                    connection.execute(definition)

    with ThreadPoolExecutor(len(TABLES)) as threads:
        list(threads.map(build, TABLES))


# ---- measuring --------------------------------------------------------------------------------------------------------


def measured(place: ledger.Place, folder: Path, operations: int) -> Point:
    """What *operations* live ones cost now, with a projector that is new to the tables."""
    pids = msgspec.json.decode((folder / "state.json").read_bytes())["servers"]
    servers = {"postgres": pids["postgres"]["process"]["pid"], "broker": pids["kafka"]["process"]["pid"]}
    looked_up_ms = _looked_up_ms(place)
    load = asyncio.run(live(place, folder, servers, operations))
    with _connected(place) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return Point(operations=_count(place), bytes=row[0] if row else 0, load=load, looked_up_ms=looked_up_ms)


async def live(place: ledger.Place, folder: Path, servers: dict[str, int], operations: int, *, warm: int = 300) -> Load:
    """*operations* by 256 callers, after *warm* others, through a projector of their own."""
    with ledger.projecting(place, folder / "projector.log") as projector:
        meter = Meter({"SDK": os.getpid(), "projector": projector, **servers})
        async with AsyncLedger.connect(ledger.settings(place)) as opened:
            await ledger.run(opened, 64, warm, name_of=_scattered)
            meter.start()
            load = await ledger.run(opened, 256, operations, name_of=_scattered)
            load.cpu = meter.per_operation(operations)
            return load


def _scattered(name: str) -> str:
    """An id that stands anywhere in an index, as ids from hashes do."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _looked_up_ms(place: ledger.Place) -> float:
    """The first statements of a turn for a batch of claims, half of known operations; nothing is kept."""
    store = Store(place.view)
    try:
        here = store.take_over([0], topic_id=check_topic(place.log).topic_id, owner="bench")[0]
        with _connected(place) as connection:
            known = _known(connection)
        took = []
        for number in range(ROUNDS):
            names = [*known[number % 7 :: 7][: LOOKED_UP // 2], *(_scattered(f"{number}-{one}") for one in range(LOOKED_UP // 2))]
            wanted = Wanted(
                routes=[("acme", name) for name in names],
                operation_ids=[("acme", name) for name in names],
                claims=[("acme", name, name, "c") for name in names],
            )
            began = time.perf_counter()
            with store.transaction(large=False):
                store.advance([(here, here)], wanted)
            took.append((time.perf_counter() - began) * 1000)
        store.release([here])
        return statistics.median(took)
    finally:
        store.close()


def _known(connection: Any) -> list[str]:
    """Ids of operations from all over the table."""
    some = "SELECT operation_id FROM operations TABLESAMPLE BERNOULLI (5) LIMIT 140"
    return [row[0] for row in connection.execute(some).fetchall()]


def _count(place: ledger.Place) -> int:
    with _connected(place) as connection:
        row = connection.execute("SELECT count(*) FROM operations").fetchone()
    return int(row[0]) if row else 0


def _connected(place: ledger.Place) -> psycopg.Connection[Any]:
    return psycopg.connect(place.view.url, autocommit=True)


def shown(points: Sequence[Point]) -> str:
    heads = ("operations", "GB", "op/s", "CPU ms/op", "postgres", "projector", "verdict p50 ms", "look-ups ms")
    rows = [
        (
            f"{one.operations:,}",
            f"{one.bytes / 1e9:.1f}",
            f"{one.load.rate:,.0f}",
            f"{one.load.cpu_total:.2f}",
            f"{one.load.cpu['postgres']:.2f}",
            f"{one.load.cpu['projector']:.2f}",
            f"{one.load.verdict_p50:.0f}",
            f"{one.looked_up_ms:.2f}",
        )
        for one in points
    ]
    return "\n".join("  ".join(f"{cell:>14}" for cell in row) for row in [heads, *rows])


if __name__ == "__main__":
    main()
