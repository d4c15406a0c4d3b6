"""The in-memory ledger: a list as the log, and the core that the projector runs, in the append itself.

`append` puts the event at the end of the list, folds it, decides a claim that it carries, and puts decisions and consequences
behind it in the same way; only then is the verdict delivered, as the fold gave it. So everything is settled when `append`
returns, and the same appends give the same log.
"""

import hashlib
import threading
from collections import deque
from concurrent.futures import Future
from typing import Final

from landed.adapters.system import SystemClock
from landed.core.contract import contract_from_json
from landed.core.decide import Facts, Granted, decide
from landed.core.events import Claim, DispatchGranted, DispatchRefused, Entry, Event, OperationPrepared, Position
from landed.core.fold import empty_route, fold
from landed.core.projection import awaits_decision, claim_in, consequences, decision_event, unwinding_event
from landed.core.state import Operation, Route, is_settled
from landed.core.verdict import Verdict, verdict_from_state, verdict_of
from landed.ports import Appended, Clock, NothingAppended
from landed.wire.codec import encode
from landed.wire.errors import EncodeError
from landed.wire.ids import with_event_id


class MemoryLedger:
    """`ports.EventLog` and `ports.VerdictInbox` in one, with a read side. Safe to share between threads and ledgers.

    Not here: policies, approvals, ceilings, and reconciliation; a lease that runs out stays `dispatched`.

    Args:
        clock: append times; never goes back.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Final = clock or SystemClock()
        self._lock = threading.RLock()
        self._entries: list[Entry] = []
        self._refused: dict[int, str] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._route_of: dict[tuple[str, str], str] = {}
        self._holders: dict[tuple[str, str], tuple[str, str]] = {}
        self._waiting: dict[str, Future[Verdict]] = {}
        self._made: set[str] = set()

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
            verdicts = self._settle(entry)
        acknowledged.set_result(Appended(position=entry.position, at_ms=entry.at_ms))
        for verdict in verdicts:
            waiting = self._waiting.get(verdict.claim_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(verdict)
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

    # ---- read side ----------------------------------------------------------------------------------------------------

    def state(self, operation_id: str, *, tenant: str | None = None) -> Operation:
        """Present state of the operation; `State.NONE` where nothing is on the log.

        Raises:
            LookupError: several tenants have one of that name and none is given.
        """
        with self._lock:
            found = [
                route.operations[operation_id]
                for (tenant_id, _), route in self._routes.items()
                if operation_id in route.operations and tenant in (None, tenant_id)
            ]
        if len(found) > 1:
            raise LookupError(f"{operation_id!r} is known under several tenants or routes: name the tenant")
        return found[0] if found else Operation(operation_id=operation_id)

    def route(self, route: str, *, tenant: str) -> Route:
        """Present state of a group, or of an operation without one."""
        return self._routes.get((tenant, route)) or empty_route(tenant, route)

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
            return dict(self._refused)

    @property
    def waiting(self) -> int:
        """Claims that somebody still waits for."""
        return len(self._waiting)

    # ---- the projector's part -----------------------------------------------------------------------------------------

    def _put(self, event: Event, digest: str | None = None) -> Entry:
        at_ms = max(self._clock.now_ms(), self._entries[-1].at_ms if self._entries else 0)
        position = Position(partition=0, offset=len(self._entries))
        digest = digest or hashlib.sha256(encode(event)).hexdigest()
        entry = Entry(event=event, position=position, at_ms=at_ms, digest=digest)
        self._entries.append(entry)
        return entry

    def _settle(self, first: Entry) -> list[Verdict]:
        """Folds *first* and everything that follows from it."""
        verdicts: list[Verdict] = []
        behind = deque([first])
        claims: dict[str, tuple[Entry, Claim]] = {}
        while behind:
            entry = behind.popleft()
            event = entry.event
            folded = fold(self._route(event), entry)
            route = self._routes[event.tenant_id, event.route] = folded.route
            if folded.reason is not None:
                self._refused[entry.position.offset] = folded.reason
            if isinstance(event, DispatchGranted | DispatchRefused) and event.claim_id in claims:
                verdicts += self._delivered(route, entry, *claims[event.claim_id], accepted=folded.accepted)
            follow: list[Event] = []
            claim = claim_in(event)
            undecided = claim is not None and awaits_decision(route.operation(event.operation_id or ""), claim)
            if claim is not None and undecided and not folded.repeated:
                claims[claim.claim_id] = (entry, claim)
                follow.append(self._decided(route, entry, claim))
            if folded.accepted and (unwinding := unwinding_event(route, entry)) is not None:
                follow.append(unwinding)
            if folded.accepted:
                follow += consequences(route, folded.touched)
            behind.extend(self._decisions(follow))
        return verdicts

    def _decisions(self, events: list[Event]) -> list[Entry]:
        """Appends each decision once: what follows from a state follows again until it has come back through the fold."""
        put = []
        for event in map(with_event_id, events):
            if event.event_id not in self._made:
                self._made.add(event.event_id)
                put.append(self._put(event))
        return put

    def _route(self, event: Event) -> Route:
        route = self._routes.get((event.tenant_id, event.route)) or empty_route(event.tenant_id, event.route)
        if event.operation_id is not None:
            self._route_of.setdefault((event.tenant_id, event.operation_id), event.route)
        return route

    def _decided(self, route: Route, claimed: Entry, claim: Claim) -> Event:
        operation = route.operation(claimed.event.operation_id or "")
        answer = decide(route, operation.operation_id, claim, self._facts(claimed, operation))
        if isinstance(answer, Granted):
            for resource in answer.resources:
                self._holders[route.tenant_id, resource] = (route.route, operation.operation_id)
        return decision_event(claimed, answer, policy_version=None, version=operation.version)

    def _facts(self, claimed: Entry, operation: Operation) -> Facts:
        event = claimed.event
        intent = event if isinstance(event, OperationPrepared) else None
        known = self._route_of[event.tenant_id, operation.operation_id]
        return Facts(
            now_ms=claimed.at_ms,
            claimed_at_ms=claimed.at_ms,
            known_route=known,
            presented_contract=contract_from_json(intent.contract) if intent is not None and intent.contract else None,
            presented_hash=intent.request_hash if intent is not None else None,
            presented_digests=intent.argument_digests if intent is not None else {},
            resource_holders=self._busy(event.tenant_id, operation),
        )

    def _busy(self, tenant_id: str, operation: Operation) -> dict[str, str]:
        """Holder of each resource that *operation* needs; a settled or released one holds nothing (§5)."""
        busy = {}
        for resource in operation.resources:
            route, name = self._holders.get((tenant_id, resource), ("", ""))
            holder = self.route(route, tenant=tenant_id).operation(name) if name else None
            if holder is not None and holder.last is not None and not holder.last.released and not is_settled(holder):
                busy[resource] = name
        return busy

    def _delivered(self, route: Route, decision: Entry, claimed: Entry, claim: Claim, *, accepted: bool) -> list[Verdict]:
        operation = route.operation(claimed.event.operation_id or "")
        verdict = verdict_of(operation, decision, claim=claim, accepted=accepted)
        if verdict is None:
            answer = decide(route, operation.operation_id, claim, self._facts(claimed, operation))
            if isinstance(answer, Granted):
                return []
            verdict = verdict_from_state(operation, answer, tenant_id=route.tenant_id, claim=claim, at_ms=decision.at_ms)
        return [verdict]
