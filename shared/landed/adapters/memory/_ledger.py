"""The in-memory ledger: a list as the log, and the core that the projector runs, in the append itself.

`append` puts the event at the end of the list and lets the projector make its turn: fold, decide the claim that the event
carries, put decisions and consequences behind it in the same way; only then is the verdict delivered, as the fold gave it. So
everything is settled when `append` returns, and the same appends give the same log.
"""

import hashlib
import threading
from concurrent.futures import Future
from typing import Final

from landed.adapters.memory._projector import MemoryProjector, Tables
from landed.adapters.system import SystemClock
from landed.core.events import Entry, Event, Position
from landed.core.state import Operation, Route
from landed.core.verdict import Verdict
from landed.ports import Appended, Clock, NothingAppended
from landed.wire.codec import encode
from landed.wire.errors import EncodeError


class MemoryLedger:
    """`ports.EventLog` and `ports.VerdictInbox` in one, with a read side. Safe to share between threads and ledgers.

    Policies, approvals and ceilings hold as the log says (`policy_changed`). Not here: reconciliation; a lease that runs out
    stays `dispatched`.

    Args:
        clock: append times; never goes back.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Final = clock or SystemClock()
        self._lock = threading.RLock()
        self._entries: list[Entry] = []
        self._projector = MemoryProjector(self._clock)
        self._waiting: dict[str, Future[Verdict]] = {}
        self._held = False

    # ---- ports --------------------------------------------------------------------------------------------------------

    def append(self, event: Event) -> Future[Appended]:
        acknowledged: Future[Appended] = Future()
        try:
            digest = hashlib.sha256(encode(event)).hexdigest()
        except EncodeError as error:
            acknowledged.set_exception(NothingAppended(str(error)))
            return acknowledged
        with self._lock:
            entry = self._put(event, digest)
            verdicts = self._turn()
        acknowledged.set_result(Appended(position=entry.position, at_ms=entry.at_ms))
        self._deliver(verdicts)
        return acknowledged

    @property
    def reply_to(self) -> str:
        return "memory"

    def expect(self, claim_id: str) -> Future[Verdict]:
        return self._waiting.setdefault(claim_id, Future())

    def forget(self, claim_id: str) -> None:
        self._waiting.pop(claim_id, None)

    def close(self, timeout_s: float = 0.0) -> None:
        """Keeps everything: the read side and other ledgers go on."""

    # ---- the projector ------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """The projector stops, as one that is down does: what is appended stays unread, and no claim is answered."""
        self._held = True

    def resume(self) -> None:
        """The projector reads on from where it stands, and decides what it finds."""
        with self._lock:
            self._held = False
            verdicts = self._turn()
        self._deliver(verdicts)

    @property
    def tables(self) -> Tables:
        """What the projector has made of the log: a copy is a snapshot."""
        return self._projector.tables

    @property
    def unreadable(self) -> frozenset[int]:
        """Offsets of records that cannot be decoded, for tests: each freezes its operation (§2). Counts for what is folded from
        then on; `rebuild` folds all again."""
        return self._projector.unreadable

    @unreadable.setter
    def unreadable(self, offsets: frozenset[int]) -> None:
        self._projector.unreadable = offsets

    def restore(self, tables: Tables) -> None:
        """Goes on with *tables*, older or of another time; the log is read on from where they stand."""
        with self._lock:
            self._projector.tables = tables.copy()
            verdicts = self._turn()
        self._deliver(verdicts)

    def copy(self, clock: Clock) -> "MemoryLedger":
        """A ledger of its own with the same log and view, read to the end; what happens to one does not show in the other."""
        other = MemoryLedger(clock)
        with self._lock:
            other._entries = list(self._entries)
            other.unreadable = self.unreadable
            other.restore(self.tables)
        return other

    def rebuild(self, *, before: int | None = None) -> None:
        """Drops what the projector holds and folds the log from its beginning: nothing is decided, and nothing follows anew.

        Args:
            before: offset up to which, else as far as it had read; what stands from there on is read as news.
        """
        with self._lock:
            end = self.tables.next_offset if before is None else before
            self._projector.rebuild([one for one in self._entries if one.position.offset < end])
            verdicts = self._turn()
        self._deliver(verdicts)

    def replace_log(self, entries: list[Entry]) -> None:
        """The log holds *entries* from now on, in order of their offsets: for retention, and for what operators do to a log."""
        with self._lock:
            self._entries = list(entries)

    # ---- read side ----------------------------------------------------------------------------------------------------

    def state(self, operation_id: str, *, tenant: str | None = None) -> Operation:
        """Present state of the operation; `State.NONE` where nothing is on the log.

        Raises:
            LookupError: several tenants have one of that name and none is given.
        """
        with self._lock:
            found = [
                route.operations[operation_id]
                for (tenant_id, _), route in self.tables.routes.items()
                if operation_id in route.operations and tenant in (None, tenant_id)
            ]
        if len(found) > 1:
            raise LookupError(f"{operation_id!r} is known under several tenants or routes: name the tenant")
        return found[0] if found else Operation(operation_id=operation_id)

    def route(self, route: str, *, tenant: str) -> Route:
        """Present state of a group, or of an operation without one."""
        return self.tables.route(tenant, route)

    def events(self, operation_id: str | None = None) -> tuple[Event, ...]:
        """Events of the operation in log order, refused ones too; of all operations and groups when none is named."""
        return tuple(entry.event for entry in self.entries() if operation_id in (None, entry.event.operation_id))

    def entries(self) -> tuple[Entry, ...]:
        """The whole log."""
        with self._lock:
            return tuple(self._entries)

    def refused(self) -> dict[int, str]:
        """Reason of each event that the fold refused, by offset."""
        with self._lock:
            return dict(self.tables.refused)

    @property
    def waiting(self) -> int:
        """Claims that somebody still waits for."""
        return len(self._waiting)

    # -------------------------------------------------------------------------------------------------------------------

    def _put(self, event: Event, digest: str | None = None) -> Entry:
        last = self._entries[-1] if self._entries else None
        at_ms = max(self._clock.now_ms(), last.at_ms if last is not None else 0)
        position = Position(partition=0, offset=0 if last is None else last.position.offset + 1)
        digest = digest or hashlib.sha256(encode(event)).hexdigest()
        entry = Entry(event=event, position=position, at_ms=at_ms, digest=digest)
        self._entries.append(entry)
        return entry

    def _turn(self) -> list[Verdict]:
        if self._held:
            return []
        # Offsets may have gaps: what retention took away is not there any more.
        unread: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.position.offset < self.tables.next_offset:
                break
            unread.append(entry)
        return self._projector.turn(reversed(unread), self._put)

    def _deliver(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            waiting = self._waiting.get(verdict.claim_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(verdict)
