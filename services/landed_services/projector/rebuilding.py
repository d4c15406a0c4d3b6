"""`landed rebuild`: drops the view and folds the log from its beginning."""

import threading
import time
from typing import Final

import msgspec

from landed.adapters.kafka import KafkaSettings, check_topic
from landed.adapters.postgres import DatabaseUnreachable, PostgresSettings, connect, translated
from landed.adapters.postgres.statements import statement
from landed_services.projector.errors import ProjectorError
from landed_services.projector.loop import Projector

LOCK_WAIT_S: Final = 10


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    operations: int
    seconds: float


def rebuild(log_settings: KafkaSettings, database: PostgresSettings) -> Rebuilt:
    """Drops the view and folds it anew from the beginning of the log, without deciding before its end is reached.

    A projector that runs meanwhile notices at its next transaction that it owns nothing any more, and ends. Decisions that are on
    their way stay in the outbox and are appended.

    Raises:
        ProjectorError, LogError, DatabaseError: as `Projector.run`.
    """
    began = time.monotonic()
    drop_the_view(database, topic_id=check_topic(log_settings).topic_id)
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
