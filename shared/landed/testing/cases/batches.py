"""One request with many items: a claim for each item, one call for those granted, each item classified by its own answer.

Source: docs/semantics.md §6 (`unit: item`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from landed.sdk.classify import CallOutcome, Raised
from landed.sdk.intent import Intent
from landed.sdk.results import Result
from landed.sdk.token import Execute
from landed.testing.cases.processes import Process
from landed.testing.cases.provider import Answer
from landed.testing.cases.tasks import Task, outcome_of
from landed.testing.cases.world import Known


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a request, an operation of its own."""

    known: Known
    intent: Intent
    told: Callable[[Result | None], None]


class Batch:
    """One presentation of several items."""

    def __init__(self, process: Process, items: list[Item], *, call: Callable[[list[Item]], Answer]) -> None:
        self._process: Final = process
        self._items = items
        self._call = call
        self._begun: dict[str, Any] = {}

    def begin(self) -> None:
        for item in self._items:
            self._task(self._process.protocol.begin(item.intent), partial(self._claimed, item))

    def _task(self, steps: Any, then: Callable[[Any], None]) -> None:
        Task(self._process, steps, transport=_nothing_to_send, told=then).begin()

    def _claimed(self, item: Item, begun: Execute | Result | None) -> None:
        self._begun[item.known.op] = begun
        if not isinstance(begun, Execute):
            item.told(begun)
        if len(self._begun) == len(self._items):
            self._send()

    def _send(self) -> None:
        granted: list[tuple[Item, Execute]] = []
        for item in self._items:
            token = self._begun[item.known.op]
            if isinstance(token, Execute):
                refused = self._process.protocol.start(token, item.intent.arguments)
                if refused is None:
                    granted.append((item, token))
                else:
                    item.told(refused)
        if not granted:
            return
        answer = self._call([item for item, _ in granted])
        worker = self._process.worker

        def answered() -> None:
            outcomes = outcomes_of(answer, [item.known.op for item, _ in granted])
            for item, token in granted:
                self._task(self._process.protocol.finish(token, outcomes[item.known.op]), item.told)

        if answer.after_s <= 0:
            answered()
        else:
            worker.at(worker.timeline.now_s + answer.after_s, answered)


def outcomes_of(answer: Answer, names: list[str]) -> dict[str, CallOutcome]:
    """The outcome of each item by its own answer; one that cannot be matched leaves them all unknown."""
    items = answer.said.get("items")
    if answer.kind != "ok" or items is None:
        return {name: outcome_of(answer, None) for name in names}
    if not set(names) <= set(items):
        return {name: Raised(error_class="unmatched_items") for name in names}
    code = answer.said.get("code")
    failed = Answer(kind="error", after_s=0.0, said={"code": code, "http": answer.said.get("http")})
    return {name: outcome_of(answer if items[name] == "ok" else failed, None) for name in names}


def _nothing_to_send(arguments: Any) -> Answer:
    raise AssertionError("a claim sends nothing to the provider")
