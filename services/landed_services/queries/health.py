"""Is the ledger well? Broker, topic settings, schema registry, tables, positions, lag, clocks, outbox, refused records and writer
keys.

Each check answers with what is so and what to do; a check that cannot be made says why, and the others go on. Reads only.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from landed.adapters.embedded import Finding, Level
from landed.adapters.kafka import KafkaSettings, LogError, LogReader, SchemaRegistry, TopicFacts, check_replies, check_topic
from landed.adapters.kafka.registry import Registered
from landed.adapters.postgres import DatabaseError, PostgresSettings, check_schema, connect
from landed.adapters.postgres.statements import statement
from landed.core.events import Entry
from landed.wire.records import read
from landed.wire.registry import RegistrySettings

LAG_RECORDS_MAX: Final = 10_000
"""Records behind the end of the log from which callers wait noticeably."""
CLOCK_SKEW_MAX_MS: Final = 2_000
DOUBT_MAX_MS: Final = 3_600_000
UNTOLD_MAX_MS: Final = 600_000
STANDS_MS: Final = 30_000
LOOK_AGAIN_S: Final = 1.5
STANDING_ADVICE: Final = (
    "start a projector: landed projector. If one runs, its log says why, with that partition and offset (partition_stopped, "
    "records_misplaced, projector_pauses): docs/operations.md, 'A partition that stands still'"
)
SAMPLE: Final = 200
"""Newest records of each partition that are read for the check of keys and readability."""


def ledger_findings(log: KafkaSettings, database: PostgresSettings) -> tuple[Finding, ...]:
    """One finding or more for each check, also when all is well. Takes seconds, never hangs."""
    found: list[Finding] = []
    facts = _checked(found, "topic", lambda: check_topic(log, timeout_s=5.0), "LANDED_KAFKA_BOOTSTRAP and LANDED_TOPIC say where")
    if facts is not None:
        found.append(_topic(facts))
        replies = _checked(found, "replies topic", lambda: check_replies(log, timeout_s=5.0), "landed topics create")
        if replies is not None:
            found.append(_topic(replies, "replies topic"))
    ends: dict[int, int] | None = None
    if facts is not None:
        reader = _checked(found, "log", lambda: LogReader(log, connect_timeout_s=5.0), "see the broker's own log")
        if reader is not None:
            try:
                ends = _checked(found, "log", reader.end_offsets, "see the broker's own log")
                if ends is not None:
                    found += _records(log, reader, ends)
            finally:
                reader.close()
    if log.registry is not None:
        settings = log.registry
        held = _checked(found, "schema registry", lambda: _held(settings, log.topic), "writers do not start until it answers")
        if held is not None:
            found.append(_registry(settings.url, held))
    connection = _checked(found, "database", lambda: connect(database), "is it up? (LANDED_DATABASE_URL)")
    if connection is not None:
        with connection:
            found += _view(database, connection, facts, ends)
    return tuple(found)


def _checked(found: list[Finding], check: str, look: Callable[[], Any], advice: str) -> Any:
    try:
        return look()
    except (LogError, DatabaseError) as error:
        found.append(Finding(check=check, level=Level.PROBLEM, what=str(error), advice=advice))
        return None


def _finding(check: str, level: Level, what: str, advice: str = "") -> Finding:
    return Finding(check=check, level=level, what=what, advice=advice if level is not Level.OK else "")


def _topic(facts: TopicFacts, check: str = "topic") -> Finding:
    if facts.problems:
        advice = "the guarantees do not hold on these settings: set them with the broker's tools"
        return _finding(check, Level.PROBLEM, f"{facts.topic}: {'; '.join(facts.problems)}", advice)
    return _finding(check, Level.OK, f"{facts.topic}: {facts.partitions} partitions, settings as they must be")


def _held(settings: RegistrySettings, topic: str) -> list[Registered]:
    with closing(SchemaRegistry(settings, topic)) as registry:
        return registry.check()


def _registry(url: str, held: list[Registered]) -> Finding:
    wrong = Counter(one.problem for one in held if one.problem)
    if not wrong:
        return _finding(
            "schema registry", Level.OK, f"{url} holds the {len(held)} schemas of this release, compatibility as it must be"
        )
    shown = "; ".join(f"{number} {problem}" for problem, number in sorted(wrong.items()))
    return _finding(
        "schema registry",
        Level.PROBLEM,
        f"{url}, of {len(held)} schemas: {shown}",
        "landed schemas check; landed schemas register",
    )


def _records(log: KafkaSettings, reader: LogReader, ends: dict[int, int]) -> list[Finding]:
    """Newest records: can they be read, are they signed by a known key, how far is this machine's clock from the log's."""
    begins = reader.beginning_offsets()
    starts = {partition: max(begins[partition], end - SAMPLE) for partition, end in ends.items() if end > begins[partition]}
    if not starts:
        return [_finding("records", Level.OK, "the log is empty")]
    reader.assign(starts)
    left, reasons, newest, count = set(starts), Counter[str](), 0, 0
    deadline = time.monotonic() + 5.0
    while left and time.monotonic() < deadline:
        for record in reader.poll(1_000, 0.2):
            what = read(record, ring=log.ring, partitions=reader.partitions)
            count += 1
            newest = max(newest, record.timestamp_ms or 0)
            if not isinstance(what, Entry):
                reasons[str(what.reason)] += 1
            if record.offset + 1 >= ends[record.partition]:
                left.discard(record.partition)
    found = []
    if reasons:
        shown = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
        macs = any(reason.startswith("mac_") for reason in reasons)
        advice = (
            "a writer signs with a key that is not among LANDED_WRITER_KEY and LANDED_TRUSTED_KEYS" if macs else "landed refused"
        )
        found.append(_finding("records", Level.PROBLEM, f"of the newest {count}: {shown}", advice))
    else:
        signed = "signed and " if log.ring.mandatory else ""
        found.append(_finding("records", Level.OK, f"the newest {count} are {signed}readable"))
    if not log.ring.mandatory:
        advice = "set LANDED_WRITER_KEY_ID and LANDED_WRITER_KEY for every writer: then nobody else's records are taken"
        found.append(_finding("writer keys", Level.NOTE, "none is set: anybody who reaches the broker can append", advice))
    else:
        found.append(_finding("writer keys", Level.OK, "every record must carry a right MAC"))
    if newest - time.time_ns() // 1_000_000 > CLOCK_SKEW_MAX_MS:
        ahead = (newest - time.time_ns() // 1_000_000) / 1000
        found.append(
            _finding("clock", Level.PROBLEM, f"the broker's clock is {ahead:.1f} s ahead of this machine's", "set both by NTP")
        )
    return found


def _view(database: PostgresSettings, connection: Any, facts: TopicFacts | None, ends: dict[int, int] | None) -> list[Finding]:
    found: list[Finding] = []
    try:
        check_schema(database, connection)
    except DatabaseError as error:
        return [_finding("tables", Level.PROBLEM, str(error), "landed migrate")]
    found.append(_finding("tables", Level.OK, f"{database.shown}: as this release needs them"))
    row = connection.execute(statement("health")).fetchone()
    now_ms, outbox, refused, oldest_doubt_ms, reviews, waiting, oldest_waiting_ms, given_up, unmatched = row
    found.append(_clock(now_ms))
    found.append(_positions(connection, facts, ends))
    level = Level.NOTE if outbox > 1_000 else Level.OK
    found.append(_finding("outbox", level, f"{outbox} decisions on their way", "is a projector running? they are appended by it"))
    level = Level.NOTE if refused else Level.OK
    advice = "docs/operations.md, 'Refused records'; a MAC reason means a wrong key or a stranger"
    found.append(_finding("refused records", level, f"{refused} in all", advice))
    doubt_ms = 0 if oldest_doubt_ms is None else now_ms - oldest_doubt_ms
    level = Level.NOTE if doubt_ms > DOUBT_MAX_MS else Level.OK
    what = "nothing" if oldest_doubt_ms is None else f"the oldest for {doubt_ms / 1000:.0f} s"
    found.append(_finding("in doubt", level, what, "is a reconciler running with the tools of these operations?"))
    found.append(
        _finding("reviews", Level.NOTE if reviews else Level.OK, f"{reviews} wait for a person", "somebody has to decide")
    )
    found.append(_notifications(waiting, 0 if oldest_waiting_ms is None else now_ms - oldest_waiting_ms, given_up))
    level = Level.NOTE if unmatched else Level.OK
    advice = "landed news list: is a claim missing, or does an endpoint name the wrong tools?"
    found.append(_finding("news", level, f"{unmatched} match no operation as yet", advice))
    return found


def _notifications(waiting: int, oldest_ms: int, given_up: int) -> Finding:
    if waiting and oldest_ms > UNTOLD_MAX_MS:
        what = f"{waiting} wait, the oldest for {oldest_ms / 1000:.0f} s"
        advice = "is a notifier running, and does the receiver answer? landed notifications list --state waiting"
        return _finding("notifications", Level.NOTE, what, advice)
    level = Level.NOTE if given_up else Level.OK
    what = f"{waiting} wait, {given_up} given up"
    return _finding("notifications", level, what, "nobody was told: landed notifications list --state given_up")


def _clock(database_ms: int) -> Finding:
    skew_ms = database_ms - time.time_ns() // 1_000_000
    if abs(skew_ms) > CLOCK_SKEW_MAX_MS:
        what = f"the database's clock is {skew_ms / 1000:+.1f} s off this machine's"
        return _finding("clock", Level.PROBLEM, what, "decisions use the database's clock, leases the log's: set all by NTP")
    return _finding("clock", Level.OK, f"database and this machine differ by {abs(skew_ms)} ms")


def _positions(connection: Any, facts: TopicFacts | None, ends: dict[int, int] | None) -> Finding:
    rows = connection.execute(statement("positions")).fetchall()
    if not rows:
        return _finding("positions", Level.PROBLEM, "no partition was ever folded", "start a projector: landed projector")
    if facts is not None and any(row[2] != facts.topic_id for row in rows):
        what = "the topic is another one than the tables were folded from"
        return _finding("positions", Level.PROBLEM, what, "docs/operations.md, 'The log does not continue'")
    if ends is None:
        return _finding("positions", Level.NOTE, f"{len(rows)} partitions; the log's end is not known", "see the broker")
    lag = {row[0]: ends.get(row[0], 0) - row[3] for row in rows}
    behind, worst = sum(max(0, one) for one in lag.values()), max(lag, key=lambda one: lag[one])
    if min(lag.values()) < 0:
        ahead = min(lag, key=lambda one: lag[one])
        what = f"partition {ahead}: the tables are {-lag[ahead]} records ahead of the log"
        return _finding("positions", Level.PROBLEM, what, "docs/operations.md, 'The log does not continue'")
    missing = len(ends) - len(rows)
    if missing > 0:
        what = f"{missing} of {len(ends)} partitions were never folded"
        return _finding("positions", Level.PROBLEM, what, "start a projector: landed projector")
    stuck = _standing(connection, ends)
    if stuck:
        return _finding("positions", Level.PROBLEM, "; ".join(stuck), STANDING_ADVICE)
    level = Level.NOTE if behind > LAG_RECORDS_MAX else Level.OK
    return _finding("positions", level, f"{behind} records behind, most on partition {worst}", "is a projector running?")


def _standing(connection: Any, ends: dict[int, int]) -> list[str]:
    """Partitions that do not move though records wait there: looked at twice, since a record may have come just now."""
    found: list[str] = []
    for look in range(2):
        rows = connection.execute(statement("standing")).fetchall()
        found = [
            f"partition {one} stands at offset {offset} for {still_ms / 1000:.0f} s though {ends[one] - offset} records wait"
            for one, offset, still_ms in sorted(rows)
            if still_ms > STANDS_MS and ends.get(one, 0) > offset
        ]
        if not found:
            break
        if look == 0:
            time.sleep(LOOK_AGAIN_S)
    return found
