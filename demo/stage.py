"""Everything that the demo runs on: servers, topics and database of its own, projector and reconciler as processes, provider."""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
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
from landed_services.reading import read_item
from landed_services.replay.scope import Scope
from landed_services.replay.topic import Topic
from landed_services.replay.what_if import WhatIf

ROOT = Path(__file__).resolve().parent.parent
TENANT = "demo"
PARTITIONS = 3
SERVICES: Final = (("projector",), ("reconciler", "--tools", "demo.tools:registry"))


class Stage:
    """What is up while the demo runs; everything in it ends with `set_up`."""

    def __init__(
        self,
        used: Servers,
        log: KafkaSettings,
        view: PostgresSettings,
        provider: Provider,
        proxy: FaultProxy,
        provider_setting: str = PROVIDER_URL,
    ) -> None:
        self.used = used
        self.log = log
        self.view = view
        self.provider = provider
        self.proxy = proxy
        self._provider_setting = provider_setting

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
            self._provider_setting: self.proxy.url,
        }

    def entries(self, operation_id: str) -> list[Entry]:
        """Events of an operation, read from the topic itself, in log order."""
        return read_entries(self.log, operation_id)

    def other_decisions(self) -> tuple[int, list[str]]:
        """How many decisions stand on the topic, and those that do not follow again from the facts that they saw."""
        topic, scope = Topic(self.log), Scope(tenant_id=TENANT)
        run = WhatIf(scope)
        items = (read_item(one, ring=self.log.ring, partitions=topic.partitions) for one in topic.records(scope))
        told = [f"{one.operation_id}: {one.instead} instead of {one.recorded}" for one in run.differences(items)]
        return run.tally.decisions, told + [f"{number} not judged: {why}" for why, number in run.tally.unjudged.items()]


_KEYS = {"demo": secrets.token_hex(16).encode()}


@contextlib.contextmanager
def set_up(
    progress: Progress,
    say: Callable[[str], None],
    *,
    name: str = "demo",
    server: Path | None = None,
    provider_setting: str = PROVIDER_URL,
    services: Sequence[Sequence[str]] = SERVICES,
) -> Iterator[Stage]:
    """Starts it all and takes it all away again; the servers' data folder is kept for the next run.

    Args:
        name: of the data folder, and what topics and database begin with.
        server: program of the provider; None: localstripe.
        provider_setting: environment variable in which the tools find the provider.
        services: `landed` commands that run meanwhile.
    """
    folder = ROOT / ".landed" / name
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(servers(folder, progress=progress, say=say))
        name = f"{name.replace('-', '_')}_{secrets.token_hex(4)}"
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
        provider = stack.enter_context(Provider() if server is None else Provider(server))
        proxy = stack.enter_context(FaultProxy("127.0.0.1", provider.port))
        stage = Stage(used, log, view, provider, proxy, provider_setting)
        for command in services:
            stack.enter_context(service(command, stage.environment, folder))
        wait_for_projector(view, folder)
        yield stage


@contextlib.contextmanager
def service(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`landed COMMAND` as a process; asked to end at the end, and killed if it does not. It goes when this process is gone."""
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


def wait_for_projector(view: PostgresSettings, folder: Path, *, timeout_s: float = 60.0) -> None:
    """Until it owns every partition; before that callers would wait, and after their time be refused."""
    deadline = time.monotonic() + timeout_s
    with psycopg.connect(view.url, autocommit=True) as connection:
        while connection.execute("SELECT count(*) FROM positions").fetchone() != (PARTITIONS,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the projector did not start within {timeout_s:g} s: see .landed/{folder.name}/projector.log")
            time.sleep(0.1)


def _drop(used: Servers, log: KafkaSettings, name: str) -> None:
    with contextlib.suppress(psycopg.Error), psycopg.connect(used.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    admin = AdminClient({"bootstrap.servers": used.bootstrap, "log_level": 0})
    for future in admin.delete_topics([log.topic, log.replies_topic]).values():
        with contextlib.suppress(KafkaException):
            future.result(timeout=10)
