"""The fold and an independent, simpler implementation of the norm say the same about thousands of random logs.

The oracle (`tests/oracle/norm.py`) shares no code with the product. Where they differ, one of them is a bug, or the difference is
listed in `ALLOWED` with the sentence of the norm that decides.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from tests.logs import Seeded, Writer
from tests.oracle.norm import Norm

from landed.core.events import TYPE_OF, Entry
from landed.core.fold import Folded, fold
from landed.core.state import Operation
from landed.core.vocabulary import State

LOGS = 20_000
LENGTH = 16

ALLOWED: dict[str, str] = {}
"""Differences that stand: what differs -> the sentence of the norm that decides. None is known."""


def as_dict(one: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one.event)
    return {**plain, "type": TYPE_OF[type(one.event)], "at": one.at_ms}


def shown(op: Operation) -> dict[str, Any]:
    return {
        "state": str(op.state),
        "version": op.version,
        "why": None if op.escalated_for is None else str(op.escalated_for),
        "task": None if op.review is None else [str(reason) for reason in op.review.reasons],
        "tasks": op.reviews,
        "kept": op.kept,
        "final": op.final,
        "refs": {ref.value: ref.attempt for ref in op.references},
        "open": [attempt.open for attempt in op.attempts],
        "ends": [attempt.lease_end_ms for attempt in op.attempts],
    }


def told(op: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: op[name] for name in ("state", "version", "why", "task", "tasks", "kept", "final", "refs")},
        "open": [attempt["open"] for attempt in op["attempts"]],
        "ends": [attempt["end"] for attempt in op["attempts"]],
    }


class Compared(Writer):
    """Writes a log, and has the oracle read it along."""

    def __init__(self, seed: int) -> None:
        super().__init__(Seeded(seed))
        self.norm = Norm()
        self.seed = seed

    def _append(self, one: Entry) -> Entry:
        said: Folded = fold(self.route, one)
        accepted = self.norm.take(as_dict(one), one.at_ms)
        self.route = said.route
        self.log.append(one)
        where = f"seed {self.seed}, record {len(self.log) - 1}: {TYPE_OF[type(one.event)]} of {one.event.operation_id}"
        assert said.accepted is accepted, f"{where}: {said.reason or 'accepted'}"
        assert self.route.group_state == self.norm.group, where
        self.compare(said.touched, where)
        return one

    def compare(self, names: Iterable[str], where: str) -> None:
        for name in names:
            mine, other = shown(self.route.operations[name]), told(self.norm.ops[name])
            assert mine == other, f"{where}: {name} {[(k, mine[k], other[k]) for k in mine if mine[k] != other[k]]}"


def test_fold_and_oracle_agree_about_random_logs() -> None:
    states: Counter[State] = Counter()
    for seed in range(LOGS):
        writer = Compared(seed)
        for _ in range(LENGTH):
            writer.write()
        writer.compare(writer.route.operations, f"seed {seed}, end")
        states.update(op.state for op in writer.route.operations.values())
    assert not ALLOWED
    rare = {state: states[state] for state in State if states[state] < LOGS / 500}
    assert not rare, f"the logs hardly reach {rare}"
