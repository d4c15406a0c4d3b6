"""`landed sweep` on the real broker and database: what a provider shows against what the ledger knows, and what is recorded."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trust.effects import Team

from landed import Confirmed, Rejected, SettingsError, Unknown
from landed.adapters.postgres import open_pool
from landed.adapters.postgres.news import PostgresNews
from landed.core.events import Entry, OutcomeConfirmed, UnmatchedNews
from landed.core.vocabulary import EffectStatus, Source
from landed.sdk.listing import Listed, ListRequest
from landed.testing.faulty_provider import FaultyProvider
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.progress import Progress
from landed_services.trust.sweeping import SweepReport, sweep

from .conftest import TENANT, World, names


@pytest.fixture
def provider() -> Iterator[FaultyProvider]:
    with FaultyProvider() as made:
        yield made


def swept(world: World, team: Team, *, tenant: str = TENANT, **options: Any) -> SweepReport:
    request = ListRequest(tenant_id=tenant, tool=team.tool.name, from_ms=0, to_ms=2**53, timeout_s=5.0)
    return sweep(world.log, world.view, team.tool, request, **options)


def by_reference(report: SweepReport) -> dict[str, str]:
    return {one.reference: str(one.finding) for one in report.found}


def news(world: World) -> list[Entry]:
    return [entry for entry in world.entries() if isinstance(entry.event, UnmatchedNews)]


def test_an_effect_that_carries_our_mark_and_has_no_operation_is_appended_once_and_shown_beside_the_reviews(
    world: World, provider: FaultyProvider
) -> None:
    team = Team(provider)
    world.projector()
    done = world.ledger().perform(team.tool, operation_id="op-1", amount=5)
    assert isinstance(done, Confirmed)
    past_the_ledger = provider.make({"operation_id": "op-2", "amount": 7})
    foreign = provider.make({"amount": 9})
    told: list[Progress] = []
    report = swept(world, team, by="anna", say=told.append)
    assert [(one.done, one.total) for one in told] == [(3, 3)], "it says how far it is"
    assert (report.by, report.counts) == ("anna", {"matched": 1, "unmarked": 1, "unmatched": 1})
    assert by_reference(report) == {past_the_ledger["id"]: "unmatched", foreign["id"]: "unmarked"}
    (entry,) = news(world)
    said = entry.event
    assert isinstance(said, UnmatchedNews)
    assert (said.source, said.reference, said.operation_key) == (Source.SWEEP, past_the_ledger["id"], "op-2")
    assert said.actor == "anna", "who swept is on record"
    assert (said.tenant_id, said.endpoint, said.provider_time_ms) == (TENANT, "sweep:effects.make", past_the_ledger["created_ms"])
    assert [one.position for one in report.found if one.finding == "unmatched"] == [entry.position]

    again = swept(world, team, by="ben")
    assert again.counts == report.counts
    assert news(world) == [entry], "found again, by whomever, it is no news"
    with open_pool(world.view) as pool:
        deadline = time.monotonic() + 60
        while not (rows := PostgresNews(world.view, pool).unmatched(TENANT)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert {(row.endpoint, row.reference, row.operation_key) for row in rows} == {
            ("sweep:effects.make", past_the_ledger["id"], "op-2")
        }
        assert PostgresNews(world.view, pool).unmatched("other") == []


def test_the_effect_of_a_lost_answer_settles_its_doubt(world: World, provider: FaultyProvider) -> None:
    team = Team(provider, verify=None)
    world.projector()
    team.url = "http://127.0.0.1:9"  # nobody listens: the look-up cannot tell, and no reconciler runs
    assert isinstance(world.ledger().perform(team.tool, operation_id="op-1", amount=5), Unknown)
    made = provider.make({"operation_id": "op-1", "amount": 5})
    team.url = provider.url
    report = swept(world, team)
    assert by_reference(report) == {made["id"]: "unrecorded"}
    operation = world.until("op-1", "confirmed")
    assert [known.value for known in operation.references] == [made["id"]]
    evidence = [entry.event for entry in world.entries("op-1") if isinstance(entry.event, OutcomeConfirmed)]
    assert [(one.source, one.matched_on, one.attempt) for one in evidence] == [(Source.SWEEP, ["operation_id"], None)]
    assert swept(world, team).counts == {"matched": 1}


def test_a_second_effect_of_one_operation_is_found_and_goes_to_people(world: World, provider: FaultyProvider) -> None:
    provider.honours_key = False
    team = Team(provider)
    world.projector()
    assert isinstance(world.ledger().perform(team.tool, operation_id="op-1", amount=5), Confirmed)
    second = provider.make({"operation_id": "op-1", "amount": 5})
    report = swept(world, team)
    assert (report.counts, by_reference(report)) == ({"matched": 1, "unrecorded": 1}, {second["id"]: "unrecorded"})
    operation = world.operation("op-1")
    assert operation.state == "confirmed"
    assert operation.review is not None
    assert operation.review.reasons == ("duplicate_effect",)


def test_an_effect_of_what_counts_as_failed_comes_as_late_effect(world: World, provider: FaultyProvider) -> None:
    team = Team(provider, no_effect_errors=("400",))
    world.projector()
    team.asked = lambda *words, **more: (_ for _ in ()).throw(Refused400())  # type: ignore[method-assign]
    assert isinstance(world.ledger().perform(team.tool, operation_id="op-1", amount=5), Rejected)
    del team.asked
    provider.make({"operation_id": "op-1", "amount": 5})
    assert swept(world, team).counts == {"unrecorded": 1}
    operation = world.operation("op-1")
    assert operation.state == "rejected"
    assert operation.review is not None
    assert operation.review.reasons == ("late_effect",)


class Refused400(Exception):
    code = "400"


def test_a_call_that_is_under_way_is_left_to_its_holder_and_another_tenant_is_not_touched(
    world: World, provider: FaultyProvider
) -> None:
    from landed import Execute, intent_of

    team = Team(provider)
    world.projector()
    ledger = world.ledger()
    begun = ledger.begin(intent_of(team.tool.contract, {"amount": 5}, operation_id="op-1"))
    assert isinstance(begun, Execute)
    assert ledger.start(begun) is None
    provider.make({"operation_id": "op-1", "amount": 5})
    before = names(world.entries())
    assert swept(world, team).counts == {"under_way": 1}
    assert names(world.entries()) == before
    assert swept(world, team, tenant="other", record=False).counts == {"unmatched": 1}
    assert names(world.entries()) == before, "compared only, nothing is appended"


def test_a_sweep_whose_view_is_behind_the_log_records_nothing(world: World, provider: FaultyProvider) -> None:
    """Else every effect of the last moments would look as if it had gone past the ledger."""
    team = Team(provider)
    projector = world.projector()
    assert isinstance(world.ledger().perform(team.tool, operation_id="op-1", amount=5), Confirmed)
    swept(world, team)
    projector.end()
    provider.make({"operation_id": "op-2", "amount": 5})
    from landed.adapters.kafka import KafkaEventLog
    from landed.core.events import GroupOpened
    from landed.wire.ids import with_event_id

    log = KafkaEventLog(world.log)
    fields: dict[str, Any] = {"tenant_id": TENANT, "route": "g", "group_id": "g", "actor": "a", "workflow_type": "trip"}
    log.append(with_event_id(GroupOpened(event_id="", **fields))).result(10)
    log.close()
    with pytest.raises(SettingsError, match=r"is behind the log after 0\.3 s: is a projector running"):
        swept(world, team, view_wait_s=0.3)
    assert news(world) == []


def test_evidence_below_the_minimum_and_effects_that_are_not_final_are_only_shown(world: World, provider: FaultyProvider) -> None:
    team = Team(provider, minimum_evidence=("operation_id", "amount"))
    world.projector()
    team.url = "http://127.0.0.1:9"
    world.ledger().perform(team.tool, operation_id="op-1", amount=5)
    statuses = [EffectStatus.SETTLED, EffectStatus.PENDING, EffectStatus.FAILED]
    team.tool.list_probe(
        lambda request: [Listed(reference=f"ef_{n}", operation_id="op-1", status=one) for n, one in enumerate(statuses)]
    )
    before = names(world.entries())
    assert swept(world, team).counts == {"matched": 2, "similar": 1}
    assert names(world.entries()) == before


def test_the_command_says_what_it_found_and_ends_with_one(
    world: World, provider: FaultyProvider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import sys
    import types

    team = Team(provider)
    module: Any = types.ModuleType("swept_tools")
    module.registry = team.registry
    monkeypatch.setitem(sys.modules, "swept_tools", module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("LANDED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANDED_KAFKA_BOOTSTRAP", world.log.bootstrap)
    monkeypatch.setenv("LANDED_DATABASE_URL", world.view.url)
    monkeypatch.setenv("LANDED_TOPIC", world.log.topic)
    monkeypatch.setenv("LANDED_REPLIES_TOPIC", world.log.replies_topic)
    monkeypatch.setenv("LANDED_WRITER_KEY_ID", "writer-1")
    monkeypatch.setenv("LANDED_WRITER_KEY", "a secret of thirty-two bytes or so")
    monkeypatch.setenv("LANDED_TENANT", TENANT)
    world.projector()
    provider.make({"operation_id": "op-2", "amount": 7})
    words = ["sweep", "effects.make", "--tools", "swept_tools:registry", "--from", "1h"]
    assert run([*words, "--dry-run"]) == Exit.FOUND
    assert "unmatched   ef_1, settled of operation op-2\n" in capsys.readouterr().out
    assert news(world) == []
    assert run([*words, "-o", "json"]) == Exit.FOUND
    report = json.loads(capsys.readouterr().out)
    assert report["found"][0]["event"] == "unmatched_news"
    deadline = time.monotonic() + 60
    while "sweep:effects.make" not in (said := reviews(capsys)):
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    assert said.startswith("No review task is open.\n\nNews that matches no operation (landed news list):\n")
    assert run([*words, "--to", "30m"]) == Exit.DONE, "made later than the span that is swept"
    assert "0 effects listed: nothing" in capsys.readouterr().out


def reviews(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(["reviews", "list"]) == Exit.DONE
    return capsys.readouterr().out
