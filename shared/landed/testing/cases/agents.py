"""What agents do in a case: present operations, wait, give up, come back; all through the SDK's protocol."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from landed.core import events as ev
from landed.core.identity import RequestError
from landed.core.state import Route
from landed.core.vocabulary import Refusal
from landed.sdk.intent import Intent, hash_of, prepared
from landed.sdk.results import Refused, Result
from landed.testing.cases.batches import Batch, Item
from landed.testing.cases.identity import Identities
from landed.testing.cases.loading import Step
from landed.testing.cases.looks import Look
from landed.testing.cases.processes import DIGEST_KEY, Process
from landed.testing.cases.provider import Answer
from landed.testing.cases.requests import request_of, request_of_items, taken_as
from landed.testing.cases.tasks import Task
from landed.testing.cases.timeline import Worker
from landed.testing.cases.world import VERDICT_WAIT_S, Known, Told, World, worker_of
from landed.wire.ids import with_event_id


class Agents:
    """Every agent process of a case."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: dict[str, list[tuple[str, Task]]] = {}
        """Runs of each operation that may still be under way, with the worker of each."""
        self._identities = Identities(world)
        self._proposed: dict[str, tuple[int, Mapping[str, Any]]] = {}
        """Calls that hooks still change before they are claimed, with how many still do."""

    # ---- presenting ---------------------------------------------------------------------------------------------------

    def present(self, op: str, fields: Mapping[str, Any], *, retry: bool = False, then: Callable[[], None] | None = None) -> None:
        """Presents *op* as *fields* say; an operation that is known already keeps what they do not say anew."""
        world, now_s = self._world, self._world.timeline.now_s
        known = self._identities.known(op, fields)
        worker = world.worker(worker_of(fields))
        if worker.down:
            worker.start()  # another process of the same worker
        outcome, finish = fields.get("outcome"), then or _nothing

        def told(result: Result | None) -> None:
            world.told.append(Told(op=op, asked_s=now_s, at_s=world.timeline.now_s, result=result))
            finish()

        intent = self._intent(known, fields, retry=retry)
        if isinstance(intent, Refused):
            return told(intent)

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
        worker = world.worker(worker_of(fields))
        several = [(op, self._identities.known(op, fields)) for op in dict.fromkeys(ops)]
        if not several:
            return
        if worker.down:
            worker.start()
        process = world.process(worker.name, several[0][1].tenant_id)

        def told(op: str) -> Callable[[Result | None], None]:
            return lambda result: world.told.append(Told(op=op, asked_s=now_s, at_s=world.timeline.now_s, result=result))

        items = []
        for op, known in several:
            intent = self._intent(known, fields, retry=retry)
            if isinstance(intent, Refused):
                told(op)(intent)
            else:
                items.append(Item(known=known, intent=intent, told=told(op)))
        if items:
            worker.soon(Batch(process, items, call=lambda sent: world.provider.call(request_of_items(sent))).begin)

    def _intent(self, known: Known, fields: Mapping[str, Any], *, retry: bool) -> Intent | Refused:
        """The intent; what cannot be sent or hashed is refused before anything is claimed."""
        try:
            intent = self._identities.intent(known, fields, retry=retry)
            hash_of(intent)
        except RequestError as error:
            return Refused(operation_id=known.operation_id, reason=Refusal.INVALID_REQUEST, detail={"rule": str(error)})
        return intent

    def send(self, worker: Worker, intent: Intent, route: Route, told: Callable[[Result | None], None]) -> None:
        """Claims and calls as a service."""
        op = self._world.op_of(route.tenant_id, intent.operation_id)
        known = self._world.find(op) or Known(
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
        believed = taken_as(world.ledger.route(intent.route, tenant=known.tenant_id), intent, world.declared(contract.tool))
        reads = contract.read_only or contract.tool in world.provider.reads
        verify = None
        if contract.verify is not None:
            verify = Look(world.provider, contract.verify.tool, world.declared(contract.tool), op_of=world.op_of)
        steps = process.read(intent) if reads else process.perform(intent, verify)
        task = Task(
            process,
            steps,
            transport=lambda arguments: believed(self._transport(known, intent, arguments, outcome)),
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

    def _register(self, worker: Worker, known: Known, intent: Intent, claim: ev.Claim | None = None) -> None:
        """Puts the intent on the log, before there is a claim or with one that nobody waits for."""
        self._world.append(
            prepared(
                intent,
                claim,
                tenant_id=known.tenant_id,
                actor=worker.name,
                digest_key=DIGEST_KEY.value,
                hashed=hash_of(intent),
            )
        )

    # ---- what else they do --------------------------------------------------------------------------------------------

    def call(self, op: str, fields: Mapping[str, Any], hooks: int) -> None:
        """The model proposes a call, which so many hooks of the framework still change before it is claimed."""
        if hooks:
            self._identities.known(op, fields)
            self._proposed[op] = (hooks, fields)
        else:
            self.present(op, fields)

    def rewrite(self, step: Step) -> None:
        """A hook changes the arguments of a proposal, or of a granted call in place; one that waits is presented anew."""
        known = self._world.find(step.get("op"))
        if known is None:
            return  # nobody has proposed it yet
        known.arguments = dict(step.get("args") or {})
        hooks, proposed = self._proposed.pop(known.op, (0, {}))
        if hooks > 1:
            self._proposed[known.op] = (hooks - 1, proposed)
            return
        if hooks == 1:
            self.present(known.op, {**proposed, "args": known.arguments})
            return
        under_way = self._live(known.op, step.get("node"))
        granted = [task for _, task in under_way if task.rewrite(self._identities.sent(known.tool, known.arguments))]
        if not granted:
            for _, task in under_way:
                task.give_up()
            self.present(known.op, {name: value for name, value in step.fields.items() if name != "op"})

    def give_up(self, step: Step) -> None:
        for _, task in self._live(step.get("op"), step.get("node")):
            task.give_up()

    def heartbeat(self, step: Step) -> None:
        """The holder asks for more time, whether or not it still has any."""
        for name, task in self._live(step.get("op"), step.get("node")):
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
                            actor=name,
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
        world, known = self._world, self._world.find(step.get("op"))
        if known is None:
            return  # nothing was sent that could be repeated
        subject = (known.tenant_id, known.operation_id)
        sent = next((one for _, one in reversed(world.provider.log) if subject in (one.subject, *one.items.values())), None)
        if sent is None:
            return  # nothing was sent that could be repeated
        world.repeated[subject] += 1
        answer = world.provider.call(sent)
        for name, task in self._live(known.op, None):
            world.worker(name).at(world.timeline.now_s + answer.after_s, lambda task=task: task.answer_now(answer))  # type: ignore[misc]

    def claim_only(self, step: Step) -> None:
        """A worker takes the operation, for as long as the step says, and never sends it."""
        world, op = self._world, step.get("op")
        if op is None:
            return  # a lease of nothing that the case knows
        known = self.identify(op, {name: value for name, value in step.fields.items() if name in _OF_A_CLAIM})
        intent = self._identities.intent(known, {}, retry=False)
        expires = step.get("expires", intent.contract.lease + world.timeline.now_s)
        lease_s = float(expires) - world.timeline.now_s if isinstance(expires, int | float) else 0.0
        now_ms, worker = world.timeline.now_ms(), step.get("node", step.actor)
        claim = ev.Claim(
            claim_id=world.ids.random_id(),
            request_hash=hash_of(intent),
            worker=worker,
            reply_to=worker,
            lease_ms=max(0, round(lease_s * 1000)),
            asked_at_ms=now_ms,
            answer_by_ms=now_ms + round(VERDICT_WAIT_S * 1000),
        )
        self._register(world.worker(worker), known, intent, claim)

    def identify(self, op: str, fields: Mapping[str, Any] | None = None) -> Known:
        """Who *op* is, whether or not anybody has presented it: what *fields* do not say, the step says that will."""
        return self._world.find(op) or self._identities.known(op, {**self._identities.presented_with(op), **(fields or {})})

    def _live(self, op: str, node: str | None) -> list[tuple[str, Task]]:
        live = [(name, task) for name, task in self._tasks.get(op, []) if not task.over]
        self._tasks[op] = live
        return [(name, task) for name, task in live if node is None or name == node or name.startswith(f"{node}/")]


_OF_A_CLAIM: Final = frozenset({"tool", "args", "args_text", "tenant", "group", "workflow", "step", "message"})


def _nothing() -> None:
    """Nobody waits for the end."""
