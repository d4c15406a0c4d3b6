"""The steps of a case, one after the other on the timeline. A word alone decides what is done, never which case it stands in."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from landed.testing.cases.agents import Agents
from landed.testing.cases.appending import appended
from landed.testing.cases.identity import group_opened
from landed.testing.cases.installation import Installation
from landed.testing.cases.loading import Case, Step
from landed.testing.cases.news import Intake
from landed.testing.cases.people import People
from landed.testing.cases.settling import Reconciler
from landed.testing.cases.undoing import Compensator
from landed.testing.cases.world import TENANT, NotSupported, World, worker_of


class Player:
    """Plays one case to its end; what came of it is in `world`."""

    def __init__(self, case: Case, played: "Mapping[tuple[str, str], Played]", world: World | None = None) -> None:
        """
        Args:
            played: what each verb of each actor does.
        """
        self._played = played
        self.world: Final = world or World(case)
        self.agents: Final = Agents(self.world)
        self.people: Final = People(self.world, self.agents.identify)
        self.installation: Final = Installation(self.world)
        self.intake: Final = Intake(self.world)
        self._sent_together: set[tuple[float, str, str]] = set()
        """Requests whose items were presented with the first of them."""

    def play(self) -> World:
        """Plays every step, lets the calls under way end, and folds the log.

        Raises:
            NotSupported: a step cannot be played; says which word and why.
        """
        try:
            self._play_all()
        finally:
            self.world.end()
        if self.world.broker.defects:
            raise self.world.broker.defects[0]
        return self.world

    def _play_all(self) -> None:
        self.people.declare()
        for step in self.world.case.steps:
            self._schedule(step)
        self.world.timeline.at(max(step.at for step in self.world.case.steps), self._close)
        self.world.timeline.run()
        self.world.end()
        self.world.release_all()
        self.world.timeline.run()

    def _close(self) -> None:
        self.world.timeline.closing = True

    def _schedule(self, step: Step) -> None:
        times = step.get("times", 1)
        apart_s = step.get("over_s", step.get("every_s", 0.0) * times) / times if times > 1 else 0.0
        for number in range(times):
            self.world.timeline.at(step.at + number * apart_s, lambda: self._play(step))

    def _play(self, step: Step) -> None:
        self.people.in_force(step)
        played = self._played.get((step.actor, step.do))
        if played is None:
            raise NotSupported(f"{step.actor} {step.do}: nobody plays it")
        played(self, step)

    # ---- agents -------------------------------------------------------------------------------------------------------

    def call(self, step: Step) -> None:
        ops = self._of_one_request(step)
        hooks = self._hooks(step)
        if ops != step.ops:
            self._present(step, ops)
        elif hooks:
            fields = {name: value for name, value in step.fields.items() if name not in _OF_THE_STEP}
            self.agents.call(step.get("op"), fields, hooks)
        else:
            self.people.with_approval_until(step, lambda: self._present(step, step.ops))

    def _of_one_request(self, step: Step) -> tuple[str, ...]:
        """Items that separate calls send in one request at the same moment: all with the first of them, none with the others."""
        request, tool = step.get("request"), step.get("tool")
        if request is None or tool is None or self.world.contract(tool).unit != "item":
            return step.ops
        key = (step.at, request, tool)
        if key in self._sent_together:
            return ()
        self._sent_together.add(key)
        calls = [
            one for one in self.world.case.steps if one.do == "call" and (one.at, one.get("request"), one.get("tool")) == key
        ]
        for one in calls:
            self.agents.identify(one.get("op"), one.fields)
        return tuple(op for one in calls for op in one.ops)

    def _hooks(self, step: Step) -> int:
        """How many hooks change the call before a person is asked about it."""
        op, steps = step.get("op"), self.world.case.steps
        if not self.world.declared(step.get("tool")).get("needs_approval"):
            return 0
        later = [one for one in steps[steps.index(step) + 1 :] if op in one.ops]
        before = itertools.takewhile(lambda one: one.do == "rewrite_args", later)
        return len(list(before))

    def call_many(self, step: Step) -> None:
        self._present(step, step.ops)

    def call_again(self, step: Step) -> None:
        self._present(step, step.ops, retry=True)

    def _present(self, step: Step, ops: tuple[str, ...], *, retry: bool = False) -> None:
        fields = {name: value for name, value in step.fields.items() if name not in _OF_THE_STEP}
        if any(self._is_item(op, fields) for op in ops):
            return self.agents.present_items(ops, fields, retry=retry)
        if step.get("sequential"):
            return self._next_of(list(ops), fields, retry=retry)
        spread_s = step.get("every_s", step.get("over_s", 0.0) / max(len(ops), 1))
        every_s = spread_s if "times" not in step.fields else 0.0
        worker = self.world.worker(worker_of(step.fields))
        for number, op in enumerate(ops):

            def begin(op: str = op) -> None:
                self.agents.present(op, fields, retry=retry)

            if number * every_s > 0:
                worker.at(self.world.timeline.now_s + number * every_s, begin)
            else:
                begin()
        return None

    def _is_item(self, op: str, fields: Mapping[str, Any]) -> bool:
        known = self.world.find(op)
        tool = fields.get("tool", known.tool if known is not None else None)
        return tool is not None and self.world.contract(tool).unit == "item"

    def _next_of(self, ops: list[str], fields: Mapping[str, Any], *, retry: bool) -> None:
        if ops:
            self.agents.present(ops[0], fields, retry=retry, then=lambda: self._next_of(ops[1:], fields, retry=retry))

    def crash(self, step: Step) -> None:
        self.world.crash(self._node(step))

    def start(self, step: Step) -> None:
        for worker in self.world.workers_of(self._node(step)):
            worker.start()

    def pause(self, step: Step) -> None:
        for worker in self.world.workers_of(self._node(step)):
            worker.paused_until_s = max(worker.paused_until_s, step.get("until", float("inf")))

    def _node(self, step: Step) -> str:
        return worker_of(step.fields, step.actor)

    def start_workflow(self, step: Step) -> None:
        group = step.get("workflow")
        self.world.append(group_opened(step.get("tenant", TENANT), group, parent=step.get("parent")))

    def note(self, step: Step) -> None:
        """Nothing to do: what the step says is for readers, or holds by the way the product is built."""
        self.world.notes.append(f"{step.at:g} s: {step.actor} {step.do}")

    # ---- services -----------------------------------------------------------------------------------------------------

    def tick(self, step: Step) -> None:
        self._work(step)

    def replay(self, step: Step) -> None:
        self._work(step, again=frozenset(step.ops))

    def _work(self, step: Step, *, again: frozenset[str] = frozenset()) -> None:
        worker = self.world.worker(self._node(step))

        def work() -> None:
            if worker.down:
                return
            reconciler = Reconciler(self.world, worker, self.agents.send)
            compensator = Compensator(self.world, worker, self.agents.send)
            reconciler.tick(again=again)
            if compensator.tick():
                reconciler.tick(again=again)

        worker.soon(work)

    # ---- people and providers -----------------------------------------------------------------------------------------

    def person_replays(self, step: Step) -> None:
        """A person has it sent again: takes a retry that the ledger offers, and no more."""
        for op in step.ops:
            self.agents.present(op, {"node": "operator"}, retry=True)

    def outside_change(self, step: Step) -> None:
        known = self.world.find(step.get("op"))
        fields = {"status": step.get("status")} if "status" in step.fields else {}
        value = step.get("value")
        fields |= value if isinstance(value, dict) else {}
        subject = None if known is None else (known.tenant_id, known.operation_id)
        self.world.provider.change(step.get("tool"), subject, fields, reference=step.get("ref"))

    # ---- the installation ---------------------------------------------------------------------------------------------

    def append(self, step: Step) -> None:
        """Somebody appends events directly. What only `text` says is for readers."""
        told = appended(self.world, step, self.agents.identify)
        if told is None:
            return self.note(step)
        self.installation.append(told, step)
        return None

    def upgrade(self, step: Step) -> None:
        self.people.upgrade(step)
        self.installation.upgrade(step)

    def projector_down(self, step: Step) -> None:
        until_s = step.get("until")
        self.world.hold("projector", until_s)

    def projector_up(self, step: Step) -> None:
        self.world.release("projector")

    def read_again(self, step: Step) -> None:
        """What was read and perhaps committed is read once more."""
        self.installation.read_again(step.get("back_s"))

    def database_down(self, step: Step) -> None:
        self.world.hold("database", step.get("until"))

    def open_transaction(self, step: Step) -> None:
        """Readers of what is committed wait behind an open transaction."""
        self.world.hold(f"transaction {step.get('tx')}", step.get("until"))
        self.installation.transactions.add(str(step.get("tx")))

    def abort_transaction(self, step: Step) -> None:
        self.installation.transactions.discard(str(step.get("tx")))
        self.world.release(f"transaction {step.get('tx')}")

    def skew(self, step: Step) -> None:
        for worker in self.world.workers_of(step.get("node")):
            worker.skew_s += step.get("by_s")


_OF_THE_STEP: Final = frozenset({"op", "ops", "every_s", "over_s", "sequential", "times", "text"})

Played = Callable[[Player, Step], None]
"""What one verb does."""
