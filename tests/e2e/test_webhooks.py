"""From a provider's delivery to evidence, on the real broker and database: verified, matched, once, whatever order it came in."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Signer

from landed import Confirmed, Execute, Ledger, Probe, ToolRegistry, intent_of
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect, open_pool
from landed.adapters.postgres.news import PostgresNews
from landed.adapters.system import SystemClock
from landed.core.contract import Effect, Webhook
from landed.core.events import TYPE_OF, OutcomeConfirmed, UnmatchedNews, WebhookReceived
from landed.sdk.classify import Returned
from landed_services.cli._app import run
from landed_services.intake import Accepted, Intake, Refused, endpoints_from
from landed_services.projector.verifying import verify

from .conftest import World

SECRETS = {name: "whsec_" + base64.b64encode(name.encode() * 8).decode() for name in ("ACME", "OTHER")}
ENDPOINTS = [
    {"name": "psp-acme", "tenant": "acme", "scheme": "standard", "secrets": ["env:ACME"], "tools": ["pay.refund"]},
    {"name": "psp-other", "tenant": "other", "scheme": "stripe", "secrets": ["env:OTHER"], "tools": ["pay.refund"]},
]
WEBHOOK = Webhook(
    match="data.key",
    reference="data.id",
    status="type",
    receipt="data",
    order_by="created",
    confirmed_when=("refund.succeeded",),
    rejected_when=("refund.failed",),
    reverted_when=("refund.bounced",),
)


def registry_of() -> tuple[ToolRegistry, Any]:
    registry = ToolRegistry()

    @registry.effect(
        tool="pay.refund",
        effect=Effect(kind="refund.create"),
        stored_args=("order",),
        receipt_fields=("amount",),
        reference_field="id",
        outcome_probe=Probe(tool="pay.find"),
        first_check_after=600.0,
        max_interval=600.0,
        lease=3.0,
        webhook=WEBHOOK,
    )
    def refund(order: str) -> dict[str, Any]:
        raise TimeoutError("the answer was lost")

    @refund.probe
    def find(request: Any) -> Any:
        raise AssertionError("the news settles it")

    return registry, refund


class Provider:
    """Signs and delivers, as a provider does."""

    def __init__(self, world: World, pool: Any, log: KafkaEventLog) -> None:
        self.world = world
        self.registry, self.refund = registry_of()
        contracts = [tool.contract for tool in self.registry]
        self.tables = PostgresNews(world.view, pool)
        self.intake = Intake(endpoints_from(ENDPOINTS, SECRETS), contracts, log, self.tables, SystemClock())

    def deliver(
        self, says: str, key: str, reference: str, *, webhook_id: str = "", at: int = 1_700_000_000
    ) -> Accepted | Refused:
        data = {"key": key, "id": reference, "amount": 12, "card": "4242 4242"}
        body = json.dumps({"type": says, "created": at, "data": data}).encode()
        name = webhook_id or f"msg_{says}_{reference}_{at}"
        now = datetime.now(tz=UTC)
        headers = {
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(SECRETS["ACME"]).sign(name, now, body.decode()),
            "content-type": "application/json",
        }
        return self.intake.intake("psp-acme", headers, body)

    def deliver_to_other(self, says: str, key: str, reference: str, **more: Any) -> Accepted | Refused:
        message = {
            "id": f"evt_{reference}",
            "type": says,
            "created": 1_700_000_000,
            "data": {"key": key, "id": reference},
            **more,
        }
        body, now = json.dumps(message).encode(), int(time.time())
        mac = hmac.new(SECRETS["OTHER"].encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        return self.intake.intake("psp-other", {"Stripe-Signature": f"t={now},v1={mac}"}, body)

    def begin(self, ledger: Ledger, operation_id: str) -> Execute:
        """A call that is under way."""
        begun = ledger.begin(intent_of(self.refund.contract, {"order": "7"}, operation_id=operation_id))
        assert isinstance(begun, Execute)
        return begun

    def seen(self, operation_id: str) -> None:
        """Once the view shows the operation."""
        deadline = time.monotonic() + 60
        with self.tables._pool.connection() as connection:
            query = "SELECT count(*) FROM operations WHERE operation_id = %s AND state = 'dispatched'"
            while connection.execute(query, (operation_id,)).fetchone() == (0,):
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.fixture
def provider(world: World) -> Iterator[Provider]:
    log = KafkaEventLog(world.log)
    with open_pool(world.view) as pool:
        yield Provider(world, pool, log)
    log.close()


def test_news_before_the_answer_is_evidence_and_repeats_change_nothing(world: World, provider: Provider) -> None:
    world.projector()
    ledger = world.ledger()
    provider.begin(ledger, "op-1")
    provider.seen("op-1")
    first = provider.deliver("refund.succeeded", "op-1", "re_1")
    assert first == Accepted(
        what="matched", webhook_id="msg_refund.succeeded_re_1_1700000000", operation_id="op-1",
        events=("webhook_received", "outcome_confirmed"),
    )  # fmt: skip
    again = [provider.deliver("refund.succeeded", "op-1", "re_1") for _ in range(3)]
    assert all(isinstance(one, Accepted) and one.webhook_id == first.webhook_id for one in again)
    world.until("op-1", "confirmed")
    assert world.events("op-1") == ["operation_prepared", "dispatch_granted", "webhook_received", "outcome_confirmed"]
    evidence = next(one.event for one in world.entries("op-1") if isinstance(one.event, OutcomeConfirmed))
    assert (evidence.source, evidence.webhook_id, evidence.receipt) == ("webhook", first.webhook_id, '{"amount":12}')
    assert "4242 4242" not in str(world.entries()), "more than what is declared is on the log"
    second = ledger.perform(provider.refund, operation_id="op-1", order="7")
    assert isinstance(second, Confirmed)
    assert (second.repeated, second.reference) == (True, "re_1")


def test_news_before_its_operation_is_kept_and_matched_again(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The projector is behind, or the message overtook the claim: what was acknowledged is not lost."""
    early = provider.deliver("refund.succeeded", "op-1", "re_1")
    foreign = provider.deliver("refund.succeeded", "op-of-nobody", "re_9")
    assert isinstance(early, Accepted)
    assert isinstance(foreign, Accepted)
    assert (early.what, foreign.what) == ("unmatched", "unmatched")
    world.projector()
    world.reconciler(provider.registry)
    provider.begin(world.ledger(), "op-1")
    world.until("op-1", "confirmed")
    assert world.events("op-1")[2:] == ["webhook_received", "outcome_confirmed"]
    assert [one.webhook_id for one in provider.tables.unmatched("acme")] == [foreign.webhook_id]
    assert provider.tables.unmatched("other") == []
    world.as_environment(monkeypatch)
    assert run(["news", "list", "--tenant", "acme", "-o", "jsonl"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["webhook_id"], one["operation_key"], one["status"]) for one in shown] == [
        (foreign.webhook_id, "op-of-nobody", "refund.succeeded")
    ]
    assert run(["news", "list", "--tenant", "other"]) == 0
    assert capsys.readouterr().out == "Nothing is unmatched.\n"
    report = verify(world.log, world.view)
    assert report.equal, [str(one) for one in report.differences]
    with connect(world.view) as connection:
        connection.execute("UPDATE news SET status = 'refund.failed' WHERE kind = 'unmatched'")
    assert {(one.table, one.field) for one in verify(world.log, world.view).differences} == {("news", "status")}


def test_a_failure_that_came_while_the_call_ran_is_taken_up_when_its_lease_is_over(world: World, provider: Provider) -> None:
    world.projector()
    world.reconciler(provider.registry)
    provider.begin(world.ledger(), "op-1")
    provider.seen("op-1")
    taken = provider.deliver("refund.failed", "op-1", "re_1")
    assert isinstance(taken, Accepted)
    assert taken.events == ("webhook_received",)
    assert world.operation("op-1").state == "dispatched"
    world.until("op-1", "rejected")
    assert world.events("op-1")[2:] == ["webhook_received", "lease_expired", "outcome_rejected"]


def test_what_follows_survives_a_crash_between_the_record_and_the_evidence(world: World, provider: Provider) -> None:
    """The intake died after `webhook_received`; the provider delivers again and hears `duplicate`."""
    world.projector()
    provider.begin(world.ledger(), "op-1")
    provider.seen("op-1")
    real, sent = provider.intake._log.append, list[str]()

    def dies(event: Any) -> Any:
        sent.append(TYPE_OF[type(event)])
        if isinstance(event, OutcomeConfirmed):
            raise KeyboardInterrupt
        return real(event)

    provider.intake._log.append = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        provider.deliver("refund.succeeded", "op-1", "re_1")
    provider.intake._log.append = real  # type: ignore[method-assign]
    deadline = time.monotonic() + 60
    while provider.tables.known("acme", "psp-acme", "msg_refund.succeeded_re_1_1700000000") is None:
        assert time.monotonic() < deadline
    assert getattr(provider.deliver("refund.succeeded", "op-1", "re_1"), "what", "") == "duplicate"
    assert sent == ["webhook_received", "outcome_confirmed"]
    world.reconciler(provider.registry)
    world.until("op-1", "confirmed")
    assert [name for name in world.events("op-1") if name == "outcome_confirmed"] == ["outcome_confirmed"]


def test_one_delivery_taken_by_many_at_once_while_the_answer_comes_is_one_piece_of_evidence(
    world: World, provider: Provider
) -> None:
    """Two gateways, the worker's own answer and a reconciler race: the fold decides, and the losers change nothing."""
    world.projector()
    world.reconciler(provider.registry)
    ledger = world.ledger()
    begun = provider.begin(ledger, "op-1")
    assert ledger.start(begun) is None
    provider.seen("op-1")
    with ThreadPoolExecutor(8) as pool:
        taken = [pool.submit(provider.deliver, "refund.succeeded", "op-1", "re_1") for _ in range(8)]
        assert isinstance(ledger.finish(begun, Returned(answer={"id": "re_1"})), Confirmed)
        assert all(isinstance(one.result(), Accepted) for one in taken)
    world.until("op-1", "confirmed")
    operation = world.operation("op-1")
    assert (operation.marks, operation.review, [one.value for one in operation.references]) == ((), None, ["re_1"])
    rows = [row for row in world.rows("op-1") if row.event in ("webhook_received", "outcome_confirmed")]
    assert [row.event for row in rows if row.accepted].count("webhook_received") == 1
    assert {row.reason for row in rows if not row.accepted} <= {None, "repeated"}


def test_older_news_is_history_and_a_bounce_goes_to_a_person(world: World, provider: Provider) -> None:
    world.projector()
    provider.begin(world.ledger(), "op-1")
    provider.seen("op-1")
    provider.deliver("refund.succeeded", "op-1", "re_1", at=1_700_000_066)
    world.until("op-1", "confirmed")
    time.sleep(0.3)
    older = provider.deliver("refund.failed", "op-1", "re_1", at=1_700_000_065)
    assert isinstance(older, Accepted)
    assert older.events == ("webhook_received",)
    provider.deliver("refund.bounced", "op-1", "re_1", at=1_700_000_099)
    operation = world.until("op-1", "escalated")
    assert (operation.escalated_for, operation.marks) == ("effect_reverted", ())


def test_no_endpoint_speaks_for_another_tenant(world: World, provider: Provider) -> None:
    """Whatever the body says: the tenant is that of the secret."""
    world.projector()
    world.reconciler(provider.registry)
    provider.begin(world.ledger(), "op-1")
    provider.seen("op-1")
    told = provider.deliver_to_other("refund.succeeded", "op-1", "re_1", tenant="acme", tenant_id="acme")
    assert isinstance(told, Accepted)
    assert told.what == "unmatched"
    assert {one.event.tenant_id for one in world.entries() if isinstance(one.event, UnmatchedNews | WebhookReceived)} == {"other"}
    body = b'{"type": "refund.succeeded", "data": {"key": "op-1", "id": "re_1"}}'
    now = datetime.now(tz=UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(SECRETS["OTHER"]).sign("msg_1", now, body.decode()),
    }
    assert getattr(provider.intake.intake("psp-acme", headers, body), "why", "") == "signature_wrong"
    world.until("op-1", "unknown")
    time.sleep(1.5)
    assert world.operation("op-1").state == "unknown"


def test_what_is_refused_leaves_no_trace_of_its_content(world: World, provider: Provider, caplog: Any) -> None:
    caplog.set_level("INFO")
    cases: list[tuple[str, dict[str, str], bytes, str]] = [
        ("psp-nobody", {}, b'{"card": "4242"}', "unknown_endpoint"),
        ("psp-acme", {}, b'{"card": "4242"}' + b" " * 300_000, "body_too_large"),
        ("psp-acme", {}, b'{"card": "4242"}', "signature_missing"),
    ]
    for name, content, body in (
        ("not JSON", "application/json", b"card=4242"),
        ("another type", "text/html", b'{"card": "4242"}'),
        ("no object", "application/json", b'["4242"]'),
        ("without end", "application/json", b"[" * 100_000),
    ):
        now = datetime.now(tz=UTC)
        headers = {
            "webhook-id": "msg_4242",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(SECRETS["ACME"]).sign("msg_4242", now, body.decode()),
            "Content-Type": content,
        }
        cases.append(("psp-acme", headers, body, "content_refused"))
        assert name
    for endpoint, headers, body, why in cases:
        assert provider.intake.intake(endpoint, headers, body) == Refused(why=why)  # type: ignore[arg-type]
    assert world.entries() == []
    assert dict(provider.intake.counted) == {
        ("unknown", "unknown_endpoint"): 1,
        ("psp-acme", "body_too_large"): 1,
        ("psp-acme", "signature_missing"): 1,
        ("psp-acme", "content_refused"): 4,
    }
    assert "4242" not in str([record.__dict__ for record in caplog.records])


def test_one_id_with_two_contents_is_refused(world: World, provider: Provider) -> None:
    world.projector()
    provider.deliver("refund.succeeded", "op-1", "re_1", webhook_id="msg_1")
    deadline = time.monotonic() + 60
    while not isinstance(reused := provider.deliver("refund.failed", "op-2", "re_2", webhook_id="msg_1"), Refused):
        assert time.monotonic() < deadline
    assert reused.why == "webhook_id_reused"


def test_a_delivery_is_not_accepted_while_the_log_does_not_have_it(world: World, provider: Provider) -> None:
    from landed.ports import AppendFailed

    def fails(event: Any) -> Any:
        from concurrent.futures import Future

        future: Future[Any] = Future()
        future.set_exception(AppendFailed("timed out"))
        return future

    provider.intake._log.append = fails  # type: ignore[method-assign]
    refused = provider.deliver("refund.succeeded", "op-1", "re_1")
    assert isinstance(refused, Refused)
    assert (refused.why, refused.transient) == ("ledger_unavailable", True)
