"""The same effect through the ledger: the SDK in this process, a projector in its own, the real broker and database."""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg import sql

from bench.measured import Load, spread_of
from landed import AsyncLedger, Confirmed, Effect, Settings, effect
from landed.adapters.kafka import KafkaSettings, ensure_topics
from landed.adapters.postgres import PostgresSettings, migrate
from landed.wire.mac import KeyRing

SECRET = "a secret of thirty-two bytes or so"
RING = KeyRing({"bench": SECRET.encode()}, signing="bench", mandatory=True)
_ENTERED: dict[str, float] = {}


@effect(tool="things.make", effect=Effect(kind="thing.make"), reference_field="id", receipt_fields=("id",))
async def make(name: str) -> dict[str, str]:
    _ENTERED[name] = time.perf_counter()
    return {"id": "t_" + name}


class Place(msgspec.Struct, frozen=True):
    """A ledger of its own: topics and database."""

    log: KafkaSettings
    view: PostgresSettings

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LANDED_KAFKA_BOOTSTRAP": self.log.bootstrap,
            "LANDED_DATABASE_URL": self.view.url,
            "LANDED_TOPIC": self.log.topic,
            "LANDED_REPLIES_TOPIC": self.log.replies_topic,
            "LANDED_WRITER_KEY_ID": "bench",
            "LANDED_WRITER_KEY": SECRET,
        }

    def command(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).with_name("landed")), *words]


def new_place(bootstrap: str, database_url: str, *, partitions: int = 12) -> Place:
    name = "bench_" + uuid.uuid4().hex[:8]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    log = KafkaSettings(bootstrap=bootstrap, ring=RING, topic=f"{name}.operations", replies_topic=f"{name}.replies")
    view = PostgresSettings(url=urlsplit(database_url)._replace(path="/" + name).geturl())
    ensure_topics(log, partitions=partitions)
    migrate(view)
    return Place(log, view)


@contextmanager
def projecting(place: Place, output: Path) -> Iterator[int]:
    """A projector in a process of its own; gives its pid."""
    with output.open("ab") as written:
        process = subprocess.Popen(place.command("projector"), env=place.environment(), stdout=written, stderr=written)
    try:
        yield process.pid
    except RuntimeError as error:
        raise RuntimeError(f"{error}; the projector said: {output.read_text()[-2000:]}") from error
    finally:
        process.terminate()
        process.wait(30)


def settings(place: Place) -> Settings:
    log = place.log
    return Settings(
        tenant="acme",
        bootstrap=log.bootstrap,
        topic=log.topic,
        replies_topic=log.replies_topic,
        worker="bench",
        ring=RING,
        wait=60.0,
    )


async def run(ledger: AsyncLedger, callers: int, operations: int, *, name_of: Callable[[str], str] = str) -> Load:
    """*operations* effects by *callers* tasks of this process; each must come out confirmed by its own call."""
    mark = uuid.uuid4().hex
    names = iter(range(operations))
    took: list[float] = []
    verdicts: list[float] = []

    async def work() -> None:
        for number in names:
            name = name_of(f"{mark}-{number}")
            began = time.perf_counter()
            result = await ledger.perform(make, operation_id=name, name=name)
            took.append(time.perf_counter() - began)
            if not isinstance(result, Confirmed) or result.repeated:
                raise RuntimeError(f"{name}: {result}")
            verdicts.append(_ENTERED.pop(name) - began)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(callers)))
    rate = operations / (time.perf_counter() - began)
    waited, performed = spread_of(verdicts), spread_of(took)
    return Load(rate=rate, p50=performed.p50, p99=performed.p99, verdict_p50=waited.p50, verdict_p99=waited.p99)
