"""Everything that the demo runs on: servers, topics and database of its own, projector and reconciler as processes, provider."""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from psycopg import sql

from demo.provider import Provider
from demo.tools import PROVIDER_URL
from landed.adapters.embedded import Progress, Servers, servers
from landed.adapters.kafka import KafkaSettings, ensure_topics
from landed.adapters.postgres import PostgresSettings, migrate
from landed.core.events import Entry
from landed.testing.fault_proxy import FaultProxy
from landed.wire.mac import KeyRing
from landed_services.queries.log import read_entries

ROOT = Path(__file__).resolve().parent.parent
TENANT = "demo"
PARTITIONS = 3


class Stage:
    """What is up while the demo runs; everything in it ends with `set_up`."""

    def __init__(self, used: Servers, log: KafkaSettings, view: PostgresSettings, provider: Provider, proxy: FaultProxy) -> None:
        self.used = used
        self.log = log
        self.view = view
        self.provider = provider
        self.proxy = proxy

    @property
    def environment(self) -> dict[str, str]:
        """Settings of every process of the demo: all that the SDK and the services need."""
        ((key_id, key),) = _KEYS.items()
        return {
            **os.environ,
            "LANDED_KAFKA_BOOTSTRAP": self.used.bootstrap,
            "LANDED_DATABASE_URL": self.view.url,
            "LANDED_TOPIC": self.log.topic,
            "LANDED_REPLIES_TOPIC": self.log.replies_topic,
            "LANDED_TENANT": TENANT,
            "LANDED_WORKER": "agent",
            "LANDED_WRITER_KEY_ID": key_id,
            "LANDED_WRITER_KEY": key.decode(),
            PROVIDER_URL: self.proxy.url,
        }

    def entries(self, operation_id: str) -> list[Entry]:
        """Events of an operation, read from the topic itself, in log order."""
        return read_entries(self.log, operation_id)


_KEYS = {"demo": secrets.token_hex(16).encode()}


@contextlib.contextmanager
def set_up(progress: Progress, say: Callable[[str], None]) -> Iterator[Stage]:
    """Starts it all and takes it all away again; the servers' data folder is kept for the next run."""
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(servers(ROOT / ".landed" / "demo", progress=progress, say=say))
        name = f"demo_{secrets.token_hex(4)}"
        log = KafkaSettings(
            bootstrap=used.bootstrap,
            topic=f"landed.{name}.operations",
            replies_topic=f"landed.{name}.replies",
            ring=KeyRing(_KEYS, signing="demo", mandatory=True),
        )
        view = PostgresSettings(url=urlsplit(used.database_url)._replace(path=f"/{name}").geturl())
        stack.callback(_drop, used, log, name)
        with psycopg.connect(used.database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        ensure_topics(log, partitions=PARTITIONS)
        migrate(view)
        say(f"Ledger {log.topic} ({PARTITIONS} partitions), view {view.shown}")
        provider = stack.enter_context(Provider())
        proxy = stack.enter_context(FaultProxy("127.0.0.1", provider.port))
        stage = Stage(used, log, view, provider, proxy)
        for command in (["projector"], ["reconciler", "--tools", "demo.tools:registry"]):
            stack.enter_context(service(command, stage.environment))
        _wait_for_projector(view)
        yield stage


@contextlib.contextmanager
def service(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """`landed COMMAND` as a process; asked to end at the end, and killed if it does not. It goes when this process is gone."""
    folder = ROOT / ".landed" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{command[0]}.log", "wb") as output:
        words = [sys.executable, "-m", "demo.service", *command]
        process = subprocess.Popen(
            words, cwd=ROOT, env=dict(environment), stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            if process.stdin is not None:
                process.stdin.close()


def _wait_for_projector(view: PostgresSettings, *, timeout_s: float = 60.0) -> None:
    """Until it owns every partition; before that callers would wait, and after their time be refused."""
    deadline = time.monotonic() + timeout_s
    with psycopg.connect(view.url, autocommit=True) as connection:
        while connection.execute("SELECT count(*) FROM positions").fetchone() != (PARTITIONS,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the projector did not start within {timeout_s:g} s: see .landed/demo/projector.log")
            time.sleep(0.1)


def _drop(used: Servers, log: KafkaSettings, name: str) -> None:
    with contextlib.suppress(psycopg.Error), psycopg.connect(used.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    admin = AdminClient({"bootstrap.servers": used.bootstrap, "log_level": 0})
    for future in admin.delete_topics([log.topic, log.replies_topic]).values():
        with contextlib.suppress(KafkaException):
            future.result(timeout=10)
