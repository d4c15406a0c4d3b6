"""The view: equal to the fold of the log to the byte, rebuilt the same, found by its indexes, migrated and taken back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from landed.adapters.kafka import KafkaSettings
from landed.adapters.postgres import PostgresDueOperations, PostgresSettings, connect, migrate, open_pool, roll_back
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.vocabulary import BytesLeft, State
from landed.wire.ids import with_event_id
from landed_services.cli._exit import Exit, exit_code
from landed_services.projector.errors import NotFolded
from landed_services.projector.rebuilding import rebuild
from landed_services.projector.sampling import Asked, sample
from landed_services.projector.store import Store
from landed_services.projector.verifying import verify
from landed_services.queries.places import places_of
from landed_services.replay.scope import Scope
from landed_services.replay.topic import Topic

from .conftest import running
from .driving import TENANT, Driver
from .looking import rows, view, wait_for_end


@pytest.fixture
def worked(log_settings: KafkaSettings, database: PostgresSettings, driver: Driver) -> None:
    """A log with groups, refusals, doubt and an unwinding, projected."""
    with running(log_settings, database):
        for number in range(12):
            driver.perform(f"op-{number}", group_id=f"trip-{number % 3}" if number % 2 else None)
            driver.perform(f"op-{number}", group_id=f"trip-{number % 3}" if number % 2 else None)
        claim = driver.claim_of()
        granted = driver.ask(driver.prepared("op-lost", claim), claim).result(20)
        driver.append(
            with_event_id(
                ev.OutcomeUnknown(
                    event_id="",
                    tenant_id=TENANT,
                    route="op-lost",
                    operation_id="op-lost",
                    actor="agent-1",
                    seen_version=granted.version,
                    claim_id=claim.claim_id,
                    attempt=1,
                    error_class="timeout",
                    bytes_left=BytesLeft.YES,
                )
            )
        )
        held = driver.claim_of()
        driver.ask(driver.prepared("op-held", held), held).result(20)
        driver.append(
            with_event_id(
                ev.UnwindRequested(
                    event_id="", tenant_id=TENANT, route="trip-1", group_id="trip-1", actor="op", reason="sold out", by="ann"
                )
            )
        )
        driver.append(driver.prepared("op-1", None, group_id="trip-1", request_hash="h9"))
        wait_for_end(log_settings, database)


@pytest.mark.usefixtures("worked")
def test_the_view_is_equal_to_the_fold_of_the_log(log_settings: KafkaSettings, database: PostgresSettings) -> None:
    report = verify(log_settings, database)
    assert (report.differences, report.equal) == ((), True)
    assert report.operations == rows(database, "SELECT count(*) FROM operations")[0][0] == 14
    assert report.events == rows(database, "SELECT count(*) FROM events")[0][0] > 60


@pytest.mark.usefixtures("worked")
def test_a_rebuild_gives_the_same_bytes_and_decides_nothing(log_settings: KafkaSettings, database: PostgresSettings) -> None:
    before, numbers = view(database), rows(database, "SELECT count(*) FROM decisions")
    done = rebuild(log_settings, database)
    assert numbers[0][0] > 20
    assert view(database) == before
    assert done.events == len(before["events"])
    assert verify(log_settings, database).equal
    assert rows(database, "SELECT count(*) FROM decisions") == [(0,)]


@pytest.mark.usefixtures("worked")
@pytest.mark.parametrize(
    ("tampering", "table", "field", "log", "there"),
    [
        (
            "UPDATE operations SET state = 'rejected' WHERE operation_id = 'op-2'",
            "operations",
            "state",
            "'confirmed'",
            "'rejected'",
        ),
        (
            "UPDATE events SET reason = 'x', accepted = false WHERE type = 'outcome_unknown'",
            "events",
            "accepted",
            "True",
            "False",
        ),
        ("DELETE FROM operations WHERE operation_id = 'op-2'", "operations", "row", "is there", None),
        (
            "INSERT INTO refused_records VALUES (0, 999999, 'x', '', 0, '', '', '', false)",
            "refused_records",
            "row",
            None,
            "is there",
        ),
        ("UPDATE routes SET group_state = 'unwound' WHERE route = 'trip-1'", "routes", "group_state", "'unwinding'", "'unwound'"),
    ],
)
def test_verify_names_what_differs_and_both_values(
    log_settings: KafkaSettings, database: PostgresSettings, tampering: str, table: str, field: str, log: str, there: str
) -> None:
    rows(database, f"{tampering} RETURNING 1")
    report = verify(log_settings, database)
    found = report.differences[0]
    assert (found.table, found.field, found.log, found.database) == (table, field, log, there)
    assert found.offset is not None


@pytest.mark.usefixtures("worked")
def test_verify_names_the_field_inside_a_state(log_settings: KafkaSettings, database: PostgresSettings) -> None:
    rows(
        database,
        "UPDATE operations SET body = (SELECT body FROM operations WHERE operation_id = 'op-4')"
        " WHERE operation_id = 'op-2' RETURNING 1",
    )
    report = verify(log_settings, database)
    assert {one.operation_id for one in report.differences} == {"op-2"}
    assert "body.operation_id" in {one.field for one in report.differences}
    assert "op-2" in str(report.differences[0])


def test_verify_says_that_nobody_has_folded_the_log_rather_than_that_nothing_differs(
    log_settings: KafkaSettings, database: PostgresSettings
) -> None:
    with pytest.raises(NotFolded, match="nobody has folded this log yet: start `landed projector`") as raised:
        verify(log_settings, database)
    assert exit_code(raised.value) is Exit.SETUP


@pytest.mark.usefixtures("worked")
def test_the_command_verify_exits_with_1_when_they_differ(log_settings: KafkaSettings, database: PostgresSettings) -> None:
    assert landed("verify", "-o", "json", on=(log_settings, database)).returncode == 0
    rows(database, "UPDATE operations SET state = 'rejected' WHERE operation_id = 'op-2' RETURNING 1")
    ended = landed("verify", "-o", "json", on=(log_settings, database))
    assert ended.returncode == 1
    assert [one["field"] for one in json.loads(ended.stdout)["differences"]] == ["state"]
    assert landed("rebuild", "--yes", on=(log_settings, database)).returncode == 0
    assert landed("verify", on=(log_settings, database)).returncode == 0


@pytest.mark.usefixtures("worked")
def test_a_replay_that_asks_the_database_where_to_read_tells_the_same(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    driver.append(driver.prepared("op-lost", None, request_hash="h9"))  # nobody has folded it
    asked = ("replay", "--tenant", TENANT, "--operation", "op-lost", "-o", "jsonl")
    whole = landed(*asked, on=(log_settings, database))
    located = landed(*asked, "--locate", on=(log_settings, database))
    assert located.stdout == whole.stdout
    assert whole.stdout.count('"is":"event"') == 4
    partition, first, last, folded = rows(
        database,
        "SELECT e.partition, min(log_offset), max(log_offset), p.next_offset FROM events e JOIN positions p USING (partition)"
        " WHERE route = 'op-lost' GROUP BY 1, 4",
    )[0]
    (place,) = places_of(database, TENANT, operation_id="op-lost")
    assert (place.partition, place.first_offset, place.last_offset, place.folded_to) == (partition, first, last, folded)
    within = {partition: (first, last + 1, folded)}
    scope = Scope(tenant_id=TENANT, group="op-lost", operation_id="op-lost", within=within)
    offsets = [record.offset for record in Topic(log_settings).records(scope)]
    assert offsets[0] == first
    assert offsets[-1] >= folded > last
    assert all(first <= one <= last or one >= folded for one in offsets)


def landed(*arguments: str, on: tuple[KafkaSettings, PostgresSettings]) -> subprocess.CompletedProcess[str]:
    log_settings, database = on
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANDED_KAFKA_BOOTSTRAP": log_settings.bootstrap,
        "LANDED_DATABASE_URL": database.url,
        "LANDED_TOPIC": log_settings.topic,
        "LANDED_REPLIES_TOPIC": log_settings.replies_topic,
        "LANDED_WRITER_KEY_ID": "writer-1",
        "LANDED_WRITER_KEY": "a secret of thirty-two bytes or so",
    }
    command = [sys.executable, "-c", "from landed_services.cli import main; main()", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.usefixtures("worked")
def test_what_is_due_is_told_by_when_it_is_due(database: PostgresSettings) -> None:
    pool = open_pool(database)
    try:
        due = PostgresDueOperations(database, pool, range(3))
        first_ms = due.next_due_ms()
        assert first_ms is not None
        assert due.due(now_ms=first_ms - 1, limit=10) == []
        found = due.due(now_ms=first_ms + 60_000, limit=10)
        assert [(one.operation.operation_id, one.operation.state, one.group_id) for one in found] == [
            ("op-lost", State.UNKNOWN, None),
            ("op-held", State.DISPATCHED, None),
        ]
        assert found[0].due_at_ms == first_ms
        assert due.due(now_ms=first_ms + 60_000, limit=1) == found[:1]
        assert PostgresDueOperations(database, pool, range(3), tenant_ids=["other"]).due(now_ms=first_ms, limit=10) == []
    finally:
        pool.close()


PAGE = {
    "partitions": [0, 1],
    "tenant_ids": None,
    "now_ms": 50,
    "limit": 10,
    "closed_tools": ["refund"],
    "going_on": True,
    "stakes_rank": 0,
    "gives_up_at_ms": 40,
    "tenant_id": "t-1",
    "route": "op-1",
    "operation_id": "op-1",
}


NEWS = {"tenant_id": "t-1", "operation_key": "op-77", "reference": "re_77"}
KINDS = ["review_opened", "inverse_window_closing"]
TELL = {"receiver": "ops", "kinds": KINDS, "aged_ms": [1], "missed_ms": 1, "inverse_before_ms": 1, "limit": 9}


@pytest.mark.parametrize(
    ("name", "parameters", "index"),
    [
        ("load_operations", {"tenant_ids": ["t-1"], "routes": ["op-77"]}, "operations_pkey"),
        ("load_heads", {"tenant_ids": ["t-1"], "routes": ["op-77"]}, "routes_pkey"),
        ("known_under", {"tenant_ids": ["t-1"], "operation_ids": ["op-77"]}, "operations_by_id"),
        ("due_operations", PAGE, "operations_due"),
        ("next_due", {"partitions": [0, 1], "tenant_ids": None}, "operations_due"),
        ("decisions_on_claims", {"tenant_id": "t-1", "route": "op-77", "operation_id": "op-77"}, "events_of_operation"),
        ("on_their_way", {"partitions": [0, 1]}, "decisions_on_their_way"),
        (
            "decided_claims",
            {"tenant_ids": ["t-1"], "routes": ["op-77"], "operation_ids": ["op-77"], "claim_ids": ["c"]},
            "decisions_of_claim",
        ),
        ("unsettled_routes", {"partitions": [0]}, "operations_replaced"),
        ("unsettled_routes", {"partitions": [0]}, "routes_unwinding"),
        ("load_policies", {"tenant_ids": ["t-1"]}, "routes_of_policies"),
        (
            "reviews_open",
            {"tenant_id": "t-1", "queue": None, "reason": None, "age_ms": 0, "prefix": None, "limit": 9},
            "operations_in_review",
        ),
        ("approvals_open", {"tenant_id": "t-1", "lapsed": False, "prefix": None, "limit": 9}, "operations_in_approval"),
        ("operations_named", {"tenant_id": "t-1", "operation_id": "op-77"}, "operations_by_id"),
        ("events_of_operation", {"tenant_id": "t-1", "route": "op-77", "operation_id": "op-77"}, "events_of_operation"),
        ("event_folded", {"partition": 1, "log_offset": 77}, "events_pkey"),
        ("policy_history", {"tenant_id": "t-1", "route": None, "limit": 9}, "events_of_people"),
        ("statements_told", {"tenant_id": "t-1", "since_ms": 0, "limit": 9}, "events_of_people"),
        ("news_about", NEWS, "operations_by_id"),
        ("news_about", NEWS, "operations_by_reference"),
        ("news_about", NEWS, "operations_by_earlier_reference"),
        ("news_open", {"now_ms": 0, "limit": 9}, "operations_by_reference"),
        ("news_open", {"now_ms": 0, "limit": 9}, "operations_by_earlier_reference"),
        ("to_tell", TELL, "operations_in_review"),
        ("to_tell", TELL, "operations_inverse_until"),
    ],
)
def test_a_look_up_goes_by_its_index(filled: PostgresSettings, name: str, parameters: dict[str, Any], index: str) -> None:
    with connect(filled) as connection:
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {statement(name)}", parameters).fetchall())  # type: ignore[arg-type]
    assert index in plan
    assert "Seq Scan on operations" not in plan
    assert "Seq Scan on decisions" not in plan
    assert "Seq Scan on events" not in plan


@pytest.mark.parametrize(
    ("name", "parameters", "index", "columns"),
    [
        ("load_operations", {"tenant_ids": ["t"], "routes": ["r"]}, "operations_pkey", ("tenant_id", "route")),
        ("load_heads", {"tenant_ids": ["t"], "routes": ["r"]}, "routes_pkey", ("tenant_id", "route")),
        ("known_under", {"tenant_ids": ["t"], "operation_ids": ["o"]}, "operations_by_id", ("operation_id", "tenant_id")),
        ("known_under", {"tenant_ids": ["t"], "operation_ids": ["o"]}, "decisions_of_claim", ("tenant_id", "route")),
        (
            "decided_claims",
            {"tenant_ids": ["t"], "routes": ["r"], "operation_ids": ["o"], "claim_ids": ["c"]},
            "decisions_of_claim",
            ("tenant_id", "route", "operation_id", "claim_id"),
        ),
        (
            "decisions_returned",
            {"partitions": [0], "numbers": [1], "offsets": [2]},
            "decisions_pkey",
            ("partition", "number"),
        ),
    ],
)
def test_a_look_up_of_a_turn_goes_by_its_whole_key_while_the_tables_are_new(
    database: PostgresSettings, name: str, parameters: dict[str, Any], index: str, columns: tuple[str, ...]
) -> None:
    """The plan is made when nothing is known of the tables, and kept while they fill: until they are analyzed."""
    store = Store(database)
    try:
        plan = [row[0] for row in store._connection.execute(f"EXPLAIN {statement(name)}", parameters).fetchall()]  # type: ignore[arg-type]
    finally:
        store.close()
    condition = plan[next(number for number, line in enumerate(plan) if f"using {index} " in line) + 1]
    assert "Index Cond" in condition
    for column in columns:
        assert f"({column} = " in condition


@pytest.fixture
def filled(database: PostgresSettings) -> PostgresSettings:
    """Tables large enough that scanning them is not the better plan."""
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO operations (tenant_id, route, operation_id, partition, first_offset, last_offset, state, version,"
            " frozen, final, body, due_at_ms)"
            " SELECT 't-' || n % 10, 'op-' || n, 'op-' || n, n % 12, n, n, 'confirmed', 3, false, false, '',"
            " CASE WHEN n % 500 = 0 THEN n END FROM generate_series(1, 20000) AS n"
        )
        connection.execute(
            "INSERT INTO routes (tenant_id, route, partition, last_offset, group_state, version, body)"
            " SELECT 't-' || n % 10, 'op-' || n, n % 12, n, 'open', 1, '' FROM generate_series(1, 20000) AS n"
        )
        connection.execute(
            "INSERT INTO events (partition, log_offset, event_id, tenant_id, route, operation_id, type, accepted, digest, value)"
            " SELECT n % 12, n, n::text, 't-' || n % 10, 'op-' || n, 'op-' || n, 'dispatch_granted', true, '', ''"
            " FROM generate_series(1, 20000) AS n"
        )
        connection.execute(
            "INSERT INTO decisions (partition, number, tenant_id, route, operation_id, claim_id, event_id, type, decided_at_ms,"
            " value, returned_offset) SELECT n % 12, n, 't-' || n % 10, 'op-' || n, 'op-' || n, n::text, n::text,"
            " 'dispatch_granted', 0, '', n FROM generate_series(1, 20000) AS n"
        )
        connection.execute("ANALYZE")
    return database


def test_migrations_apply_once_and_go_back_without_a_trace(fresh_database: str) -> None:
    settings = PostgresSettings(url=fresh_database)
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name NOT LIKE '%%yoyo%%'"
    applied = migrate(settings)
    assert applied
    assert migrate(settings) == ()
    assert rows(settings, tables) > [(8,)]
    assert roll_back(settings) == tuple(reversed(applied))
    assert rows(settings, tables) == [(0,)]
    assert migrate(settings) == applied


@pytest.mark.usefixtures("worked")
def test_verify_of_a_sample_and_of_what_is_new_finds_what_lies_in_it_and_leaves_the_rest(
    log_settings: KafkaSettings, database: PostgresSettings, driver: Driver
) -> None:
    whole = verify(log_settings, database, processes=2, held_max=1)  # every state goes through a file
    assert (whole.equal, whole.differences) == (True, ())
    one, same = (verify(log_settings, database, asked=Asked(share=0.5), seed="a") for _ in range(2))
    other = verify(log_settings, database, asked=Asked(share=0.5), seed="b", held_max=1)
    assert one == same
    assert one.equal
    assert other.equal
    assert 0 < one.operations < whole.operations
    assert 0 < one.events < whole.events

    # What a sample leaves out, it does not see; what it takes, it does: the log and the tables draw alike.
    drawn = sample(0.5, "a")
    names = [row[0] for row in rows(database, "SELECT operation_id FROM operations WHERE group_id IS NULL")]
    inside = next(name for name in names if drawn.takes(TENANT, name))
    outside = next(name for name in names if not drawn.takes(TENANT, name))
    rows(database, f"UPDATE operations SET tool = 'x' WHERE operation_id = '{outside}' RETURNING 1")
    assert verify(log_settings, database, asked=Asked(share=0.5), seed="a").equal
    rows(database, f"UPDATE operations SET version = 99 WHERE operation_id = '{inside}' RETURNING 1")
    found = verify(log_settings, database, asked=Asked(share=0.5), seed="a").differences
    assert [(each.operation_id, each.field, each.database) for each in found] == [(inside, "version", "99")]

    # What was found equal before is not looked at again; what changed since is, whole.
    assert verify(log_settings, database, since=whole.until).equal
    with running(log_settings, database):
        driver.perform("op-new")
        driver.append(driver.prepared(outside, None, request_hash="h9"))
        wait_for_end(log_settings, database)
    rows(database, f"UPDATE operations SET last_offset = -1 WHERE operation_id = '{outside}' RETURNING 1")
    after = verify(log_settings, database, since=whole.until)
    assert {each.operation_id for each in after.differences} == {outside}
    assert {each.field for each in after.differences} == {"last_offset"}
    assert after.operations == 2
    assert after.since == {part: offset for part, offset in whole.until.items() if offset}
    rows(database, "UPDATE operations SET last_offset = last_offset + 1 WHERE operation_id = 'op-new' RETURNING 1")
    late = {each.operation_id: each.field for each in verify(log_settings, database, since=after.until).differences}
    assert "op-new" not in late  # it only says that it changes where nothing was read yet
    assert "op-new" in {each.operation_id for each in verify(log_settings, database, since=whole.until).differences}


@pytest.mark.usefixtures("worked")
def test_the_command_verify_remembers_what_was_equal_and_says_what_drew_its_sample(
    log_settings: KafkaSettings, database: PostgresSettings, tmp_path: Path
) -> None:
    state = tmp_path / "verified.json"
    first = landed("verify", "--state", str(state), "--processes", "2", on=(log_settings, database))
    assert (first.returncode, "nothing is remembered" in first.stderr) == (0, True)
    again = landed("verify", "--state", str(state), "--sample", "100%", "--seed", "a", "-o", "json", on=(log_settings, database))
    said = json.loads(again.stdout)
    assert (again.returncode, said["seed"], said["operations"]) == (0, "a", 14)
    rows(database, "UPDATE operations SET state = 'rejected' WHERE operation_id = 'op-2' RETURNING 1")
    kept = state.read_bytes()
    found = landed("verify", "--state", str(state), "--sample", "100%", "--every", "1", on=(log_settings, database))
    assert (found.returncode, "1 difference" in found.stdout, "--seed" in found.stdout) == (1, True, True)
    assert state.read_bytes() == kept
    state.write_text("no such file")
    assert landed("verify", "--state", str(state), on=(log_settings, database)).returncode == 2
    assert state.read_text() == "no such file"
