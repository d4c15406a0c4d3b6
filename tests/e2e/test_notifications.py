"""Somebody is told what waits for a person: signed, tried again under the same id, on record; on the real broker and database."""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.receiving import SECRET, ReceiverServer, receiving

from landed import ToolRegistry, Unknown, effect
from landed.adapters.embedded import Level
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect, open_pool
from landed.adapters.postgres.notifications import NotificationRow, PostgresNotifications
from landed.core import events as ev
from landed.core.contract import Compensation, Effect
from landed.core.vocabulary import Choice, Source
from landed.sdk.errors import SettingsError
from landed.sdk.settings import Secret
from landed.wire.ids import with_event_id
from landed_services.cli._app import run
from landed_services.metrics import OperationLabels, ViewGauges
from landed_services.notifier.loop import Pace
from landed_services.notifier.main import run_notifier
from landed_services.notifier.receivers import KINDS, Kind, Receiver, receivers_from
from landed_services.projector.rebuilding import rebuild
from landed_services.queries.health import ledger_findings

from .conftest import Service, World

PACE = Pace(look=0.1, limit=0.6, first_wait=0.1, longest_wait=0.2)


def receiver_at(server: ReceiverServer, *, tenant: str = "acme", name: str = "ops", kinds: tuple[Kind, ...] = KINDS) -> Receiver:
    return Receiver(
        name=name, tenant_id=tenant, url=server.url, secret=Secret(SECRET.encode()), kinds=kinds, aged_ms=(86_400_000,)
    )


class Told(World):
    """A world in which operations come to people and notifiers tell of it."""

    def tell(self, *receivers: Receiver, pace: Pace = PACE) -> Service:
        service = Service(lambda stop: run_notifier(self.view, receivers, stop, pace=pace))
        self._stack.callback(service.end)
        self.until_rows("SELECT count(*) FROM receivers", len(receivers))
        return service

    def until_rows(self, query: str, count: int) -> None:
        deadline = time.monotonic() + 60
        with connect(self.view) as connection:
            while (row := connection.execute(query).fetchone()) is None or row[0] < count:
                assert time.monotonic() < deadline, f"{query}: {row}"
                time.sleep(0.05)

    def to_people(self, operation_id: str, *, tenant: str = "acme") -> None:
        """An operation that no probe can settle."""

        @effect(
            tool="pay.refund", effect=Effect(kind="refund.create"), first_check_after=0.0, stored_args=("card",), queue="money"
        )
        def refund(card: str) -> Any:
            raise TimeoutError("the answer was lost")

        assert isinstance(self.ledger(tenant=tenant).perform(refund, operation_id=operation_id, card="4242"), Unknown)

    def append(self, *events: ev.Event) -> None:
        log = KafkaEventLog(self.log)
        for event in events:
            log.append(with_event_id(event)).result(10)
        log.close()

    def notifications(self, tenant: str = "acme") -> list[NotificationRow]:
        with open_pool(self.view, size_max=1) as pool:
            return PostgresNotifications(self.view, pool).list(tenant)


@pytest.fixture
def told(world: World) -> Told:
    world.__class__ = Told
    assert isinstance(world, Told)
    return world


def until(holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def envelope(operation_id: str) -> dict[str, Any]:
    return {"event_id": "", "tenant_id": "acme", "route": operation_id, "operation_id": operation_id, "actor": "test"}


def decided(operation_id: str, review_id: int = 1, choice: Choice = Choice.REJECTED) -> ev.ReviewDecided:
    return ev.ReviewDecided(**envelope(operation_id), review_id=review_id, choice=choice, reviewer="anna", reason="seen")


def confirmed(operation_id: str, reference: str) -> ev.OutcomeConfirmed:
    return ev.OutcomeConfirmed(**envelope(operation_id), source=Source.PROBE, reference=reference, matched_on=["operation_id"])


def test_a_review_is_told_when_it_opens_and_when_it_settles_once_each_and_redacted(
    told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    with receiving() as server, receiving() as stranger:
        told.tell(receiver_at(server), receiver_at(stranger, tenant="other", name="stranger"))
        told.to_people("order 7")
        until(lambda: len(server.of("review_opened")) == 1)
        message = server.deliveries[0].message
        assert message["data"]["show"] == "landed reviews show 'order 7#1' --tenant acme"
        assert message["data"]["review"]["reasons"] == ["no_probe"]
        assert (message["data"]["review"]["queue"], message["data"]["label"]) == ("money", "Needs review")
        told.append(confirmed("order 7", "re_1"))
        until(lambda: len(server.of("review_settled")) == 1)
        settled = server.of("review_settled")[0].message["data"]
        assert (settled["state"], settled["show"]) == ("confirmed", "landed show operation 'order 7' --tenant acme")
        time.sleep(0.5)
        assert [one.message["type"] for one in server.deliveries] == ["review_opened", "review_settled"]
        assert not any(b"4242" in one.body or b"re_1" in one.body for one in server.deliveries)
        assert stranger.deliveries == []
    rows = told.notifications()
    assert [(one.kind, one.state, one.attempts, one.last_result) for one in rows] == [
        ("review_settled", "delivered", 1, "204"),
        ("review_opened", "delivered", 1, "204"),
    ]
    assert told.notifications("other") == []
    told.as_environment(monkeypatch)
    assert run(shlex.split(settled["show"])[1:]) == 0, "the command that was told shows it"
    capsys.readouterr()
    assert run(["notifications", "list", "--tenant", "acme", "-o", "jsonl"]) == 0
    listed = capsys.readouterr().out
    assert "review_settled" in listed
    assert "204" in listed
    assert run(["notifications", "list", "--tenant", "acme", "--state", "waiting"]) == 0
    assert capsys.readouterr().out == "No notification is on record.\n"


def test_a_receiver_that_fails_hangs_and_drips_hears_the_same_under_the_same_id(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    plan = ("500", "hang", "302", "drip", "429")
    with receiving(*plan) as server, receiving() as healthy:
        told.tell(receiver_at(server), receiver_at(healthy, name="healthy"))
        told.to_people("op-1")
        until(lambda: len(server.deliveries) == len(plan) + 1)
        assert {(one.webhook_id, one.body) for one in server.deliveries} == {
            (server.deliveries[0].webhook_id, server.deliveries[0].body)
        }
        until(lambda: [one.state for one in told.notifications()] == ["delivered"] * 2)
        assert len(healthy.deliveries) == 1
    with connect(told.view) as connection:
        tries = connection.execute(
            "SELECT number, result, ended_at_ms - began_at_ms < 3000 FROM notification_attempts AS a"
            " JOIN notifications AS n USING (webhook_id) WHERE n.receiver = 'ops' ORDER BY number"
        ).fetchall()
    assert tries == [
        (number + 1, result, True) for number, result in enumerate(["500", "timeout", "302", "timeout", "429", "204"])
    ]


def test_a_rebuild_and_another_notifier_send_nothing_again(told: Told) -> None:
    projector = told.projector()
    told.reconciler(ToolRegistry())
    with receiving() as server:
        told.tell(receiver_at(server))
        told.tell(receiver_at(server))
        told.to_people("op-1")
        told.to_people("op-2")
        until(lambda: len(server.of("review_opened")) == 2)
        told.append(decided("op-1"))
        until(lambda: len(server.of("review_settled")) == 1)
        projector.end()
        rebuild(told.log, told.view)
        told.projector()
        time.sleep(1.0)
        told.append(decided("op-2"))
        until(lambda: len(server.of("review_settled")) == 2)
        assert len({one.webhook_id for one in server.deliveries}) == len(server.deliveries) == 4


def test_a_review_that_settled_while_nobody_looked_is_told_once_and_what_was_told_is_forgotten_in_time(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    with receiving() as server, receiving(*["500"] * 99) as broken, open_pool(told.view, size_max=1) as pool:
        outbox = PostgresNotifications(told.view, pool)
        told.tell(receiver_at(server)).end()
        told.tell(receiver_at(broken, name="broken", kinds=("review_opened",))).end()
        told.to_people("missed")
        told.to_people("open")
        told.until("missed", "escalated")
        told.append(decided("missed"))
        told.until("missed", "rejected")
        told.until("open", "escalated")
        teller = told.tell(receiver_at(server), receiver_at(broken, name="broken", kinds=("review_opened",)))
        until(lambda: len(server.deliveries) == 2)
        assert [one.message["data"]["operation_id"] for one in server.of("review_settled")] == ["missed"]
        assert [one.message["data"]["operation_id"] for one in server.of("review_opened")] == ["open"]
        told.append(decided("missed"))  # refused: it was decided before, and that is no news
        told.append(decided("open"))
        until(lambda: len(server.of("review_settled")) == 2)
        until(lambda: len(broken.deliveries) > 1)
        until(lambda: [one.state for one in told.notifications() if one.receiver == "ops"] == ["delivered"] * 3)
        assert {one.message["data"]["operation_id"] for one in broken.deliveries} == {"open"}
        found = {one.check: (one.level, one.what) for one in ledger_findings(told.log, told.view)}
        assert found["notifications"] == (Level.OK, "1 wait, 0 given up")
        assert found["news"] == (Level.OK, "0 match no operation as yet")
        gauges = ViewGauges(told.view, OperationLabels())
        values = {one.name: {s.labels["tenant"]: s.value for s in one.samples} for one in gauges.collect() if "notif" in one.name}
        gauges.close()
        assert values["landed_notifications_waiting"] == {"acme": 1}
        assert values["landed_notifications_given_up"] == {"acme": 0}
        assert values["landed_notification_oldest_waiting_seconds"]["acme"] > 0
        assert outbox.forget(keep_ms=3_600_000) == 0
        told.to_people("another")
        until(lambda: len(server.of("review_opened")) == 2)
        until(lambda: [one.state for one in told.notifications() if one.receiver == "ops"] == ["delivered"] * 4)
        teller.end()
        assert outbox.forget(keep_ms=-60_000) == 3
        left = {(one.receiver, one.kind, one.operation_id) for one in told.notifications() if one.receiver == "ops"}
        assert left == {("ops", "review_opened", "another")}, "it is open still"


def test_a_review_that_got_a_second_reason_settles_once(told: Told) -> None:
    """The event that brought the second reason opens no review of its own."""
    told.projector()
    told.reconciler(ToolRegistry())
    with receiving() as server:
        told.tell(receiver_at(server, kinds=("review_opened", "review_settled")))
        told.to_people("op-1")
        until(lambda: len(server.of("review_opened")) == 1)
        told.append(confirmed("op-1", "re_1"))
        until(lambda: len(server.of("review_settled")) == 1)
        told.append(confirmed("op-1", "re_2"))
        until(lambda: len(server.of("review_opened")) == 2)
        told.append(confirmed("op-1", "re_3"))
        until(lambda: len(server.of("review_opened")) == 3)
        told.append(decided("op-1", 3, Choice.ACKNOWLEDGED))
        until(lambda: len(server.of("review_settled")) == 2)
        told.append(confirmed("op-1", "re_4"))
        until(lambda: len(server.of("review_opened")) == 4)
        assert sorted(one.kind for one in told.notifications()) == ["review_opened"] * 4 + ["review_settled"] * 2


def test_what_was_open_before_the_receiver_was_known_is_not_news(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    told.to_people("old")
    told.until("old", "escalated")
    told.until_rows("SELECT count(*) FROM operations WHERE review_id IS NOT NULL", 1)
    with receiving() as server:
        told.tell(receiver_at(server))
        told.to_people("new")
        until(lambda: len(server.of("review_opened")) == 1)
        time.sleep(0.3)
        assert [one.message["data"]["operation_id"] for one in server.deliveries] == ["new"]


def test_a_review_that_ages_a_duplicate_effect_and_a_closing_window_are_told(told: Told) -> None:
    told.projector()
    ledger = told.ledger()

    @effect(
        tool="pay.charge",
        effect=Effect(kind="charge.create"),
        reference_field="id",
        compensation=(Compensation(tool="pay.void", expires_after=600.0),),
    )
    def charge(order: str) -> Any:
        return {"id": f"ch_{order}"}

    with receiving() as server:
        receiver = receiver_at(server)
        told.tell(Receiver(**{**_fields(receiver), "aged_ms": (700, 1_400, 86_400_000), "inverse_before_ms": 1_200_000}))
        ledger.perform(charge, operation_id="op-1", order="1")
        ledger.perform(charge, operation_id="op-2", order="2")
        time.sleep(0.4)
        assert server.deliveries == [], "every window of a good effect closes: that is no news"
        told.append(confirmed("op-1", "ch_another"))
        until(lambda: len(server.of("review_aged")) == 2)
        kinds = sorted(one.message["type"] for one in server.deliveries)
        assert kinds == ["duplicate_effect", "inverse_window_closing", "review_aged", "review_aged", "review_opened"]
        assert server.of("duplicate_effect")[0].message["data"]["review"]["reasons"] == ["duplicate_effect"]
        assert server.of("inverse_window_closing")[0].message["data"]["closes_at"].endswith("Z")
        assert {one.message["data"]["operation_id"] for one in server.deliveries} == {"op-1"}


def test_a_receiver_that_is_gone_or_never_comes_back_is_given_up(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    with receiving("410") as gone, receiving(*["500"] * 99) as broken:
        patience = Pace(look=0.1, limit=0.6, first_wait=0.1, longest_wait=0.2, give_up_after=1.0)
        told.tell(receiver_at(gone), receiver_at(broken, name="broken"), pace=patience)
        told.to_people("op-1")
        until(lambda: [one.state for one in told.notifications()] == ["given_up"] * 2)
        assert len(gone.deliveries) == 1
        assert len(broken.deliveries) > 2


def _fields(receiver: Receiver) -> dict[str, Any]:
    return {name: getattr(receiver, name) for name in receiver.__struct_fields__}


TABLE = {"name": "ops", "tenant": "acme", "url": "https://hooks.acme.example/x", "secret": "env:OPS"}


@pytest.mark.parametrize(
    ("changes", "told_of"),
    [
        ({"url": "http://hooks.acme.example/x"}, "must be https"),
        ({"url": "ftp://127.0.0.1/x"}, "must be https"),
        ({"url": "https://user:password@hooks.acme.example/"}, "must not carry credentials"),
        ({"url": "https:///x"}, "is no URL"),
        ({"url": "https://a b/"}, "is no URL"),
        ({"secret": "whsec_abc"}, "must be env:NAME or file:PATH"),
        ({"secret": "env:ODD"}, "must be base64"),
        ({"aged_after_hours": [0]}, "aged_after_hours"),
        ({"tell": ["everything"]}, "tell"),
        ({"retries": 3}, "retries"),
    ],
)
def test_a_receiver_that_breaks_a_rule_is_told_without_the_secret(changes: dict[str, Any], told_of: str) -> None:
    with pytest.raises(SettingsError, match=told_of) as refused:
        receivers_from([{**TABLE, **changes}], {"OPS": SECRET, "ODD": "!" * 24})
    assert SECRET not in str(refused.value)
    assert "password" not in str(refused.value)


def test_a_notifier_without_receivers_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LANDED_WEBHOOKS", raising=False)
    broken, empty = tmp_path / "broken.toml", tmp_path / "empty.toml"
    broken.write_text("[[receiver]\nsecret = 'whsec_inline'")
    empty.write_text("")
    for arguments, said in (
        ([], "--settings, or LANDED_WEBHOOKS"),
        (["--settings", str(tmp_path / "nowhere.toml")], "cannot be read"),
        (["--settings", str(broken)], "is no TOML"),
        (["--settings", str(empty)], "names none"),
    ):
        assert run(["notifier", *arguments]) == 3
        error = capsys.readouterr().err
        assert said in error
        assert "whsec_inline" not in error


def test_a_receiver_on_this_machine_may_be_plain_http() -> None:
    for host in ("127.0.0.1:8080", "localhost", "[::1]:9"):
        assert receivers_from([{**TABLE, "url": f"http://{host}/x"}], {"OPS": SECRET})[0].tenant_id == "acme"


def test_a_notifier_ends_when_asked_also_while_a_receiver_hangs(told: Told) -> None:
    told.projector()
    told.reconciler(ToolRegistry())
    with receiving("hang") as server:
        service = told.tell(receiver_at(server))
        told.to_people("op-1")
        until(lambda: len(server.deliveries) == 1)
        service.stop.set()
        service._thread.join(30)
        assert not service._thread.is_alive()
