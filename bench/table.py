"""What people write by hand: a table of idempotency keys. Insert on conflict do nothing, run, update; each its own commit."""

import asyncio
import time
import uuid

import psycopg

from bench.measured import Load, spread_of

_CREATE = "CREATE TABLE IF NOT EXISTS done (id text PRIMARY KEY, state text NOT NULL, result text, at timestamptz DEFAULT now())"
_CLAIM = "INSERT INTO done (id, state) VALUES (%s, 'started') ON CONFLICT (id) DO NOTHING RETURNING id"
_DONE = "UPDATE done SET state = 'done', result = %s WHERE id = %s"


async def effect(name: str) -> str:
    return "t_" + name


async def _perform(connection: psycopg.AsyncConnection, name: str) -> None:
    cursor = await connection.execute(_CLAIM, (name,), prepare=True)
    if await cursor.fetchone() is None:
        raise RuntimeError(f"{name} was done before")
    result = await effect(name)
    await connection.execute(_DONE, (result, name), prepare=True)


async def run(url: str, callers: int, operations: int) -> Load:
    """*operations* effects by *callers* tasks of this process, each with a connection of its own."""
    connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(callers)]
    try:
        await connections[0].execute(_CREATE)
        mark = uuid.uuid4().hex
        for number, connection in enumerate(connections):
            await _perform(connection, f"{mark}-warm-{number}")
        names = iter(range(operations))
        took: list[float] = []

        async def work(connection: psycopg.AsyncConnection) -> None:
            for number in names:
                began = time.perf_counter()
                await _perform(connection, f"{mark}-{number}")
                took.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(work(connection) for connection in connections))
        rate, performed = operations / (time.perf_counter() - began), spread_of(took)
        return Load(rate=rate, p50=performed.p50, p99=performed.p99)
    finally:
        for connection in connections:
            await connection.close()
