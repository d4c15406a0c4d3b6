"""Several reconcilers as real processes: one is killed in mid-run, timers and work are the others', and nothing happens twice."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from landed import Unknown
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.testing.fault_proxy import CommitThenDrop, FaultProxy, Reset
from landed.testing.faulty_provider import FaultyProvider

from .conftest import World
from .shop import shop
from .test_found_by_others import tool_of

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = 24


@pytest.fixture
def reached() -> Iterator[tuple[FaultyProvider, FaultProxy]]:
    with FaultyProvider(honours_key=False) as provider, FaultProxy("127.0.0.1", int(provider.url.rpartition(":")[2])) as proxy:
        yield provider, proxy


def process(world: World, url: str, terms: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "LANDED_KAFKA_BOOTSTRAP": world.log.bootstrap,
        "LANDED_DATABASE_URL": world.view.url,
        "LANDED_TOPIC": world.log.topic,
        "LANDED_REPLIES_TOPIC": world.log.replies_topic,
        "LANDED_WRITER_KEY_ID": "writer-1",
        "LANDED_WRITER_KEY": "a secret of thirty-two bytes or so",
        "SHOP_URL": url,
        "SHOP_TERMS": terms,
        "PYTHONPATH": str(ROOT),
    }
    code = "from landed_services.cli import main; main()"
    command = [sys.executable, "-c", code, "reconciler", "--tools", "tests.e2e.shop:registry"]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.timeout(300)
def test_two_reconcilers_of_which_one_is_killed_in_mid_run_give_one_terminal_state_each(
    world: World, reached: tuple[FaultyProvider, FaultProxy]
) -> None:
    """Half of the calls had their effect, half had not and are sent again: each ends with exactly one."""
    provider, proxy = reached
    tool = tool_of(shop(proxy.url, "retried"))
    world.projector()
    ledger = world.ledger()
    names = [f"op-{number:02}" for number in range(OPERATIONS)]
    with ExitStack() as stack:
        both = [process(world, proxy.url, "retried") for _ in range(2)]
        for one in both:
            stack.callback(one.wait)
            stack.callback(one.kill)
        known_by = time.monotonic() + 60
        while there(world) < 2:
            assert time.monotonic() < known_by, "they do not know of each other"
            time.sleep(0.05)
        for number, name in enumerate(names):
            proxy.arm(CommitThenDrop() if number % 2 else Reset(), method="POST", containing=f'"{name}"'.encode())
            assert isinstance(ledger.perform(tool, operation_id=name, order=name, amount=50), Unknown)
        deadline = time.monotonic() + 150
        while not 4 <= confirmed(world) < OPERATIONS:
            assert time.monotonic() < deadline, f"{confirmed(world)} confirmed"
            assert all(one.poll() is None for one in both)
            time.sleep(0.01)
        both[0].kill()
        while confirmed(world) < OPERATIONS:
            assert time.monotonic() < deadline, f"{confirmed(world)} confirmed"
            time.sleep(0.1)
    assert sorted(one["operation_id"] for one in provider.effects) == names, "an effect twice, or none"
    for number, name in enumerate(names):
        operation = world.operation(name)
        assert (operation.state, operation.marks, operation.review) == ("confirmed", (), None)
        states = [row.state for row in world.rows(name) if row.accepted]
        assert states.count("confirmed") == len(states) - states.index("confirmed"), "it left `confirmed` again"
        granted = [one.event.attempt for one in world.entries(name) if isinstance(one.event, ev.DispatchGranted)]
        # An attempt that the killed one had claimed and not yet sent comes to nothing, and is followed by another.
        assert granted == [1] if number % 2 else granted in ([1, 2], [1, 2, 3])


def there(world: World) -> int:
    return _counted(world, "SELECT count(*) FROM reconcilers")


def confirmed(world: World) -> int:
    return _counted(world, "SELECT count(*) FROM operations WHERE state = 'confirmed'")


def _counted(world: World, query: str) -> int:
    with connect(world.view) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
