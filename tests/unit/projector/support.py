"""A log in a list: records as the wire writes them, and a view that is folded from them without a database."""

from typing import Any

from landed.core import events as ev
from landed.core.contract import Compensation, Contract, Effect, contract_json
from landed.core.policy import NO_POLICIES, Policies
from landed.wire import records
from landed.wire.ids import with_event_id
from landed.wire.mac import UNSIGNED
from landed.wire.records import Record
from landed_services.projector.batch import ClaimKey, View
from landed_services.projector.deciding import Decider, Decisions, KnownUnder
from landed_services.projector.reading import Item, read_item
from landed_services.projector.rooms import NO_ROOMS, Rooms

TENANT = "acme"
T0 = 1_700_000_000_000
CONTRACT = contract_json(
    Contract(tool="refund", effect=Effect(kind="refund.create"), compensation=(Compensation(tool="cancel_refund"),))
)


def claim(claim_id: str, request_hash: str = "h1", **fields: Any) -> ev.Claim:
    values: dict[str, Any] = {
        "claim_id": claim_id,
        "request_hash": request_hash,
        "worker": "worker-1",
        "reply_to": "caller-1",
        "lease_ms": 30_000,
        "asked_at_ms": T0,
        "answer_by_ms": T0 + 60_000,
    }
    return ev.Claim(**{**values, **fields})


def prepared(operation_id: str, asks: ev.Claim | None = None, *, route: str | None = None, **fields: Any) -> ev.OperationPrepared:
    values: dict[str, Any] = {
        **about(operation_id, route),
        "tool": "refund",
        "request_hash": "h1" if asks is None else asks.request_hash,
        "argument_digests": {},
        "contract": CONTRACT,
        "contract_digest": "c1",
        "effect_type": "refund.create",
        "compensation": ["cancel_refund"],
        "claim": asks,
    }
    return ev.OperationPrepared(**{**values, **fields})


def about(operation_id: str | None, route: str | None = None, tenant_id: str = TENANT) -> dict[str, Any]:
    return {
        "event_id": "",
        "tenant_id": tenant_id,
        "route": route or operation_id,
        "operation_id": operation_id,
        "group_id": route,
        "actor": "agent-1",
    }


class Log:
    """One partition, and the turns of a projector on it."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.view = View()
        self.numbers: dict[int, int] = {}

    def append(self, event: ev.Event, *, at_ms: int | None = None) -> Item:
        """Puts *event* on the log; the item that a projector reads."""
        named = event if event.event_id else with_event_id(event)
        out = records.write(named, ring=UNSIGNED, nonce=f"n{len(self.items)}", partitions=1)
        return self.append_record(key=out.key, value=out.value, headers=out.headers, at_ms=at_ms)

    def append_record(
        self, *, key: bytes | None, value: bytes | None, headers: records.Headers = (), at_ms: int | None = None
    ) -> Item:
        offset = len(self.items)
        record = Record(
            key=key,
            value=value,
            headers=headers,
            partition=0,
            offset=offset,
            timestamp_ms=T0 + offset if at_ms is None else at_ms,
            leader_epoch=0,
        )
        item = read_item(record, ring=UNSIGNED, partitions=1)
        self.items.append(item)
        return item

    def fold(self, *items: Item) -> None:
        for item in items:
            self.view.hold_empty(self.view.missing([item]))
            self.view.fold(item)

    def decide(
        self,
        *,
        now_ms: int = T0 + 1_000,
        ready: bool = True,
        all_ready: bool = True,
        known_under: dict[tuple[str, str], list[KnownUnder]] | None = None,
        decided_before: frozenset[ClaimKey] = frozenset(),
        policies: Policies = NO_POLICIES,
        policies_whole: bool = True,
        rooms: Rooms = NO_ROOMS,
    ) -> Decisions:
        return Decider(
            self.view,
            now_ms=now_ms,
            ready=lambda _partition: ready,
            all_ready=all_ready,
            numbers=self.numbers,
            known_under=known_under or {},
            decided_before=decided_before,
            policies={TENANT: policies},
            policies_whole=policies_whole,
            rooms=rooms,
        ).run()

    def turn(self, *events: ev.Event, **how: Any) -> Decisions:
        """Appends and folds *events* as one batch and decides."""
        self.fold(*[self.append(event) for event in events])
        return self.decide(**how)

    def come_back(self, decisions: Decisions) -> Decisions:
        """The decisions on the log, read back as the next batch."""
        self.view.next_turn()
        return self.turn(*[decision.event for decision in decisions.made])


def types(decisions: Decisions) -> list[type[ev.Event]]:
    return [type(decision.event) for decision in decisions.made]
