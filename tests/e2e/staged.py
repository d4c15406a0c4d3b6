"""A stage for tests about undoing: one ledger with a reconciler and compensators; each test on it is a tenant with a trip."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.conftest import new_database

from landed import Confirmed
from landed.adapters.embedded import Servers
from landed.adapters.kafka import KafkaEventLog
from landed.core import events as ev
from landed.core.authorization import Rule, Rules
from landed.core.policy import PolicyValue
from landed.core.state import Operation, Route
from landed.core.vocabulary import Source
from landed.testing.fault_proxy import Fault, FaultProxy
from landed.testing.faulty_provider import FaultyProvider
from landed.wire.ids import with_event_id

from .conftest import World
from .trip import CANCELS, trip

ANYBODY = Rules(rules=(Rule(id="anybody"),))


class Stage:
    """Projector, reconciler and, once started, compensators that tests share; each test is a tenant of its own."""

    def __init__(self, world: World, provider: FaultyProvider, proxy: FaultProxy | None) -> None:
        self.world, self.provider, self.proxy = world, provider, proxy
        self.registry = trip(provider.url if proxy is None else proxy.url)
        world.projector()
        world.reconciler(self.registry)

    def arm(self, fault: Fault, **about: Any) -> None:
        assert self.proxy is not None
        self.proxy.arm(fault, **about)


class Trip:
    """One trip of one tenant."""

    def __init__(
        self, stage: Stage, name: str, *, policy: PolicyValue | None = ANYBODY, automatic: Sequence[str] = CANCELS
    ) -> None:
        self.stage, self.name, self.world = stage, name, stage.world
        if policy is not None:
            self.world.policy("compensation", policy, tenant=name)
        if automatic:
            self.world.policy("automatic", tuple(automatic), tenant=name)
        self.group = self.world.ledger(tenant=name, worker="agent").group(name, workflow_type="trip")

    def id(self, kind: str) -> str:
        return f"{self.name}:{kind}"

    def perform(self, kind: str, tool: str | None = None, **how: Any) -> Any:
        found = self.stage.registry.tool(tool or f"book_{kind}")
        assert found is not None
        return self.group.perform(found, operation_id=self.id(kind), trip=self.name, **how)

    def booked(self, *kinds: str, **how: Any) -> None:
        for kind in kinds:
            assert isinstance(self.perform(kind, **how), Confirmed)

    def until(self, state: str, timeout_s: float = 60.0) -> Route:
        deadline = time.monotonic() + timeout_s
        while (found := self.route()).group_state != state:
            assert time.monotonic() < deadline, [
                found.group_state,
                *((op.operation_id, op.state) for op in found.operations.values()),
            ]
            time.sleep(0.05)
        return found

    def until_op(self, kind: str, state: str, timeout_s: float = 60.0) -> Operation:
        deadline = time.monotonic() + timeout_s
        while (found := self.op(kind)).state != state:
            assert time.monotonic() < deadline, (kind, found.state)
            time.sleep(0.02)
        return found

    def route(self) -> Route:
        return self.world.route(self.name, tenant=self.name)

    def op(self, kind: str) -> Operation:
        return self.route().operation(self.id(kind))

    def cancelled(self) -> list[str]:
        """What the provider was told to undo of this trip, in order, each time that it was."""
        mine = {one["id"]: one["kind"] for one in self.stage.provider.effects if one.get("trip") == self.name}
        return [mine[one["undoes"]] for one in self.stage.provider.effects if one.get("undoes") in mine]

    def events(self, operation_id: str, kind: type[ev.Event]) -> list[Any]:
        return [one.event for one in self.world.entries(operation_id) if isinstance(one.event, kind)]

    def say(self, event: ev.Event) -> None:
        log = KafkaEventLog(self.world.log)
        try:
            log.append(with_event_id(event)).result(10)
        finally:
            log.close()

    def heard_of(self, kind: str, reference: str) -> None:
        """The provider tells of an effect, late."""
        self.say(
            ev.OutcomeConfirmed(
                event_id="",
                tenant_id=self.name,
                route=self.name,
                operation_id=self.id(kind),
                group_id=self.name,
                actor="intake",
                source=Source.WEBHOOK,
                reference=reference,
                receipt=f'{{"id":"{reference}"}}',
            )
        )


@contextmanager
def staged(servers: Servers) -> Iterator[Stage]:
    """A stage with two compensators, its provider behind the fault proxy."""
    with (
        new_database(servers) as database,
        FaultyProvider(honours_key=False) as provider,
        FaultProxy("127.0.0.1", int(provider.url.rpartition(":")[2])) as proxy,
    ):
        world = World(servers, database)
        try:
            made = Stage(world, provider, proxy)
            for _ in range(2):
                world.compensator(made.registry)
            yield made
        finally:
            world.end()
