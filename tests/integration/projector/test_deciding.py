"""Claims on a real log: decided once, through the log, and answered with what the fold gave."""

from concurrent.futures import Future

import pytest

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.core import events as ev
from landed.core.verdict import Verdict
from landed.core.vocabulary import Refusal, State
from landed.wire.ids import with_event_id

from .conftest import running
from .driving import TENANT, Driver, entries
from .looking import rows, wait_for_end, wait_until


def test_a_claim_is_granted_and_a_second_one_is_told_who_holds_it(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        first, second = driver.claim_of(), driver.claim_of()
        granted = driver.ask(driver.prepared("op-1", first), first).result(20)
        refused = driver.ask(driver.requested("op-1", second), second).result(20)
    assert (granted.attempt, granted.state, granted.lease_ms) == (1, State.DISPATCHED, 30_000)
    assert refused.reason is Refusal.IN_FLIGHT
    assert refused.detail["holder"] == first.claim_id
    grants = [entry.event for entry in entries(log_settings) if isinstance(entry.event, ev.DispatchGranted)]
    assert [(grant.claim_id, grant.attempt) for grant in grants] == [(first.claim_id, 1)]


def test_of_fifty_claims_at_once_exactly_one_is_granted(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        waiting: list[Future[Verdict]] = []
        for _ in range(50):
            claim = driver.claim_of()
            waiting.append(driver.inbox.expect(claim.claim_id))
            driver.log.append(driver.prepared("op-1", claim))
        verdicts = [future.result(30) for future in waiting]
    assert [verdict.attempt for verdict in verdicts if verdict.granted] == [1]
    assert {verdict.reason for verdict in verdicts if not verdict.granted} == {Refusal.IN_FLIGHT}


def test_every_verdict_is_a_decision_on_the_log_and_carries_its_time(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        verdicts = [driver.perform(f"op-{number}") for number in range(20)]
        wait_for_end(log_settings, database)
    on_log = {
        entry.event.claim_id: entry
        for entry in entries(log_settings)
        if isinstance(entry.event, ev.DispatchGranted | ev.DispatchRefused)
    }
    assert {verdict.claim_id: verdict.at_ms for verdict in verdicts} == {name: one.at_ms for name, one in on_log.items()}
    outbox = rows(database, "SELECT claim_id, partition, returned_offset FROM decisions")
    assert {(name, partition, offset) for name, partition, offset in outbox} == {
        (name, one.position.partition, one.position.offset) for name, one in on_log.items()
    }


@pytest.mark.parametrize("granted", [True, False], ids=["granted", "refused"])
def test_a_claim_that_is_asked_again_gets_the_same_answer(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, granted: bool
) -> None:
    with running(log_settings, database):
        claim = driver.claim_of()
        if not granted:
            holder = driver.claim_of()
            driver.ask(driver.prepared("op-1", holder), holder).result(20)
        first = driver.ask(driver.prepared("op-1", claim), claim).result(20)
        again = driver.ask(driver.requested("op-1", claim, seen_version=1), claim).result(20)
        wait_for_end(log_settings, database)
    assert first.granted is granted
    assert (again.attempt, again.reason, again.detail, again.at_ms) == (first.attempt, first.reason, first.detail, first.at_ms)
    decisions = [one.event for one in entries(log_settings) if isinstance(one.event, ev.DispatchGranted | ev.DispatchRefused)]
    assert [one.claim_id for one in decisions].count(claim.claim_id) == 1


def test_a_claim_that_is_asked_again_after_a_restart_gets_the_same_answer(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    claim = driver.claim_of()
    with running(log_settings, database):
        first = driver.ask(driver.prepared("op-1", claim), claim).result(20)
    with running(log_settings, database):
        again = driver.ask(driver.requested("op-1", claim, seen_version=1), claim).result(20)
    assert (again.attempt, again.at_ms) == (first.attempt, first.at_ms) == (1, first.at_ms)


def test_a_call_that_was_confirmed_is_answered_with_the_original_receipt(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        first = driver.perform("op-1")
        second = driver.perform("op-1")
    assert first.granted
    assert second.reason is Refusal.ALREADY_CONFIRMED
    assert (second.detail["receipt"], second.detail["reference"]) == ('{"id":"re_1"}', "re_1")


def test_a_claim_whose_caller_waits_no_more_is_refused_as_expired(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        claim = driver.claim_of(wait_s=-1)
        verdict = driver.ask(driver.prepared("op-1", claim), claim).result(20)
    assert verdict.reason is Refusal.CLAIM_EXPIRED


def test_a_request_with_another_hash_is_refused_and_names_the_argument(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        driver.perform("op-1")
        claim = driver.claim_of("h2")
        event = driver.prepared("op-1", claim, argument_digests={"amount": "d2"})
        verdict = driver.ask(event, claim).result(20)
    assert verdict.reason is Refusal.REQUEST_MISMATCH
    assert verdict.detail["differs"] == "amount"


@pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at once"])
def test_an_id_that_is_known_under_another_route_is_refused(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, at_once: bool
) -> None:
    """§1: the operation belongs to the route that knew it first; a second use is refused and names that route."""
    with running(log_settings, database):
        claims = [driver.claim_of(), driver.claim_of()]
        groups = ["trip-1", "trip-2"]
        asked = []
        for claim, group in zip(claims, groups, strict=True):
            asked.append(driver.ask(driver.prepared("op-1", claim, group_id=group), claim))
            if not at_once:
                asked[-1].result(20)
        verdicts = [future.result(20) for future in asked]
    assert sorted(verdict.granted for verdict in verdicts) == [False, True]
    loser = next(verdict for verdict in verdicts if not verdict.granted)
    assert loser.reason is Refusal.ROUTE_MISMATCH
    assert loser.detail["known_route"] in groups


def test_a_claim_withdrawn_before_its_decision_is_not_decided(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    claim = driver.claim_of()
    driver.append(driver.prepared("op-1", claim))
    driver.append(
        with_event_id(
            ev.DispatchReleased(
                event_id="",
                tenant_id=TENANT,
                route="op-1",
                operation_id="op-1",
                actor="agent-1",
                claim_id=claim.claim_id,
                why="x",
            )
        )
    )
    with running(log_settings, database):
        wait_for_end(log_settings, database)
        assert driver.perform("op-1").granted
    assert rows(database, "SELECT count(*) FROM decisions WHERE claim_id = %s", claim.claim_id) == [(0,)]


def test_another_tenant_with_the_same_ids_is_never_seen(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        ours = driver.perform("op-1", group_id="trip-1")
        theirs = driver.perform("op-1", group_id="trip-1", tenant_id="umbrella")
        elsewhere = driver.perform("op-1", group_id="trip-2", tenant_id="third")
        wait_for_end(log_settings, database)
    assert ours.granted
    assert theirs.granted
    assert elsewhere.granted
    found = rows(database, "SELECT tenant_id, route, operation_id, state FROM operations ORDER BY 1")
    assert found == [
        ("acme", "trip-1", "op-1", "confirmed"),
        ("third", "trip-2", "op-1", "confirmed"),
        ("umbrella", "trip-1", "op-1", "confirmed"),
    ]


def test_an_unwound_group_withdraws_what_was_only_prepared_and_refuses_forward_claims(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    with running(log_settings, database):
        driver.append(driver.prepared("op-1", None, group_id="trip-1"))
        driver.append(
            with_event_id(
                ev.UnwindRequested(
                    event_id="",
                    tenant_id=TENANT,
                    route="trip-1",
                    group_id="trip-1",
                    actor="operator",
                    reason="sold out",
                    by="ann",
                )
            )
        )
        wait_until(
            lambda: rows(database, "SELECT state FROM operations") == [("cancelled",)], "the prepared operation is withdrawn"
        )
        claim = driver.claim_of("h2")
        verdict = driver.ask(driver.prepared("op-2", claim, group_id="trip-1"), claim).result(20)
    assert verdict.reason is Refusal.GROUP_UNWINDING
    assert rows(database, "SELECT group_state FROM routes") == [("unwound",)]
    said = [entry.event for entry in entries(log_settings) if entry.event.actor == "projector"]
    assert [type(event) for event in said] == [ev.GroupUnwinding, ev.OperationCancelled, ev.DispatchRefused]
