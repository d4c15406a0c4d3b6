"""Public failure reports as tests: the real broker and database, and a real provider behind a proxy that breaks its answers.

Each asserts what the provider has, the order of the events, the evidence, and the sentence that a person reads.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Signer

from landed import Confirmed, Result, Tool, ToolRegistry, Unknown
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import open_pool
from landed.adapters.postgres.news import PostgresNews
from landed.adapters.system import SystemClock
from landed.core import events as ev
from landed.core.contract import Webhook
from landed.core.state import Operation
from landed.core.vocabulary import Refusal
from landed.core.wording import sentence
from landed.testing.fault_proxy import Answer, CommitThenDrop, Delay, FaultProxy
from landed.testing.faulty_provider import FaultyProvider
from landed_services.intake import Accepted, Intake, endpoints_from

from .conftest import TENANT, World
from .shop import shop

ROOT = Path(__file__).resolve().parents[2]
DONE = "It happened, once, with evidence; a repeated request gets the same receipt."


class Shop:
    """One provider behind a proxy, and the ledger in front of it."""

    def __init__(self, world: World, provider: FaultyProvider, proxy: FaultProxy) -> None:
        self.world = world
        self.provider = provider
        self.proxy = proxy

    def open(self, terms: str = "looked_up", **changes: Any) -> Tool[..., Any]:
        """Projector and reconciler run; the tool under the contract named *terms*."""
        registry = shop(self.proxy.url, terms, **changes)
        self.world.projector()
        self.world.reconciler(registry)
        return tool_of(registry)

    def charge(self, tool: Tool[..., Any], **options: Any) -> Result:
        return self.world.ledger().perform(tool, operation_id="op-1", order="7", amount=50, **options)

    @property
    def requests(self) -> int:
        """Requests for an effect that reached the proxy."""
        return sum(one.method == "POST" for one in self.proxy.exchanges)

    def said(self, *kinds: type[ev.Event]) -> list[Any]:
        """Accepted events of these kinds, in log order."""
        accepted = {(row.partition, row.offset) for row in self.world.rows("op-1") if row.accepted}
        return [
            one.event
            for one in self.world.entries("op-1")
            if isinstance(one.event, kinds) and (one.position.partition, one.position.offset) in accepted
        ]

    def at_ms(self, kind: type[ev.Event]) -> list[int]:
        return [one.at_ms for one in self.world.entries("op-1") if isinstance(one.event, kind)]

    def story(self) -> list[str]:
        """Accepted events without renewals of the lease, several looks one after the other as one, and what they found too.

        Where the view is slow to show what was found, it is looked for and found again; that is evidence and changes nothing.
        """
        events = [name for name in self.world.events("op-1") if name != "lease_renewed"]
        again = ("probe_recorded", "outcome_confirmed")
        return [name for number, name in enumerate(events) if name not in again or events[number + 1 :][:1] != [name]]


def tool_of(registry: ToolRegistry) -> Tool[..., Any]:
    return next(iter(registry))


@pytest.fixture
def provider() -> Iterator[FaultyProvider]:
    with FaultyProvider() as running:
        yield running


@pytest.fixture
def shopped(world: World, provider: FaultyProvider) -> Iterator[Shop]:
    port = int(provider.url.rpartition(":")[2])
    with FaultProxy("127.0.0.1", port) as proxy:
        yield Shop(world, provider, proxy)


def assert_done_once(shopped: Shop, operation: Operation, *, requests: int = 1) -> None:
    assert len(shopped.provider.effects) == 1, "a second effect, or none"
    assert shopped.requests == requests
    assert [one.value for one in operation.references] == ["ef_1"]
    assert (operation.marks, operation.review) == ((), None)
    assert sentence(operation) == DONE


def assert_found_by_a_look(shopped: Shop) -> None:
    found = shopped.said(ev.OutcomeConfirmed)
    assert found
    for confirmed in found:
        assert (confirmed.source, confirmed.matched_on, confirmed.reference) == ("probe", ["operation_id"], "ef_1")
        assert json.loads(confirmed.receipt) == {"id": "ef_1", "amount": 50}


LOST = ["operation_prepared", "dispatch_granted", "outcome_unknown", "probe_recorded", "outcome_confirmed"]


def test_a_charge_that_is_committed_and_whose_answer_is_lost_is_one_charge(shopped: Shop) -> None:
    """The client gave up, the charge went through, and every new click paid again."""
    tool = shopped.open()
    shopped.proxy.arm(CommitThenDrop(), method="POST")
    first = shopped.charge(tool)
    assert isinstance(first, Unknown)
    assert first.retry_allowed is False
    operation = shopped.world.until("op-1", "confirmed")
    clicks = [shopped.charge(tool) for _ in range(3)]
    assert {(type(one), getattr(one, "repeated", None), getattr(one, "reference", None)) for one in clicks} == {
        (Confirmed, True, "ef_1")
    }
    assert shopped.story()[: len(LOST)] == LOST
    assert_found_by_a_look(shopped)
    assert_done_once(shopped, operation)


def test_a_server_error_after_the_commit_is_no_failure(shopped: Shop) -> None:
    tool = shopped.open()
    shopped.proxy.arm(Answer(500, b'{"error":"internal"}', after_commit=True), method="POST")
    first = shopped.charge(tool)
    assert isinstance(first, Unknown)
    operation = shopped.world.until("op-1", "confirmed")
    (doubt,) = shopped.said(ev.OutcomeUnknown)
    assert doubt.call.response_status == "500"
    assert shopped.story() == LOST
    assert_found_by_a_look(shopped)
    assert_done_once(shopped, operation)


def test_a_throttled_original_that_is_processed_later_is_found_and_not_sent_again(shopped: Shop) -> None:
    """The answer was 429, and the request stood in a queue all the same."""
    tool = shopped.open("retried", longest_processing=3.0)
    shopped.proxy.arm(Answer(429, b'{"error":"slow down"}'), method="POST")
    first = shopped.charge(tool)
    assert isinstance(first, Unknown)
    later = threading.Timer(1.5, shopped.provider.make, [{"operation_id": "op-1", "order": "7", "amount": 50}])
    later.start()
    operation = shopped.world.until("op-1", "confirmed")
    later.join()
    looks = [one.result for one in shopped.said(ev.ProbeRecorded)]
    assert looks[0] == "absent"
    assert looks[-1] == "found"
    assert shopped.said(ev.AbsenceEstablished, ev.DispatchRequested) == []
    assert shopped.story() == LOST
    assert_found_by_a_look(shopped)
    assert_done_once(shopped, operation)


def test_a_stale_read_that_says_not_found_proves_nothing(shopped: Shop) -> None:
    shopped.provider.lag_s = 1.2
    tool = shopped.open("retried")
    shopped.proxy.arm(CommitThenDrop(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    operation = shopped.world.until("op-1", "confirmed")
    looks = [one.result for one in shopped.said(ev.ProbeRecorded)]
    assert looks.count("absent") >= 2, "the read was never stale"
    assert shopped.said(ev.AbsenceEstablished, ev.DispatchRequested) == []
    assert_found_by_a_look(shopped)
    assert_done_once(shopped, operation)


def test_a_webhook_before_the_response_settles_it_and_the_response_repeats_it(
    shopped: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = Webhook(match="data.operation_id", reference="data.id", status="type", confirmed_when=("charge.done",))
    tool = shopped.open(webhook=terms, lease=10.0)
    secret = "whsec_" + "c2VjcmV0LW9mLXRoZS1zaG9wLTEyMzQ1Njc4"
    endpoint = {"name": "shop", "tenant": TENANT, "scheme": "standard", "secrets": ["env:SHOP"], "tools": ["shop.charge"]}
    monkeypatch.setattr("tests.e2e.shop.CALL_LIMIT_S", 20.0)
    shopped.proxy.arm(Delay(3.0, after_commit=True), method="POST")
    told: list[Result] = []
    caller = threading.Thread(target=lambda: told.append(shopped.charge(tool)))
    log, pool = KafkaEventLog(shopped.world.log), open_pool(shopped.world.view)
    try:
        endpoints = endpoints_from([endpoint], {"SHOP": secret})
        intake = Intake(endpoints, [tool.contract], log, PostgresNews(shopped.world.view, pool), SystemClock())
        caller.start()
        while not shopped.provider.effects:
            time.sleep(0.01)
        body = json.dumps({"type": "charge.done", "data": {"operation_id": "op-1", "id": "ef_1"}})
        now = SystemClock().now_ms() // 1000
        signed = Signer(secret).sign("msg_1", datetime.fromtimestamp(now, UTC), body)
        headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signed}
        taken = intake.intake("shop", {**headers, "content-type": "application/json"}, body.encode())
        assert isinstance(taken, Accepted)
        shopped.world.until("op-1", "confirmed")
    finally:
        pool.close()
        log.close()
    caller.join()
    assert isinstance(told[0], Confirmed)
    assert told[0].reference == "ef_1"
    operation = shopped.world.operation("op-1")
    evidence = shopped.said(ev.OutcomeConfirmed)
    assert [one.source for one in evidence] == ["webhook", "worker"]
    assert shopped.story() == ["operation_prepared", "dispatch_granted", "webhook_received", "outcome_confirmed"]
    assert_done_once(shopped, operation)


def test_under_a_key_that_the_provider_honours_it_is_sent_again_and_is_one_effect(shopped: Shop) -> None:
    """Nothing looks it up: the same request under the same key is the only way to learn what became of it."""
    tool = shopped.open("keyed")
    shopped.proxy.arm(CommitThenDrop(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    operation = shopped.world.until("op-1", "confirmed")
    claims = [one.claim for one in shopped.said(ev.DispatchRequested)]
    assert {(one.replay, one.replay_reason) for one in claims} == {(True, "dedupe_supported")}
    granted = shopped.said(ev.DispatchGranted)
    assert [one.replay for one in granted] == [False, *[True] * (len(granted) - 1)]
    assert len(granted) >= 2
    sent_again = [one.at_ms for one in shopped.world.entries("op-1") if isinstance(one.event, ev.DispatchGranted)][1]
    assert sent_again - shopped.at_ms(ev.OutcomeUnknown)[0] >= 1_500, "it was sent again inside the safe window"
    assert shopped.story()[:3] == ["operation_prepared", "dispatch_granted", "outcome_unknown"]
    # A view that shows it late leads to one more claim, which the ledger answers with the outcome and nothing is sent for.
    told = [one for one in shopped.story() if one not in ("dispatch_requested", "dispatch_refused")]
    assert told[-2:] == ["dispatch_granted", "outcome_confirmed"]
    nothing_sent = {Refusal.ALREADY_CONFIRMED, Refusal.IN_FLIGHT, Refusal.UNRESOLVED}
    assert {one.reason for one in shopped.said(ev.DispatchRefused)} <= nothing_sent
    # A slow machine may lose the second answer too: then there is a third request, and still one effect.
    assert_done_once(shopped, operation, requests=len(granted))


def test_a_key_that_expires_at_the_provider_is_not_trusted_for_another_attempt(shopped: Shop) -> None:
    """The provider forgets it, and the same request would be a second charge."""
    shopped.provider.key_lifetime_s = 2.0
    tool = shopped.open("keyed_briefly")
    shopped.proxy.arm(CommitThenDrop(), method="POST")
    assert isinstance(shopped.charge(tool), Unknown)
    operation = shopped.world.until("op-1", "escalated")
    (told,) = shopped.said(ev.OperationEscalated)
    assert (told.reason, json.loads(told.evidence)["replay"]) == ("no_probe", "key_expired")
    assert shopped.story() == ["operation_prepared", "dispatch_granted", "outcome_unknown", "operation_escalated"]
    time.sleep(1.0)
    assert (len(shopped.provider.effects), shopped.requests) == (1, 1)
    assert operation.review is not None
    assert sentence(operation) == "Automation stopped and a person decides, with the evidence. Nothing is sent until then."


CALLER = """
import sys
from landed import Ledger
from landed.sdk.settings import settings_from
from tests.e2e.shop import registry
with Ledger.connect(tenant=sys.argv[1], worker="sleeper") as ledger:
    print(type(ledger.perform(next(iter(registry)), operation_id="op-1", order="7", amount=50)).__name__)
"""


@pytest.mark.parametrize(
    ("point", "terms", "result", "sent"),
    [("sdk.verdict_received", "retried", "Refused", 1), ("sdk.before_call", "keyed", "Unknown", 2)],
    ids=["wakes before the call", "wakes within the call"],
)
def test_a_process_that_is_paused_beyond_its_lease_wakes_and_does_no_harm(
    shopped: Shop, point: str, terms: str, result: str, sent: int
) -> None:
    """Meanwhile the reconciler found the lease run out and sent the request again."""
    shopped.open(terms)
    log = shopped.world.log
    environment = {
        **os.environ,
        "LANDED_KAFKA_BOOTSTRAP": log.bootstrap,
        "LANDED_TOPIC": log.topic,
        "LANDED_REPLIES_TOPIC": log.replies_topic,
        "LANDED_WRITER_KEY_ID": "writer-1",
        "LANDED_WRITER_KEY": "a secret of thirty-two bytes or so",
        "LANDED_FAILURE_POINT": f"{point}:stop",
        "SHOP_URL": shopped.proxy.url,
        "SHOP_TERMS": terms,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", CALLER, TENANT]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            stat, deadline = Path(f"/proc/{process.pid}/stat"), time.monotonic() + 30
            while stat.read_text().rpartition(")")[2].split()[0] != "T":
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            operation = shopped.world.until("op-1", "confirmed")
            assert [one.number for one in operation.attempts] == [1, 2]
            assert_done_once(shopped, operation, requests=1)
            process.send_signal(signal.SIGCONT)
            said, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert said.strip() == result
    (expired,) = shopped.said(ev.LeaseExpired)
    assert expired.attempt == 1
    operation = shopped.world.until("op-1", "confirmed")
    assert_done_once(shopped, operation, requests=sent)
