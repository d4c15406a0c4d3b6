"""What agents do in a case: present operations, wait, give up, come back; all through the SDK's protocol."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.identity import RequestError, request_hash
from landed.core.state import Route
from landed.core.vocabulary import Refusal
from landed.sdk.intent import Intent, hash_of, prepared
from landed.sdk.results import Refused, Result
from landed.testing.cases.batches import Batch, Item
from landed.testing.cases.contracts import REFERENCE
from landed.testing.cases.identity import Identities
from landed.testing.cases.loading import Step
from landed.testing.cases.looks import Look
from landed.testing.cases.processes import DIGEST_KEY, Process
from landed.testing.cases.provider import Answer, Request
from landed.testing.cases.tasks import Task
from landed.testing.cases.timeline import Worker
from landed.testing.cases.world import AGENT, VERDICT_WAIT_S, Known, NotSupported, Told, World
from landed.wire.ids import with_event_id

_NEVER_TO_SEND_S: Final = 1e12


class Agents:
    """Every agent process of a case."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: dict[str, list[tuple[str, Task]]] = {}
        """Runs of each operation that may still be under way, with the worker of each."""
        self._identities = Identities(world)

    # ---- presenting ---------------------------------------------------------------------------------------------------

    def present(self, op: str, fields: Mapping[str, Any], *, retry: bool = False, then: Callable[[], None] | None = None) -> None:
        """Presents *op* as *fields* say; an operation that is known already keeps what they do not say anew."""
        world, now_s = self._world, self._world.timeline.now_s
        known = self._identities.known(op, fields)
        worker = world.worker(fields.get("node", AGENT))
        if worker.down:
            return None
        outcome, finish = fields.get("outcome"), then or _nothing

        def told(result: Result | None) -> None:
            world.told.append(Told(op=op, asked_s=now_s, at_s=world.timeline.now_s, result=result))
            finish()

        try:
            intent = self._identities.intent(known, fields, retry=retry)
        except RequestError as error:
            return told(Refused(operation_id=known.operation_id, reason=Refusal.INVALID_REQUEST, detail={"rule": str(error)}))

        if outcome is not None and world.is_held:
            return self._ended_before(worker, known, intent, told, outcome)

        def begin() -> None:
            self._run(worker, known, intent, told, fields, outcome)

        precheck_s = fields.get("precheck_s")
        if precheck_s is None:
            return worker.soon(begin)
        self._register(worker, known, intent)
        return worker.at(now_s + precheck_s, begin)

    def present_items(self, ops: tuple[str, ...], fields: Mapping[str, Any], *, retry: bool = False) -> None:
        """Presents *ops* as items of one request: a claim each, and one call for those that are granted."""
        world, now_s = self._world, self._world.timeline.now_s
        worker = world.worker(fields.get("node", AGENT))
        several = [(op, self._identities.known(op, fields)) for op in dict.fromkeys(ops)]
        if worker.down or not several:
            return
        process = world.process(worker.name, several[0][1].tenant_id)

        def told(op: str) -> Callable[[Result | None], None]:
            return lambda result: world.told.append(Told(op=op, asked_s=now_s, at_s=world.timeline.now_s, result=result))

        batch = Batch(
            process,
            [
                Item(known=known, intent=self._identities.intent(known, fields, retry=retry), told=told(op))
                for op, known in several
            ],
            call=lambda items: world.provider.call(_request_of_items(items)),
        )
        worker.soon(batch.begin)

    def send(self, worker: Worker, intent: Intent, route: Route, told: Callable[[Result | None], None]) -> None:
        """Claims and calls as a service."""
        op = self._world.op_of(route.tenant_id, intent.operation_id)
        known = self._world.known.get(op) or Known(
            op=op,
            tenant_id=route.tenant_id,
            group_id=intent.group_id,
            operation_id=intent.operation_id,
            tool=intent.contract.tool,
            arguments=intent.arguments,
            fields={},
        )
        self._run(worker, known, intent, told, {}, None)

    def _run(
        self,
        worker: Worker,
        known: Known,
        intent: Intent,
        told: Callable[[Result | None], None],
        fields: Mapping[str, Any],
        outcome: str | None,
    ) -> None:
        world = self._world
        process = world.process(worker.name, known.tenant_id)
        contract = intent.contract
        taken_as = _taken_as(world.ledger.route(intent.route, tenant=known.tenant_id), intent, world.declared(contract.tool))
        reads = contract.read_only or contract.tool in world.provider.reads
        verify = None
        if contract.verify is not None:
            verify = Look(world.provider, contract.verify.tool, world.declared(contract.tool), op_of=world.op_of)
        steps = process.read(intent) if reads else process.perform(intent, verify)
        task = Task(
            process,
            steps,
            transport=lambda arguments: taken_as(self._transport(known, intent, arguments, outcome)),
            told=told,
            dispatch_at=fields.get("dispatch_at"),
        )
        self._tasks.setdefault(known.op, []).append((worker.name, task))
        task.begin()

    def _ended_before(
        self, worker: Worker, known: Known, intent: Intent, told: Callable[[Result | None], None], outcome: str
    ) -> None:
        """The call has ended and its events are on the log, although the projector of the story has not read them: decided by
        another one, on a copy of log and view."""
        world = self._world
        other = world.ledger.copy(world.timeline)
        process = Process(
            worker, other, other, world.ids, tenant_id=known.tenant_id, wait_s=VERDICT_WAIT_S, unrenewed=frozenset()
        )
        before = len(other.entries())
        Task(
            process,
            process.perform(intent, None),
            transport=lambda arguments: self._transport(known, intent, arguments, outcome),
            told=told,
        ).begin()
        for entry in other.entries()[before:]:
            world.append(entry.event)

    def _transport(self, known: Known, intent: Intent, arguments: Mapping[str, Any], outcome: str | None) -> Answer:
        world = self._world
        request = request_of(world, known, intent, arguments)
        if outcome is None:
            return world.provider.call(request)
        if outcome == "failed":
            errors = intent.contract.no_effect_errors
            said: dict[str, Any] = {"code": errors[0]} if errors else {"sent": False}
            return Answer(kind="error" if errors else "raised", after_s=0.0, said=said)
        reference = f"{intent.contract.tool}-{known.op}"
        world.provider.commit_unseen(request, reference)
        if outcome == "unknown":
            return Answer(kind="none", after_s=0.0, said={})
        return Answer(kind="ok", after_s=0.0, said={}, fields={"ref": reference})

    # ---- before the claim --------------------------------------------------------------------------------------------------

    def _register(self, worker: Worker, known: Known, intent: Intent) -> None:
        """Puts the intent on the log before there is a claim, so that whoever cancels finds it."""
        self._world.append(
            prepared(
                intent,
                None,
                tenant_id=known.tenant_id,
                actor=worker.name,
                digest_key=DIGEST_KEY.value,
                hashed=hash_of(intent),
            )
        )

    # ---- what else they do --------------------------------------------------------------------------------------------

    def rewrite(self, step: Step) -> None:
        """A hook changes the arguments: of a call that is about to be sent in place, of one that waits by presenting it anew."""
        known = self._known(step)
        known.arguments = dict(step.get("args") or {})
        under_way = self._live(known.op, step.get("node"))
        granted = [task for _, task in under_way if task.rewrite(self._identities.sent(known.tool, known.arguments))]
        if not granted:
            for _, task in under_way:
                task.give_up()
            self.present(known.op, {name: value for name, value in step.fields.items() if name != "op"})

    def give_up(self, step: Step) -> None:
        for _, task in self._live(self._known(step).op, step.get("node")):
            task.give_up()

    def heartbeat(self, step: Step) -> None:
        """The holder asks for more time, whether or not it still has any."""
        known = self._known(step)
        for _, task in self._live(known.op, step.get("node")):
            if task.lease is not None:
                token, number = task.lease.token, task.lease.number + 1
                self._world.append(
                    with_event_id(
                        ev.LeaseRenewed(
                            event_id="",
                            tenant_id=token.tenant_id,
                            route=token.route,
                            operation_id=token.operation_id,
                            group_id=token.group_id,
                            actor=step.get("node"),
                            seen_version=token.version,
                            claim_id=token.claim_id,
                            attempt=token.attempt,
                            lease_number=number,
                            lease_ms=token.lease_ms,
                        )
                    )
                )

    def repeat_request(self, step: Step) -> None:
        """The transport sends the request of an operation once more, on its own; who still waits gets the second answer too."""
        world, known = self._world, self._known(step)
        intent = self._identities.intent(known, {}, retry=False)
        world.repeated[known.tenant_id, known.operation_id] += 1
        answer = world.provider.call(request_of(world, known, intent, intent.arguments))
        for name, task in self._live(known.op, None):
            world.worker(name).at(world.timeline.now_s + answer.after_s, lambda task=task: task.answer_now(answer))  # type: ignore[misc]

    def claim_only(self, step: Step) -> None:
        """A worker takes the operation and never sends it."""
        known = self._known(step)
        fields = {**known.fields, "node": step.get("node", "sdk"), "dispatch_at": _NEVER_TO_SEND_S}
        self.present(known.op, fields)

    def _known(self, step: Step) -> Known:
        op = step.get("op")
        known = self._world.known.get(op)
        if known is None:
            raise NotSupported(f"{step.do}: nobody has presented {op!r} before")
        return known

    def _live(self, op: str, node: str | None) -> list[tuple[str, Task]]:
        live = [(name, task) for name, task in self._tasks.get(op, []) if not task.over]
        self._tasks[op] = live
        return [(name, task) for name, task in live if node in (None, name)]


def request_of(world: World, known: Known, intent: Intent, arguments: Mapping[str, Any]) -> Request:
    """The request as it leaves: under the key of the operation where the contract has one."""
    undoes = None
    if known.operation_id.startswith("compensate:"):
        undoes = (known.tenant_id, intent.operation_id.removeprefix("compensate:"))
    return Request(
        tool=intent.contract.tool,
        op=known.op,
        subject=(known.tenant_id, intent.operation_id),
        key=None if intent.contract.operation_key is None else intent.operation_id,
        arguments=arguments,
        request_hash=request_hash(intent.contract, arguments),
        undoes=undoes,
    )


def _taken_as(route: Route, intent: Intent, declared: Mapping[str, Any]) -> Callable[[Answer], Answer]:
    """How the team's own code takes an answer: an error that says that it is gone already acknowledges a removal (§8).

    Of an inverse the contract that registered it says which errors those are, of a call of its own the tool's.
    """
    forward = route.forward_of(intent.operation_id)
    registered = () if forward is None or forward.contract is None else forward.contract.compensation
    compensation = next((one for one in registered if one.tool == intent.contract.tool), None)
    errors = declared.get("gone_errors", ()) if compensation is None else compensation.gone_errors
    only_after = declared.get("gone_only_after_own_try") if compensation is None else compensation.gone_only_after_own_try
    own_try = any(not attempt.released for attempt in route.operation(intent.operation_id).attempts)

    def taken(answer: Answer) -> Answer:
        said = answer.said.get("code") or str(answer.said.get("http", ""))
        if answer.kind != "error" or said not in errors or (only_after and not own_try):
            return answer
        return msgspec.structs.replace(answer, kind="ok", fields={REFERENCE: "gone"})

    return taken


def _request_of_items(items: list[Item]) -> Request:
    first = items[0]
    key = first.intent.contract.operation_key
    return Request(
        tool=first.intent.contract.tool,
        op=first.known.op,
        subject=(first.known.tenant_id, first.known.operation_id),
        key=None if key is None else first.known.operation_id,
        items={item.known.op: (item.known.tenant_id, item.known.operation_id) for item in items},
    )


def _nothing() -> None:
    """Nobody waits for the end."""


__all__ = ["Agents", "request_of"]
