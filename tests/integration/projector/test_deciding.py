"""Claims on a real log: decided once, through the log, and answered with what the fold gave."""

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresSettings
from landed.core import events as ev
from landed.core.vocabulary import Refusal, State

from .conftest import running
from .driving import Driver, entries


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
