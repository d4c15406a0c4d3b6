"""`landed rebuild`: drops the view and folds the log from its beginning."""

import logging
import os
import threading
import time
from contextlib import closing
from typing import Any, Final

import msgspec
import structlog

from landed.adapters.kafka import KafkaSettings, LogError, LogReader, check_topic
from landed.adapters.postgres import DatabaseError, DatabaseUnreachable, PostgresSettings, connect, translated
from landed.adapters.postgres.statements import statement
from landed_services.progress import Say, Summed
from landed_services.projector.errors import ProjectorError, TakenOver
from landed_services.projector.helping import Helpers
from landed_services.projector.loop import Projector
from landed_services.projector.refolding import Share, refold

LOCK_WAIT_S: Final = 10
RECORDS_OF_A_PROCESS: Final = 20_000
"""Fewer are folded before another process is up."""

_LOG: Any = structlog.wrap_logger(
    logging.getLogger("landed.projector"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    operations: int
    seconds: float


def rebuild(
    log_settings: KafkaSettings, database: PostgresSettings, *, processes: int | None = None, say: Say | None = None
) -> Rebuilt:
    """Drops the view and folds it anew from the beginning of the log, without deciding before its end is reached.

    Several processes fold a share of the partitions each (`refolding`); then a projector of this one brings all to their end.

    A projector that runs meanwhile notices at its next transaction that it owns nothing any more, and ends. Decisions that are on
    their way stay in the outbox and are appended.

    Args:
        processes: how many fold; None: one for each processor, as far as the log is long enough to be worth their start.
        say: told how far it is, from several threads.

    Raises:
        ProjectorError, LogError, DatabaseError: as `Projector.run`.
    """
    began = time.monotonic()
    _fold_in_shares(log_settings, database, processes, say)
    stop, failed = threading.Event(), list[BaseException]()
    projector = Projector(log_settings, database, name="rebuild")

    def run() -> None:
        try:
            projector.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="landed-rebuild")
    thread.start()
    try:
        while thread.is_alive() and not projector.caught_up.wait(0.2):
            pass
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]
    if not projector.has_caught_up:
        raise ProjectorError("the rebuild was stopped before the end of the log")
    with connect(database) as connection, translated(database):
        row = connection.execute(statement("view_size")).fetchone()
    events, operations = row if row is not None else (0, 0)
    return Rebuilt(events=events, operations=operations, seconds=time.monotonic() - began)


def _fold_in_shares(log_settings: KafkaSettings, database: PostgresSettings, processes: int | None, say: Say | None) -> None:
    topic_id = check_topic(log_settings).topic_id
    with closing(LogReader(log_settings)) as reader:
        records, partitions = sum(end - begin for begin, end in reader.bounds().values()), reader.partitions
    of = processes or max(1, min(os.cpu_count() or 1, partitions, records // RECORDS_OF_A_PROCESS))
    told = Summed(records, say)
    with closing(Helpers(of - 1)) as helpers:
        drop_the_view(database, topic_id=topic_id)
        shares = [
            Share(log_settings=log_settings, database=database, topic_id=topic_id, index=index, of=of) for index in range(of)
        ]
        helpers.begin(shares[1:], told)
        try:
            refold(shares[0], threading.Event(), told=lambda done: told(0, done))
        except (LogError, DatabaseError, TakenOver) as error:
            # What is undone the projector does, or it meets the same and tells what to do.
            _LOG.warning("a share was not folded to its end", action="rebuild_share_failed", error=str(error))
        helpers.wait()


def drop_the_view(database: PostgresSettings, *, topic_id: str) -> None:
    """Empties all tables that are folded from the log, and puts the positions to the beginning of the topic *topic_id*.

    Raises:
        DatabaseUnreachable: a reader or another projector held one of them for too long.
    """
    try:
        with connect(database) as connection, translated(database), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'")
            connection.execute(statement("drop_the_view"))
            connection.execute(statement("reset_positions"), {"topic_id": topic_id})
            connection.execute(statement("forget_returned"))
            connection.execute(statement("forget_policies"))
    except DatabaseUnreachable as error:
        if "lock timeout" not in str(error):
            raise
        raise DatabaseUnreachable(f"{database.shown}: a table of the view was in use for {LOCK_WAIT_S} s; try again") from error
