"""Faults on the real broker and database, asserted on provider effects, event order and evidence."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from tests.e2e.conftest import TENANT, World

from landed.adapters.embedded import Servers
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.fold import empty_route, fold
from landed.core.state import Operation, Route
from landed.testing.failure_points import SETTING
from landed_services.projector.verifying import verify

from .paying import Provider, Tools

ROOT = Path(__file__).resolve().parent.parent.parent


class Chaos(World):
    """A ledger with a provider, and processes that may be killed or stopped."""

    def __init__(self, servers: Servers, database: str, folder: Path) -> None:
        super().__init__(servers, database)
        self.provider = Provider(folder / f"{self.log.topic}.effects")
        self.tools = Tools(self.provider)

    @contextmanager
    def process(self, role: str, *, point: str | None = None, **given: Any) -> Iterator[subprocess.Popen[str]]:
        """A process in *role*, to be hit at *point*; killed with -9 at the end of the block if it has not ended before."""
        fields = {
            "bootstrap": self.log.bootstrap,
            "topic": self.log.topic,
            "replies_topic": self.log.replies_topic,
            "database_url": self.view.url,
            "effects": str(self.provider.path),
            "tenant": TENANT,
            "wait": 20.0,
            "seconds": 0.0,
            **given,
        }
        environment = {**os.environ, "LANDED_TEST_OWNER": str(os.getpid()), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop(SETTING, None)
        if point is not None:
            environment[SETTING] = point
        command = [sys.executable, "-m", "tests.chaos.process", role]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **pipes) as started:
            try:
                assert started.stdin is not None
                started.stdin.write(json.dumps(fields) + "\n")
                started.stdin.flush()
                yield started
            finally:
                started.kill()
                started.communicate()

    def caller(self, operation_id: str, *, tool: str = "pay", point: str | None = None, **given: Any) -> tuple[int, Any]:
        """Performs in a process of its own; how it ended (-9: killed) and what it was told."""
        named = {"operation_id": operation_id, "tool": tool, "worker": f"caller-{operation_id}"}
        with self.process("caller", point=point, **named, **given) as started:
            said, _ = started.communicate(timeout=60)
            return started.returncode, json.loads(said) if said else None

    def folded(self) -> dict[str, Operation]:
        """Every operation as the log folds now."""
        routes: dict[tuple[str, str], Route] = {}
        for entry in self.entries():
            key = entry.event.tenant_id, entry.event.route
            routes[key] = fold(routes.get(key) or empty_route(*key), entry).route
        return {name: one for route in routes.values() for name, one in route.operations.items()}

    def story(self, operation_id: str) -> list[str]:
        """What happened to an operation: accepted events but those that change nothing."""
        quiet = ("operation_prepared", "dispatch_refused", "probe_recorded")
        return [event for event in self.events(operation_id) if event not in quiet]

    def until_settled(self, operation_id: str, *, timeout_s: float = 60.0) -> Operation:
        """The operation as the log folds, once the view shows that nothing about it is in doubt."""
        deadline, state = time.monotonic() + timeout_s, None
        while state in (None, "dispatched", "unknown", "reconciling"):
            assert time.monotonic() < deadline, f"{operation_id} is still {state}: {self.events(operation_id)}"
            time.sleep(0.1)
            with connect(self.view) as connection:
                row = connection.execute("SELECT state FROM operations WHERE operation_id = %s", (operation_id,)).fetchone()
            state = row[0] if row else None
        return self.operation(operation_id)

    def assert_whole(self) -> None:
        """The view is the fold of the log to the byte, nothing waits, and no claim was decided twice."""
        self.wait_for_end()
        report = verify(self.log, self.view)
        assert report.equal, [str(one) for one in report.differences[:10]]
        decided: dict[str, set[str]] = {}
        for entry in self.entries():
            if isinstance(entry.event, ev.DispatchGranted | ev.DispatchRefused):
                decided.setdefault(entry.event.claim_id, set()).add(entry.event.event_id)
        twice = {claim_id: len(made) for claim_id, made in decided.items() if len(made) > 1}
        assert not twice, f"claims with two decisions: {twice}"

    def wait_for_end(self, *, seconds: float = 60.0) -> None:
        """Waits until the view has reached the end of the log, no decision is on its way and no claim waits for one."""
        from landed.adapters.kafka import LogReader

        reader, deadline = LogReader(self.log), time.monotonic() + seconds
        try:
            while True:
                with connect(self.view) as connection:
                    stands: dict[int, int] = dict(connection.execute("SELECT partition, next_offset FROM positions").fetchall())
                    waiting = "SELECT (SELECT count(*) FROM decisions WHERE returned_offset IS NULL), count(*) FROM undecided"
                    left = connection.execute(waiting).fetchone()
                if left == (0, 0) and all(stands.get(one, 0) >= end for one, end in reader.end_offsets().items()):
                    return
                assert time.monotonic() < deadline, f"positions {stands}, on their way and undecided {left}"
                time.sleep(0.05)
        finally:
            reader.close()


def one_effect_each(provider: Provider, operation_ids: Iterable[str]) -> None:
    effects = provider.effects()
    wrong = {one: effects[one] for one in operation_ids if effects[one] != 1}
    assert not wrong, f"operations without exactly one effect: {wrong}"


def wait_for_state(process: subprocess.Popen[str], state: str, *, seconds: float = 30.0) -> None:
    """Waits until the kernel shows *process* in *state*: T for stopped."""
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert process.poll() is None, "the process ended"
        assert time.monotonic() < deadline, f"never in state {state}"
        time.sleep(0.02)


def go_on(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGCONT)


@contextmanager
def chaos_on(servers: Servers, folder: Path) -> Iterator[Chaos]:
    """A ledger of its own on *servers*, with a database that goes with it."""
    name = f"chaos_{uuid.uuid4().hex}"
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    made = Chaos(servers, urlsplit(servers.database_url)._replace(path=f"/{name}").geturl(), folder)
    try:
        yield made
    finally:
        made.end()
        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def chaos(servers: Servers, tmp_path: Path) -> Iterator[Chaos]:
    with chaos_on(servers, tmp_path) as made:
        yield made
