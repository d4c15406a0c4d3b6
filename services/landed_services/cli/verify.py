"""``landed verify``: whether the tables are the fold of the log, once or again and again."""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from ._exit import CommandFailed, Exit, require
from ._output import Format, counted, note, print_value
from ._progress import progress
from ._settings import database_settings, ledger_servers, log_settings

if TYPE_CHECKING:
    from landed.adapters.kafka import KafkaSettings
    from landed.adapters.postgres import PostgresSettings
    from landed_services.projector.sampling import Asked
    from landed_services.projector.verifying import Report

SHOWN = 20
EVERY_MIN_S = 1.0

Sampled = Annotated[
    str | None, Parameter(name="--sample", help="Only some groups, drawn: 5%, or 1000 operations (about that many).")
]
Seed = Annotated[str | None, Parameter(name="--seed", help="Draws the same sample again.")]
Processes = Annotated[int | None, Parameter(name="--processes", help="How many share the partitions; else one a processor.")]
State = Annotated[Path | None, Parameter(name="--state", help="Remember in this file; compare what is new, and the sample.")]
Every = Annotated[float | None, Parameter(name="--every", help="Again after so many seconds, until something differs.")]


def verify(
    *,
    sample: Sampled = None,
    seed: Seed = None,
    processes: Processes = None,
    state: State = None,
    every: Every = None,
    output: Format = "text",
) -> int:
    """Fold the log anew and compare with the tables, byte by byte. Changes nothing; a projector may run meanwhile.

    Exit code 0: equal. 1: they differ; each difference names operation, offset and both values. 3: nobody has folded this log,
    or it is another one. 4: the log or the database could not be read to the end.

    For example:

        landed verify

        landed verify --sample 5%

        landed verify --state verified.json --sample 1% -o json

        landed verify --state verified.json --sample 1% --every 3600
    """
    from landed_services.projector.sampling import asked

    try:
        drawn = None if sample is None else asked(sample)
    except ValueError as error:
        raise CommandFailed(f"--sample: {error}", Exit.USAGE) from error
    require("--seed", seed is None or drawn is not None, "draws a sample: say --sample as well")
    require("--processes", processes is None or processes >= 1, "must be at least 1")
    require("--every", every is None or every >= EVERY_MIN_S, f"must be at least {EVERY_MIN_S:g} second")
    from landed_services.collecting import collect_rarely

    collect_rarely()
    servers = ledger_servers()
    log, database = log_settings(servers, client_id="landed-verify"), database_settings(servers)
    rounds = 0
    while True:
        # A fixed seed draws another sample in each round, in the same order again.
        named = None if seed is None else seed if every is None else f"{seed}.{rounds}"
        report = _round(log, database, drawn, named, processes, state)
        _show(report, output)
        if every is None or not report.equal:
            return Exit.DONE if report.equal else Exit.FOUND
        rounds += 1
        time.sleep(every)


def _round(
    log: KafkaSettings,
    database: PostgresSettings,
    asked: Asked | None,
    seed: str | None,
    processes: int | None,
    state: Path | None,
) -> Report:
    from landed.adapters.kafka import check_topic
    from landed_services.projector.verified import Remembered, remember, remembered
    from landed_services.projector.verifying import verify as compare

    topic = check_topic(log)
    release, since = version("landed"), None
    if state is not None:
        try:
            known = remembered(state, release=release, topic_id=topic.topic_id)
        except ValueError as error:
            raise CommandFailed(f"--state: {state} {error}", Exit.USAGE) from error
        except OSError as error:
            raise CommandFailed(f"--state: {state}: {error.strerror or error}", Exit.USAGE) from error
        if known is None:
            note(f"{state}: nothing is remembered of this topic and release, so all is compared")
            asked = None
        else:
            since = known.until
    begun_ms = time.time_ns() // 1_000_000
    with progress() as say:
        report = compare(
            log,
            database,
            asked=asked,
            seed=seed if asked is not None else None,
            since=since,
            processes=processes,
            say=say,
        )
    if state is not None and report.equal:
        try:
            remember(state, Remembered(release=release, topic_id=topic.topic_id, at_ms=begun_ms, until=report.until))
        except OSError as error:
            raise CommandFailed(f"--state: {state}: cannot be written: {error.strerror or error}", Exit.SETUP) from error
    return report


def _show(report: Report, output: Format) -> None:
    if output != "text":
        print_value(msgspec.to_builtins(report), output)
        sys.stdout.flush()
        return
    for difference in report.differences[:SHOWN]:
        print(difference)
    if report.differences_total > SHOWN:
        print(f"… and {report.differences_total - SHOWN} more; -o json lists them")
    what = []
    if report.since:
        what.append("what is new")
    if report.seed is not None:
        what.append(f"{report.share:.4%} of the groups (--seed {report.seed})".replace(".0000%", "%"))
    answer = "equal" if report.equal else counted(report.differences_total, "difference")
    print(f"{report.partitions} partitions, {report.events} events, {report.operations} operations: {answer}")
    if what:
        print(f"Compared: {' and '.join(what)}")
    sys.stdout.flush()
