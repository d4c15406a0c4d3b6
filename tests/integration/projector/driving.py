"""A caller of the ledger without the SDK: appends claims and outcomes, waits for verdicts."""

import time
import uuid
from concurrent.futures import Future

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, KafkaVerdictInbox, LogReader
from landed.core import events as ev
from landed.core.contract import Compensation, Contract, Effect, contract_json
from landed.core.verdict import Verdict
from landed.core.vocabulary import Source
from landed.wire.ids import with_event_id
from landed.wire.records import read

TENANT = "acme"
CONTRACT = contract_json(
    Contract(tool="refund", effect=Effect(kind="refund.create"), lease=30.0, compensation=(Compensation(tool="cancel_refund"),))
)


class Driver:
    """One caller, under a name of its own."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.reply_to = uuid.uuid4().hex
        self.log = KafkaEventLog(settings)
        self.inbox = KafkaVerdictInbox(settings, self.reply_to)

    def close(self) -> None:
        self.log.close()
        self.inbox.close()

    def claim_of(
        self, request_hash: str = "h1", *, claim_id: str | None = None, wait_s: float = 30.0, **fields: object
    ) -> ev.Claim:
        now_ms = int(time.time() * 1000)
        values: dict[str, object] = {
            "claim_id": claim_id or uuid.uuid4().hex,
            "request_hash": request_hash,
            "worker": "worker-1",
            "reply_to": self.reply_to,
            "lease_ms": 30_000,
            "asked_at_ms": now_ms,
            "answer_by_ms": now_ms + int(wait_s * 1000),
        }
        return ev.Claim(**{**values, **fields})  # type: ignore[arg-type]

    def prepared(
        self, operation_id: str, claim: ev.Claim | None, *, group_id: str | None = None, tenant_id: str = TENANT, **fields: object
    ) -> ev.OperationPrepared:
        values: dict[str, object] = {
            "event_id": "",
            "tenant_id": tenant_id,
            "route": group_id or operation_id,
            "operation_id": operation_id,
            "group_id": group_id,
            "actor": "agent-1",
            "tool": "refund",
            "request_hash": "h1" if claim is None else claim.request_hash,
            "argument_digests": {"amount": "d1"},
            "contract": CONTRACT,
            "contract_digest": "c1",
            "effect_type": "refund.create",
            "compensation": ["cancel_refund"],
            "claim": claim,
        }
        return with_event_id(ev.OperationPrepared(**{**values, **fields}))  # type: ignore[arg-type]

    def requested(
        self, operation_id: str, claim: ev.Claim, *, group_id: str | None = None, tenant_id: str = TENANT, seen_version: int = 0
    ) -> ev.DispatchRequested:
        return with_event_id(
            ev.DispatchRequested(
                event_id="",
                tenant_id=tenant_id,
                route=group_id or operation_id,
                operation_id=operation_id,
                group_id=group_id,
                actor="agent-1",
                seen_version=seen_version,
                claim=claim,
            )
        )

    def confirmed(self, verdict: Verdict, *, group_id: str | None = None, reference: str = "re_1") -> ev.OutcomeConfirmed:
        return with_event_id(
            ev.OutcomeConfirmed(
                event_id="",
                tenant_id=verdict.tenant_id,
                route=group_id or verdict.operation_id,
                operation_id=verdict.operation_id,
                group_id=group_id,
                actor="agent-1",
                seen_version=verdict.version,
                attempt=verdict.attempt,
                claim_id=verdict.claim_id,
                source=Source.WORKER,
                reference=reference,
                receipt='{"id":"re_1"}',
            )
        )

    def append(self, event: ev.Event) -> ev.Event:
        self.log.append(event).result(10)
        return event

    def ask(self, event: ev.Event, claim: ev.Claim) -> Future[Verdict]:
        """Appends the event that carries *claim*; a future of its verdict."""
        future = self.inbox.expect(claim.claim_id)
        self.append(event)
        return future

    def perform(self, operation_id: str, *, group_id: str | None = None, tenant_id: str = TENANT) -> Verdict:
        """Prepares, claims and confirms; the verdict of the claim."""
        claim = self.claim_of()
        verdict = self.ask(self.prepared(operation_id, claim, group_id=group_id, tenant_id=tenant_id), claim).result(20)
        if verdict.granted:
            self.append(self.confirmed(verdict, group_id=group_id))
        return verdict


def entries(settings: KafkaSettings) -> list[ev.Entry]:
    """Every event of the log, partition by partition, in log order."""
    reader = LogReader(settings)
    try:
        begins, ends = reader.beginning_offsets(), reader.end_offsets()
        left = {one for one in ends if ends[one] > begins[one]}
        reader.assign({one: begins[one] for one in left})
        found: list[ev.Entry] = []
        while left:
            for record in reader.poll(5000, 1.0):
                entry = read(record, ring=settings.ring, partitions=reader.partitions)
                if isinstance(entry, ev.Entry):
                    found.append(entry)
                if record.offset + 1 >= ends[record.partition]:
                    left.discard(record.partition)
        return sorted(found, key=lambda entry: (entry.position.partition, entry.position.offset))
    finally:
        reader.close()
