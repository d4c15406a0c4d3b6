"""The real log as every case reads it: one thread reads it, each case folds the events of its own tenants."""

import threading
from collections.abc import Callable

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.adapters.memory import MemoryLedger
from landed.core.events import Entry, Event
from landed.ports import Clock
from landed.wire.records import read


class FollowedLedger(MemoryLedger):
    """A ledger that only reads: entries of the real log, folded as they come; the real projector decides."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        super().hold()

    def follow(self, entry: Entry) -> None:
        """Folds the next entry of a tenant; those of one route come in the order of the log."""
        with self._lock:
            self._entries.append(entry)
            self._projector.turn([entry], _nothing_follows, decides=False)

    def resume(self) -> None:
        """The real projector goes on by itself."""

    def hold(self) -> None:
        """Nothing that a case does holds it."""


class Follower:
    """Reads the log from where it begins; hands every entry to whoever knows its tenant."""

    def __init__(self, settings: KafkaSettings, take: Callable[[Entry], None]) -> None:
        self._settings = settings
        self._take = take
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="landed-cases-follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        reader = LogReader(self._settings)
        try:
            reader.assign(reader.beginning_offsets())
            while not self._stop.is_set():
                for record in reader.poll(1_000, 0.05):
                    entry = read(record, ring=self._settings.ring, partitions=reader.partitions)
                    if isinstance(entry, Entry):
                        self._take(entry)
        finally:
            reader.close()


def _nothing_follows(event: Event) -> Entry:
    raise AssertionError("a ledger that follows decides nothing")
