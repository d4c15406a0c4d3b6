"""What befalls log and view in a case: retention, erasure, snapshots, positions that go back, rows that are lost."""

from typing import Any, Final

from landed.adapters.memory import Tables
from landed.core import events as ev
from landed.core.events import Entry
from landed.testing.cases.appending import unreadable
from landed.testing.cases.loading import Step, expanded
from landed.testing.cases.people import OPERATOR
from landed.testing.cases.world import Known, World
from landed.wire.ids import with_event_id


class Installation:
    """Log and view of one case."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._snapshots: dict[str, Tables] = {}
        self._prune_mark = 0
        self._lost: list[Entry] = []
        """The log before it lost records."""
        self._kept = 0
        self.transactions: Final = set[str]()
        """Of writers at the log, open: what was appended in one is never seen unless it is committed."""
        self._unread: Final[dict[int, str]] = {}
        """Places of records that cannot be applied, and whose they are."""
        self._of_schema: Final[dict[int, int]] = {}
        """Those of them that a later release can read, with its number."""
        self._release = 1

    def retire(self, known: Known, *, erased: bool) -> None:
        """The operation's final record is appended, then all else of it is taken from the log."""
        operation = self._world.operation(known)
        kind = ev.OperationErased if erased else ev.OperationRetired
        event = kind(
            event_id="",
            tenant_id=known.tenant_id,
            route=known.route,
            operation_id=known.operation_id,
            group_id=known.group_id,
            actor=OPERATOR,
            seen_version=operation.version,
            final_state=operation.state,
            keyed_hash=operation.request_hash or "",
            attempts=operation.attempts_counted,
        )
        self._world.append(with_event_id(event))
        ledger = self._world.ledger
        if not self._world.operation(known).final:
            return  # not settled: it is kept, whoever asks
        kept = [e for e in ledger.entries() if e.event.operation_id != known.operation_id or isinstance(e.event, kind)]
        self._prune_mark = max(self._prune_mark, ledger.tables.next_offset)
        ledger.replace_log(kept)
        self._world.log_was_cut = True

    def erase(self, step: Step) -> None:
        for known in list(self._world.known.values()):
            if known.fields.get("subject") == step.get("subject"):
                self.retire(known, erased=True)

    def prune(self, step: Step) -> None:
        for op in step.ops:
            known = self._world.find(op)
            if known is not None:
                self.retire(known, erased=False)

    def snapshot(self, step: Step) -> None:
        self._snapshots[step.get("name")] = self._world.ledger.tables.copy()

    def restore(self, step: Step) -> None:
        """The database is put back. One that is older than what was pruned is not continued: the log is folded anew."""
        tables = self._snapshots.get(step.get("name"))
        if tables is None:  # of before the story: it holds nothing of it
            tables = Tables()
        if tables.next_offset < self._prune_mark:
            self._world.notes.append(f"{step.at:g} s: the snapshot is older than the prune mark: rebuilt from the log")
            self.rebuild()
        else:
            self._world.ledger.restore(tables)

    def rebuild(self) -> None:
        """The view is dropped and the log folded from the beginning: nothing follows from what was decided before."""
        self._world.ledger.rebuild()

    def read_again(self, back_s: float | None) -> None:
        """The position goes back: what was read is read again."""
        ledger = self._world.ledger
        since_ms = 0 if back_s is None else self._world.timeline.now_ms() - round(back_s * 1000)
        offsets = [entry.position.offset for entry in ledger.entries() if entry.at_ms >= since_ms]
        tables = ledger.tables.copy()
        tables.next_offset = min([tables.next_offset, *offsets[:1]])
        ledger.restore(tables)

    def truncate(self, step: Step) -> None:
        """The log loses its end, or all about some operations; a view that has seen more than the log stops loudly."""
        ledger, cut = self._world.ledger, step.get("cut_after")
        lost = self._ids(step.get("lost_ops", ()))
        whole = list(ledger.entries())
        kept = [
            entry for entry in whole if (cut is None or entry.position.offset <= cut) and (entry.event.operation_id not in lost)
        ]
        if len(kept) == len(whole):
            return
        self._world.notes.append(f"{step.at:g} s: the log ends before the position: stopped until repaired")
        self._world.hold("truncated")
        self._lost = self._lost or whole
        self._kept = len(kept)
        ledger.replace_log(kept)
        self._world.log_was_cut = True

    def repair(self, step: Step) -> None:
        """The missing records are brought back to their places; what was appended meanwhile follows them."""
        if self._lost:
            meanwhile = self._world.ledger.entries()[self._kept :]
            self._world.ledger.replace_log(self._lost)
            self._lost, self._world.log_was_cut = [], False
            for entry in meanwhile:
                self._world.append(entry.event)
        self._world.release("truncated")
        self._read_again(set(step.ops))

    # ---- records that cannot be applied ----------------------------------------------------------------------------------

    def append(self, events: tuple[ev.Event, ...], step: Step) -> None:
        """Appends what somebody says; in a transaction that is open nobody ever reads it."""
        if str(step.get("tx")) in self.transactions:
            return
        ledger = self._world.ledger
        if not unreadable(step, self._release):
            for event in events:
                self._world.append(event)
            return
        place = max((entry.position.offset for entry in ledger.entries()), default=-1) + 1
        schema = step.get("schema")
        if isinstance(schema, int):
            self._of_schema[place] = schema
        self._set_aside([place], str(step.get("op")))
        self._world.append(events[-1])

    def park(self, step: Step) -> None:
        """Records of an operation are set aside: the named ones by their number among its own, else the newest."""
        for op in step.ops:
            known = self._world.find(op)
            own = [
                entry.position.offset
                for entry in self._world.ledger.entries()
                if known is not None
                and (entry.event.tenant_id, entry.event.operation_id) == (known.tenant_id, known.operation_id)
            ]
            versions = step.get("versions", [step.get("version", len(own))])
            self._set_aside([own[number - 1] for number in versions if 0 < number <= len(own)], op)
        self._fold_anew()

    def replay_parked(self, step: Step) -> None:
        """What was set aside is applied, in the order of the log, whatever order somebody asks for."""
        self._read_again(set(step.ops))

    def upgrade(self, step: Step) -> None:
        """A release that reads more, perhaps, folds the log anew."""
        schema = step.get("schema", step.get("version"))
        self._release = max(self._release, schema) if isinstance(schema, int) else self._release
        for place in [place for place, wanted in self._of_schema.items() if wanted <= self._release]:
            self._unread.pop(place, None)
        self._fold_anew()

    def _set_aside(self, places: list[int], op: str) -> None:
        self._unread.update(dict.fromkeys(places, op))
        self._world.ledger.unreadable = frozenset(self._unread)

    def _read_again(self, ops: set[str]) -> None:
        if not self._unread:
            return
        for place in [place for place, op in self._unread.items() if not ops or op in ops]:
            del self._unread[place]
        self._fold_anew()

    def _fold_anew(self) -> None:
        self._world.ledger.unreadable = frozenset(self._unread)
        self.rebuild()

    def fail_over(self, step: Step) -> None:
        """A replica takes over that lacks the newest rows: positions are in the same rows, so it reads again what it lacks."""
        lost, ledger = self._ids(step.get("lost_ops", ())), self._world.ledger
        first = next((entry.position.offset for entry in ledger.entries() if entry.event.operation_id in lost), None)
        if first is not None:
            ledger.rebuild(before=first)

    def _ids(self, ops: Any) -> set[str]:
        names = [name for one in ops for name in expanded(one)]
        return {self._world.known[name].operation_id for name in names if name in self._world.known}
