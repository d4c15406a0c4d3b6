"""Logs that the product's own code wrote in simulated time, and a run of one under other terms."""

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from landed.core import events as ev
from landed.core.contract import Contract, readable_contract
from landed.core.events import Entry
from landed.testing.cases import Case, load
from landed.testing.cases.verbs import play
from landed.wire.records import Record
from landed_services.reading import Item
from landed_services.replay.counted import Difference
from landed_services.replay.scope import Scope
from landed_services.replay.terms import Terms, policies_from, terms
from landed_services.replay.what_if import WhatIf

FOLDER = Path(__file__).parents[2] / "cases"


@cache
def cases() -> dict[str, Case]:
    return {case.id: case for case in load(FOLDER / "cases.yaml")}


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings of what cases provoke are theirs."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@cache
def log_of(name: str) -> tuple[Entry, ...]:
    """The log that the case *name* leaves."""
    return played(cases()[name])


def played(case: Case) -> tuple[Entry, ...]:
    with quiet():
        return play(case).ledger.entries()


def items(log: Iterable[Entry]) -> Iterator[Item]:
    for one in log:
        at = one.position
        yield Item(record=Record(key=None, value=b"", partition=at.partition, offset=at.offset, timestamp_ms=one.at_ms), what=one)


def contracts_of(log: Iterable[Entry]) -> dict[str, Contract]:
    """The contracts that tools came with."""
    found: dict[str, Contract] = {}
    for one in log:
        event = one.event
        if isinstance(event, ev.OperationPrepared) and event.contract is not None and event.tool not in found:
            contract = readable_contract(event.contract)
            assert contract is not None
            found[event.tool] = contract
    return found


def given(log: Iterable[Entry], policies: dict[str, Any] | None = None, contracts: dict[str, Any] | None = None) -> Terms:
    """*policies* by key, and fields of *contracts* by tool that are other ones than those on *log*."""
    known = contracts_of(log) if contracts else {}
    changed = [
        msgspec.convert(msgspec.to_builtins(known[tool]) | json.loads(json.dumps(fields)), Contract)
        for tool, fields in (contracts or {}).items()
    ]
    return terms(policies_from(policies) if policies else {}, changed)


class Run(NamedTuple):
    differences: list[Difference]
    what_if: WhatIf

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """Operation, recorded and instead, of each."""
        return [(one.operation_id, one.recorded, one.instead) for one in self.differences]


def run(log: Iterable[Entry], under: Terms | None = None, scope: Scope | None = None, *, whole: bool = True) -> Run:
    what_if = WhatIf(scope or Scope(), under, whole=whole)
    return Run(list(what_if.differences(items(log))), what_if)
