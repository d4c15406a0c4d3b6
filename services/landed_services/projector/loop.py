"""The projector: a session after the other until it is stopped.

Whatever fails on the way (a broken connection, a broker that does not acknowledge) ends the session, and the next one starts from
the positions in the database. Several projectors share the partitions: when the shares change, a session writes what it has,
gives up what is not its own any more, and the next one starts with what is.

Source: docs/architecture.md §3.
"""

import threading
import time
from contextlib import ExitStack, closing
from typing import Final, Self

from landed.adapters.kafka import (
    KafkaEventLog,
    KafkaSettings,
    LogReader,
    LogTruncated,
    LogUnreachable,
    ReplySender,
    TopicUnfit,
    check_topic,
)
from landed.adapters.postgres import DatabaseUnreachable, PostgresSettings
from landed.ports.log import AppendFailed
from landed_services.metrics import Metrics
from landed_services.projector.errors import TakenOver
from landed_services.projector.membership import Membership
from landed_services.projector.session import Session
from landed_services.projector.store import Store
from landed_services.projector.telling import LOG
from landed_services.projector.watching import Watch

PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between sessions that fail one after the other."""


class Projector:
    """One projector of a ledger: of all its partitions, or of its share when others are there.

    Args:
        log_settings: the ledger's topics.
        database: where the view is; migrated before (`landed migrate`).
        name: shown in `positions` as the owner.
        metrics: where it tells what it does.
    """

    def __init__(
        self, log_settings: KafkaSettings, database: PostgresSettings, *, name: str = "projector", metrics: Metrics | None = None
    ) -> None:
        self._log_settings = log_settings
        self._database = database
        self._name = name
        self._watch = Watch(metrics or Metrics())
        self.caught_up = threading.Event()
        """Set while this projector decides on all that it owns, and every other partition has caught up too."""
        self.has_caught_up = False
        """Whether it ever did."""

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set, then ends after the batch at hand.

        Connections that break and a broker that does not answer are waited out; partitions that another projector took, because
        it heard nothing of this one, are left to it.

        Raises:
            LogReplaced: the log continues on no partition; says how to repair it. One of which that is true is only stopped.
            TopicUnfit: the topic is missing or has settings that the guarantees do not hold on.
            SchemaOutdated: the tables are not those of this release.
        """
        failures = 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                with (
                    # Connected first: the others give partitions up for whoever is there, and nobody should wait for it then.
                    _Clients(self._log_settings, self._database) as clients,
                    Membership(self._database, self._name) as membership,
                ):
                    while not stop.is_set():
                        self._session(stop, membership, clients)
            except (DatabaseUnreachable, LogUnreachable, AppendFailed, TakenOver, LogTruncated) as error:
                failures = 1 if time.monotonic() - began > PAUSES_S[-1] else failures + 1
                pause_s = PAUSES_S[min(failures, len(PAUSES_S)) - 1]
                self._watch.failed(error)
                LOG.warning("projector pauses", action="projector_pauses", error=str(error), pause_s=pause_s)
                stop.wait(pause_s)
            finally:
                self.caught_up.clear()

    def _session(self, stop: threading.Event, membership: Membership, clients: "_Clients") -> None:
        session = Session(
            self._log_settings,
            membership,
            self._watch,
            topic_id=clients.topic_id,
            store=clients.store,
            reader=clients.reader,
            event_log=clients.event_log,
            replies=clients.replies,
        )
        try:
            session.take_over(stop)
            while not stop.is_set() and session.has_its_share():
                session.turn()
                if session.all_ready:
                    self.has_caught_up = True
                    self.caught_up.set()
            session.give_up(all_=stop.is_set())
        finally:
            self.caught_up.clear()
            self._watch.gave_up()


class _Clients:
    """Connections to the log and the database. They serve one session after the other until something fails."""

    def __init__(self, log_settings: KafkaSettings, database: PostgresSettings) -> None:
        self._log_settings = log_settings
        self._database = database

    def __enter__(self) -> Self:
        facts = check_topic(self._log_settings)
        if facts.problems:
            raise TopicUnfit(f"topic {facts.topic!r}: {'; '.join(facts.problems)}")
        self.topic_id = facts.topic_id
        with ExitStack() as opened:
            self.store = opened.enter_context(closing(Store(self._database)))
            self.reader = opened.enter_context(closing(LogReader(self._log_settings)))
            known = self.store.partitions(self.reader.partitions, topic_id=self.topic_id)
            if known != self.reader.partitions:
                raise TopicUnfit(
                    f"topic {facts.topic!r} has {self.reader.partitions} partitions, the ledger began with {known}: a route "
                    "would stand on another partition than before. See docs/operations.md, 'The log does not continue'"
                )
            self.event_log = opened.enter_context(closing(KafkaEventLog(self._log_settings)))
            self.replies = opened.enter_context(closing(ReplySender(self._log_settings)))
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
