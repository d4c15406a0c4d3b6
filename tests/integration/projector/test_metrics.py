"""What a projector tells Prometheus, on the real broker and database, against what happened."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.adapters.postgres import PostgresSettings
from landed.core import events as ev
from landed.core.vocabulary import BytesLeft
from landed.wire.ids import with_event_id
from landed_services.metrics import Metrics, MetricsSettings, served
from landed_services.projector.appending import Appending
from landed_services.projector.loop import Projector
from landed_services.projector.rebuilding import rebuild
from landed_services.projector.session import Session

from .conftest import Running, running
from .driving import TENANT, Driver
from .looking import rows, wait_for_end, wait_until
from .processes import projector_process
from .test_refused_records import produce, signed

Scrape = Callable[..., float]


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def total(port: int, name: str, **labels: str) -> float:
    """Sum of the samples of *name* that have *labels*."""
    return sum(value for (found, has), value in scrape(port).items() if found == name and labels.items() <= dict(has).items())


class Watched(Running):
    """A projector that tells what it does."""

    def __init__(self, log_settings: KafkaSettings, database: PostgresSettings) -> None:
        super().__init__(log_settings, database)
        self.metrics = Metrics()
        self.projector = Projector(log_settings, database, metrics=self.metrics)
        self._served = served(MetricsSettings(port=0), self.metrics, database)
        self.port = self._served.__enter__().port

    def join(self, timeout_s: float = 60.0) -> None:
        super().join(timeout_s)
        self._served.__exit__(None, None, None)


@pytest.fixture
def watched(log_settings: KafkaSettings, database: PostgresSettings) -> Iterator[Watched]:
    one = Watched(log_settings, database)
    one.start()
    wait_until(one.projector.caught_up.is_set, "it has caught up")
    yield one
    one.stop.set()
    one.join()


def unknown(driver: Driver, operation_id: str, verdict_claim: str, version: int) -> ev.Event:
    return with_event_id(
        ev.OutcomeUnknown(
            event_id="",
            tenant_id=TENANT,
            route=operation_id,
            operation_id=operation_id,
            actor="agent-1",
            seen_version=version,
            attempt=1,
            claim_id=verdict_claim,
            error_class="TimeoutError",
            bytes_left=BytesLeft.YES,
        )
    )


def doubt(driver: Driver, operation_id: str) -> None:
    """An operation whose answer was lost."""
    claim = driver.claim_of()
    verdict = driver.ask(driver.prepared(operation_id, claim), claim).result(20)
    driver.append(unknown(driver, operation_id, claim.claim_id, verdict.version))


def test_the_numbers_are_those_of_what_happened(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver, watched: Watched
) -> None:
    for number in range(5):
        assert driver.perform(f"op-{number}").granted
    again = driver.claim_of()
    assert not driver.ask(driver.requested("op-0", again), again).result(20).granted
    doubt(driver, "in-doubt")
    produce(log_settings, key=b"garbage", value=b"x")
    produce(log_settings, **signed("of-a-newer-release", b"what is this"))
    wait_for_end(log_settings, database)
    port = watched.port
    ends = dict(rows(database, "SELECT partition, next_offset FROM positions"))
    # Positions are told once a second.
    wait_until(
        lambda: all(total(port, "landed_projector_position_offset", partition=str(one)) == end for one, end in ends.items()),
        "the positions are told",
    )
    assert total(port, "landed_projector_claims_decided_total", verdict="granted") == 6
    assert total(port, "landed_projector_claims_decided_total", verdict="refused", reason="already_confirmed") == 1
    assert total(port, "landed_projector_verdict_seconds_count") == 7
    assert 0 < total(port, "landed_projector_verdict_seconds_sum") < 7 * 5
    assert total(port, "landed_projector_refused_records_total", reason="key_malformed") == 1
    assert total(port, "landed_projector_refused_records_total") == len(rows(database, "SELECT 1 FROM refused_records")) == 2
    assert total(port, "landed_operations_frozen") == 1
    events = rows(database, "SELECT count(*) FROM events")[0][0]
    assert total(port, "landed_projector_batch_records_sum") == events + 1  # and the one that is no event
    assert total(port, "landed_projector_batch_seconds_count") == total(port, "landed_projector_batch_records_count") > 0
    outcomes = dict(rows(database, "SELECT outcome, count(*) FROM operations WHERE outcome IS NOT NULL GROUP BY 1"))
    told = {
        name: total(port, "landed_operations_classified_total", outcome=name, tenant=TENANT, tool="refund") for name in outcomes
    }
    assert told == outcomes == {"succeeded": 5, "unknown": 1}
    assert total(port, "landed_operations_in_doubt", tenant=TENANT, tool="refund") == 1
    stands = dict(rows(database, "SELECT partition, next_offset FROM positions"))
    for partition, offset in stands.items():
        assert total(port, "landed_projector_position_offset", partition=str(partition)) == offset
        assert total(port, "landed_projector_partition_owned", partition=str(partition)) == 1
        assert total(port, "landed_projector_lag_records", partition=str(partition)) == 0
    assert total(port, "landed_projector_outbox_decisions") == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        assert answer.status == 200


def test_records_that_wait_are_lag_and_decisions_that_do_not_return_are_outbox(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    driver: Driver,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert driver.perform("op-1").granted
    monkeypatch.setattr(Appending, "send", lambda *_: None)  # the broker takes nothing
    claim = driver.claim_of()
    driver.ask(driver.prepared("op-2", claim), claim)
    wait_until(lambda: total(watched.port, "landed_projector_outbox_decisions") == 1, "its decision is on its way")
    wait_until(lambda: total(watched.port, "landed_projector_outbox_oldest_seconds") > 0.5, "it is told how long for")
    reads_nothing = threading.Event()

    def read(*_: object) -> list[object]:
        reads_nothing.set()
        time.sleep(0.1)
        return []

    monkeypatch.setattr(Session, "_read", read)
    assert reads_nothing.wait(30)
    for number in range(30):
        driver.append(driver.prepared(f"waits-{number}", None))
    reader = LogReader(log_settings)
    ends = sum(reader.end_offsets().values())
    reader.close()

    def is_told() -> bool:
        behind = ends - rows(database, "SELECT sum(next_offset) FROM positions")[0][0]
        return behind >= 30 and total(watched.port, "landed_projector_lag_records") == behind

    wait_until(is_told, "they are told as lag")


def test_what_a_rebuild_folds_again_is_not_counted_again_and_what_comes_after_it_is(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    one = Watched(log_settings, database)
    one.start()
    try:
        wait_until(one.projector.caught_up.is_set, "it has caught up")
        for number in range(4):
            assert driver.perform(f"op-{number}").granted
        produce(log_settings, key=b"garbage", value=b"x")
        wait_for_end(log_settings, database)
        counted = "landed_operations_classified_total"
        assert total(one.port, counted, outcome="succeeded") == 4
        rebuild(log_settings, database)  # while it runs: it folds its share anew
        wait_until(one.projector.caught_up.is_set, "it has caught up again")
        assert driver.perform("after").granted
        wait_for_end(log_settings, database)
        assert total(one.port, counted, outcome="succeeded") == 5
        assert total(one.port, "landed_projector_refused_records_total") == 1
    finally:
        one.stop.set()
        one.join()
    successor = Watched(log_settings, database)
    rows(database, "UPDATE positions SET next_offset = 0, last_offset = NULL, last_digest = NULL, leader_epoch = -1 RETURNING 1")
    rows(database, "WITH gone AS (DELETE FROM events) DELETE FROM operations RETURNING 1")
    rows(database, "DELETE FROM refused_records RETURNING 1")
    successor.start()
    try:
        wait_until(successor.projector.caught_up.is_set, "the next one has folded all of it again")
        wait_for_end(log_settings, database)
        assert total(successor.port, counted) == total(successor.port, "landed_projector_refused_records_total") == 0
        assert total(successor.port, "landed_projector_batch_records_sum") > 0
    finally:
        successor.stop.set()
        successor.join()


def test_a_projector_that_gave_its_partitions_up_shows_none_and_one_that_stands_by_is_ready(
    log_settings: KafkaSettings, database: PostgresSettings, watched: Watched
) -> None:
    with running(log_settings, database, wait=False), running(log_settings, database, wait=False):
        wait_until(lambda: total(watched.port, "landed_projector_partition_owned") == 1, "each of three owns one")
        with running(log_settings, database, wait=False):
            time.sleep(1.0)  # the fourth may have begun
            wait_until(lambda: total(watched.port, "landed_projector_partition_owned") <= 1, "it has one at most")
            with urllib.request.urlopen(f"http://127.0.0.1:{watched.port}/livez", timeout=5) as answer:
                assert answer.status == 200
    wait_until(lambda: total(watched.port, "landed_projector_partition_owned") == 3, "it owns all again")


def test_the_command_opens_the_door_that_it_is_told_and_closes_it_at_its_end(
    log_settings: KafkaSettings, database: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LANDED_METRICS_PORT", str(port))
    with projector_process(log_settings, database) as process:

        def owns() -> float:
            try:
                return total(port, "landed_projector_partition_owned")
            except OSError:
                return 0

        wait_until(lambda: owns() == 3, "it tells that it owns all")
        process.terminate()
        assert process.wait(20) == 0
    with pytest.raises(OSError, match="refused"):
        scrape(port)
