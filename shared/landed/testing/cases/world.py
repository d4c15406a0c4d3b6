"""The world of one case: the log with what befalls it, the projector's turns, the workers, and who is who.

The log and the projector are the in-memory ledger, which runs the product's core; here is only what happens to them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from landed.adapters.memory import MemoryLedger
from landed.core import events as ev
from landed.core.contract import Contract
from landed.core.state import COMPENSATE, Operation, Route
from landed.core.vocabulary import Refusal
from landed.ports import Appended, EventLog, Ids, VerdictInbox
from landed.sdk.results import Refused, Result
from landed.testing.cases.contracts import OWN_ARGUMENT, contract_of, renews, word_of_news
from landed.testing.cases.loading import Case, arguments_in, expanded
from landed.testing.cases.processes import Counting, Process
from landed.testing.cases.provider import Provider, Subject
from landed.testing.cases.timeline import Timeline, Worker
from landed.wire.ids import with_event_id

TENANT: Final = "tenant"
AGENT: Final = "agent"
VERDICT_WAIT_S: Final = 5.0


class NotSupported(Exception):
    """The runner cannot play this; says which word and why."""


class Known(msgspec.Struct, kw_only=True):
    """An operation of the case: its name there, and its identity on the log."""

    op: str
    tenant_id: str
    group_id: str | None
    operation_id: str
    tool: str
    arguments: dict[str, Any]
    fields: dict[str, Any]
    """Words of the step that presented it, the newest for each."""

    @property
    def route(self) -> str:
        return self.operation_id if self.group_id is None else self.group_id


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one presentation was answered."""

    op: str
    asked_s: float
    at_s: float
    result: Result | None
    """None: the caller went away before there was an answer."""


class Broker:
    """The log as writers reach it: while it refuses writes clients try on, and what was sent keeps its order."""

    def __init__(self, log: EventLog, timeline: Timeline) -> None:
        self._log = log
        self._timeline = timeline
        self._until_s = 0.0
        self._waiting: list[tuple[ev.Event, Future[Appended]]] = []
        self.after: list[Callable[[], None]] = []
        """Called after each append: who watches the log."""
        self.defects: list[Exception] = []
        """What the product raised where it must not: a client takes it for a log out of reach, a case must not."""

    def append(self, event: ev.Event) -> Future[Appended]:
        if self._timeline.now_s >= self._until_s:
            done = self._appended(event)
            self._tell()
            return done
        future: Future[Appended] = Future()
        self._waiting.append((event, future))
        return future

    def close(self, timeout_s: float) -> None:
        """Keeps everything: other processes go on."""

    def refuse(self, until_s: float) -> None:
        self._until_s = max(self._until_s, until_s)
        self._timeline.at(until_s, self._open)

    def _open(self) -> None:
        if self._timeline.now_s < self._until_s:
            return
        waiting, self._waiting = self._waiting, []
        for event, future in waiting:
            future.set_result(self._appended(event).result())
        self._tell()

    def _appended(self, event: ev.Event) -> Future[Appended]:
        try:
            return self._log.append(event)
        except Exception as defect:
            self.defects.append(defect)
            raise

    def _tell(self) -> None:
        for callback in self.after:
            callback()


class World:
    """Everything that one case plays in."""

    def __init__(
        self,
        case: Case,
        *,
        timeline: Timeline | None = None,
        ledger: MemoryLedger | None = None,
        log: EventLog | None = None,
        inbox: VerdictInbox | None = None,
        ids: Ids | None = None,
        terms: Mapping[str, Any] | None = None,
        verdict_wait_s: float = VERDICT_WAIT_S,
    ) -> None:
        """
        Args:
            verdict_wait_s: how long callers wait for a verdict where the case does not say.
            timeline, ledger, log, inbox, ids: other ones than the simulated, for real time; *ledger* then follows *log*.
            terms: fields of every contract that are set beside what the case declares.
        """
        self.case: Final = case
        self.timeline: Final = timeline or Timeline()
        self.provider: Final = Provider(case, self.timeline)
        self.ledger: Final = ledger or MemoryLedger(self.timeline)
        self.broker: Final = Broker(log or self.ledger, self.timeline)
        self.inbox: Final[VerdictInbox] = inbox or self.ledger
        self.ids: Final[Ids] = ids or Counting()
        self._terms = terms or {}
        self._verdict_wait_s = verdict_wait_s
        self.known: Final[dict[str, Known]] = {}
        self.names: Final[dict[tuple[str, str], str]] = {}
        """Name in the case of each operation, by tenant and operation id."""
        self.told: Final[list[Told]] = []
        self.notes: Final[list[str]] = []
        """What befell the installation, with its time: what an operator sees beside the operations."""
        self.repeated: Final[Counter[Subject]] = Counter()
        """Requests that a transport repeated on its own, by operation."""
        self.log_was_cut = False
        """Retention, erasure or an accident took entries from the log."""
        self._workers: dict[str, Worker] = {}
        self._processes: dict[tuple[str, str], Process] = {}
        self._holds: set[str] = set()
        self._contracts: dict[str, Contract] = {}
        self._unrenewed = frozenset(tool for tool, declared in case.contracts.items() if not renews(declared))

    # ---- contracts ----------------------------------------------------------------------------------------------------

    def contract(self, tool: str) -> Contract:
        """Contract of *tool* as its author declared it."""
        if tool not in self._contracts:
            case = self.case
            arguments = {name for step in case.steps if self._of_tool(step.fields, tool) for name in _arguments(step.fields)}
            fields = {name for rule in case.rules if rule["tool"] in (tool, "*") for name in rule.get("value", {})}
            news = {
                word_of_news(step.fields["says"], step.get("status"))
                for step in case.steps
                if step.do == "webhook" and step.get("tool") == tool
            }
            made = contract_of(tool, case.contracts, arguments=arguments, answer_fields=fields, news=news)
            self._contracts[tool] = msgspec.structs.replace(made, **self._terms)
        return self._contracts[tool]

    def declared(self, tool: str) -> Mapping[str, Any]:
        """What the case says about *tool*; a tool without a contract of its own declared nothing."""
        return self.case.contracts.get(tool, {})

    def _of_tool(self, fields: Mapping[str, Any], tool: str) -> bool:
        named = fields.get("tool")
        if named is not None:
            return bool(named == tool)
        ops = [*([fields["op"]] if "op" in fields else []), *(n for one in fields.get("ops", ()) for n in expanded(one))]
        return any(step.get("tool") == tool for step in self.case.steps if set(step.ops) & set(ops))

    # ---- workers ------------------------------------------------------------------------------------------------------

    def worker(self, name: str) -> Worker:
        return self._workers.setdefault(name, Worker(name, self.timeline))

    def process(self, name: str, tenant_id: str) -> Process:
        """The SDK of the worker *name*; a crashed worker has a new one once it has started."""
        worker = self.worker(name)
        found = self._processes.get((name, tenant_id))
        if found is None or found.life != worker.life:
            found = self._processes[name, tenant_id] = Process(
                worker,
                self.broker,
                self.inbox,
                self.ids,
                tenant_id=tenant_id,
                wait_s=float(self.case.setting.get("verdict_wait_s", self._verdict_wait_s)),
                unrenewed=self._unrenewed,
            )
        return found

    def workers_of(self, name: str) -> list[Worker]:
        """The worker *name*; of a node also those of its threads."""
        return [self.worker(name), *(one for other, one in list(self._workers.items()) if other.startswith(f"{name}/"))]

    def crash(self, name: str) -> None:
        workers = self.workers_of(name)
        for (node, _), process in list(self._processes.items()):
            if any(node == worker.name for worker in workers):
                process.die()
        for worker in workers:
            worker.crash()

    def end(self) -> None:
        """Nobody acts any more: who still waits for a person or for a verdict goes away unheard."""
        for process in self._processes.values():
            process.die()

    # ---- the projector ------------------------------------------------------------------------------------------------

    def hold(self, why: str, until_s: float | None = None) -> None:
        """The projector makes no turn, for this reason, until it ends."""
        self._holds.add(why)
        self.ledger.hold()
        if until_s is not None:
            self.timeline.at(until_s, lambda: self.release(why))

    def release(self, why: str) -> None:
        self._holds.discard(why)
        if not self._holds:
            self.ledger.resume()
            self.broker._tell()

    @property
    def is_held(self) -> bool:
        """Whether the projector stands still."""
        return bool(self._holds)

    def release_all(self) -> None:
        self._holds.clear()
        self.ledger.resume()

    # ---- the log ------------------------------------------------------------------------------------------------------

    def append(self, event: ev.Event) -> Future[Appended]:
        """Appends what a service or a person says."""
        return self.broker.append(event if event.event_id else with_event_id(event))

    def find(self, op: str | None) -> Known | None:
        """Who *op* is; also the undo of an operation, once somebody has claimed it."""
        if op is None or op in self.known or not op.startswith(COMPENSATE):
            return self.known.get(op or "")
        forward = self.known.get(op.removeprefix(COMPENSATE))
        if forward is None:
            return None
        operation_id = COMPENSATE + forward.operation_id
        inverse = self.ledger.route(forward.route, tenant=forward.tenant_id).operation(operation_id)
        if inverse.tool is None:
            return None
        return Known(
            op=op,
            tenant_id=forward.tenant_id,
            group_id=forward.group_id,
            operation_id=operation_id,
            tool=inverse.tool,
            arguments={},
            fields={},
        )

    def operation(self, known: Known) -> Operation:
        return self.ledger.route(known.route, tenant=known.tenant_id).operation(known.operation_id)

    def routes(self) -> tuple[Route, ...]:
        """Every route that the projector knows, in the order of the log."""
        return tuple(self.ledger.tables.routes.values())

    def op_of(self, tenant_id: str, operation_id: str) -> str:
        """Name in the case of an operation; `compensate:A` for the inverse of A."""
        if operation_id.startswith(COMPENSATE):
            return COMPENSATE + self.op_of(tenant_id, operation_id[len(COMPENSATE) :])
        return self.names.get((tenant_id, operation_id), operation_id)

    def last_told(self, op: str) -> Result | None:
        """What the newest presentation of *op* that was answered got."""
        return next((told.result for told in reversed(self.told) if told.op == op and told.result is not None), None)

    def last_refusal(self, op: str) -> Refusal | None:
        result = self.last_told(op)
        return result.reason if isinstance(result, Refused) else None


def worker_of(fields: Mapping[str, Any], default: str = AGENT) -> str:
    """Name of the worker that a step speaks of: a node, or one thread of it."""
    node: str = fields.get("node", default)
    return f"{node}/{fields['thread']}" if "thread" in fields else node


def _arguments(fields: Mapping[str, Any]) -> set[str]:
    given = fields.get("args")
    if given is None and "args_text" in fields:
        given = arguments_in(fields["args_text"])
    return set(given) if isinstance(given, dict) else {OWN_ARGUMENT}
