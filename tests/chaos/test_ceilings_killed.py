"""A ceiling under a burst across three projectors, of which one is killed, and a broker that starts anew (semantics.md §9)."""

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.test_servers_killed import Own

from landed import AsyncLedger, Confirmed, Refused, Result, Tool, Unknown, effect
from landed.adapters.embedded import Part
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect
from landed.core import events as ev
from landed.core.vocabulary import Refusal
from landed_services.people.policies import set_policy

from .conftest import Chaos, chaos_on

pytestmark = pytest.mark.timeout(300)
CEILING = 20
TENANT = "acme"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    made = Own(tmp_path_factory.mktemp("own"))
    yield made
    made.end()


@pytest.fixture
def chaos(own: Own, tmp_path: Path) -> Iterator[Chaos]:
    with chaos_on(own.servers, tmp_path) as made:
        yield made


def set_ceiling(chaos: Chaos) -> None:
    log = KafkaEventLog(chaos.log)
    try:
        with connect(chaos.view) as connection:
            set_policy(log, connection, TENANT, "ceiling:dns.delete", f'{{"surge_per_hour": {CEILING}}}', who="anna", why="burst")
    finally:
        log.close(10.0)


@pytest.mark.parametrize("claims", [100, 2_000])
def test_a_ceiling_of_twenty_grants_twenty_whatever_is_killed_in_mid_burst(own: Own, chaos: Chaos, claims: int) -> None:
    calls: Counter[str] = Counter()

    @effect(tool="dns.delete", effect="dns.delete", lease=60.0, reference_field="id")
    async def delete(name: str) -> dict[str, str]:
        calls[name] += 1
        return {"id": f"re_{name}"}

    @effect(tool="mail.send", effect="mail.send", lease=60.0, reference_field="id")
    async def send(name: str) -> dict[str, str]:
        calls[name] += 1
        return {"id": f"re_{name}"}

    async def burst(victim: subprocess.Popen[str]) -> list[Result]:
        async with AsyncLedger.connect(chaos.settings(wait=100.0)) as ledger:

            async def perform(tool: Tool[..., Any], name: str) -> Result:
                while True:
                    result = await ledger.perform(tool, operation_id=name, name=name)
                    if not (isinstance(result, Refused) and result.reason is Refusal.LEDGER_UNAVAILABLE):
                        return result
                    await asyncio.sleep(0.1)  # a projector takes over what the dead one owned: nothing is granted meanwhile

            asked = [asyncio.create_task(perform(delete, f"d{number}")) for number in range(claims)]
            while victim.poll() is None:  # it has to die in mid-burst, however many claims one of its turns took
                asked.append(asyncio.create_task(perform(send, f"m{len(asked) - claims}")))
                await asyncio.sleep(0.02)
            assert victim.returncode == -9
            await asyncio.gather(asyncio.to_thread(own.killed, Part.KAFKA), *asked)
            return [one.result() for one in asked]

    with ExitStack() as running:
        for _ in range(2):
            running.enter_context(chaos.process("projector"))
        # It dies with decisions in the outbox that were never appended.
        victim = running.enter_context(chaos.process("projector", point="projector.committed:kill:2"))
        until_shared(chaos, 3)
        set_ceiling(chaos)
        began = time.monotonic()
        results = asyncio.run(burst(victim))
        print(f"{claims} claims answered within {time.monotonic() - began:.1f} s")
        chaos.assert_whole()
    deleted, sent = results[:claims], results[claims:]
    refused = [one for one in deleted if isinstance(one, Refused)]
    # An outcome that the broker never acknowledged is unknown to its caller; it was granted and called all the same.
    went = [one.operation_id for one in deleted if isinstance(one, Confirmed | Unknown)]
    assert (len(went), len(refused)) == (CEILING, claims - CEILING)
    assert {one.reason for one in refused} == {Refusal.SURGE_EXCEEDED}
    breakers = [json.loads(one.detail["breaker"]) for one in refused]
    assert {(one["effect_type"], one["state"], one["observed"], one["threshold"]) for one in breakers} == {
        ("dns.delete", "open", CEILING + 1, CEILING)
    }
    assert not [one for one in sent if isinstance(one, Refused)], "other effect types go on"
    assert calls == Counter([*went, *(f"m{number}" for number in range(len(sent)))])
    # What stood in an outbox when its projector died is appended again: the same event, which counts once.
    found = {one.event.event_id: one.event for one in chaos.entries()}
    grants = [one for one in found.values() if isinstance(one, ev.DispatchGranted) and one.ceilings]
    assert sorted(one.ceilings[0].observed for one in grants) == list(range(CEILING))


def until_shared(chaos: Chaos, projectors: int) -> None:
    """Waits until every partition has an owner of its own that has caught up."""
    deadline = time.monotonic() + 60
    while True:
        with connect(chaos.view) as connection:
            owners = connection.execute("SELECT owner, caught_up FROM positions").fetchall()
        if len({owner for owner, _ in owners}) == projectors and all(caught_up for _, caught_up in owners):
            return
        assert time.monotonic() < deadline, f"owners {owners}"
        time.sleep(0.1)
