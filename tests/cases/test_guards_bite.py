"""The cases test the product, not the runner: take a guard of the product away, and the cases that are about it fail.

A dispatch is guarded twice, by the decision and by the fold: to see a check of the one matter, the other takes every grant.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from landed.core import decide, fold, looks
from landed.core.contract import Contract
from landed.core.transitions import Row
from landed.core.vocabulary import State
from landed.sdk import classify, protocol
from landed.testing.cases import Case, load, run

FOLDER = Path(__file__).parent
CASES = {case.id: case for name in ("cases.yaml", "words.yaml") for case in load(FOLDER / name)}


def fails(case: Case) -> bool:
    return run(case).result == "fail"


@pytest.fixture
def open_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that takes every grant."""
    row: Row = fold.BY_EVENT["dispatch_granted"][0]._replace(states=frozenset(State), guards=())
    monkeypatch.setattr(fold, "BY_EVENT", {**fold.BY_EVENT, "dispatch_granted": (row,)})


DECISIONS = [
    ("in_flight", ("C84", "C91", "C93")),
    ("unresolved", ("C01", "C14", "C18", "C51", "C88")),
    ("already_confirmed", ("C22", "C49", "C50", "C57", "C59")),
    ("needs_human", ("C95",)),
    ("request_mismatch", ("C924",)),
    ("prerequisite_unconfirmed", ("C924",)),
    ("replaced_unresolved", ("C912",)),
    ("group_unresolved", ("C924",)),
    ("not_due", ("C924",)),
    ("open_intent", ("C924",)),
    ("policy_denied", ("C915",)),
    ("approval_required", ("C60", "C67")),
    ("approval_expired", ("C60",)),
    ("resource_busy", ("C910",)),
    ("surge_exceeded", ("C126", "C121", "C130")),
]


@pytest.mark.usefixtures("open_fold")
@pytest.mark.parametrize(("name", "about"), DECISIONS, ids=[row[0] for row in DECISIONS])
def test_without_a_check_of_the_decision(monkeypatch: pytest.MonkeyPatch, name: str, about: tuple[str, ...]) -> None:
    left = tuple(check for check in decide.CHECKS if check.__name__ != name)
    assert len(left) == len(decide.CHECKS) - 1
    assert [one for one in about if fails(CASES[one])] == []
    monkeypatch.setattr(decide, "CHECKS", left)
    assert [one for one in about if not fails(CASES[one])] == []


def _no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contract, "quiet_after_ms", property(lambda contract: 0))


def _any_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    judge: Callable[..., Any] = looks._found

    def trusting(said: Any, found: Any, *rest: Any) -> Any:
        return judge(said, replace(found, matched_on=said.contract.minimum_evidence), *rest)

    monkeypatch.setattr(looks, "_found", trusting)


def _errors_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def sure(contract: Contract, error: Any, *, own_try: bool) -> Any:
        return classify.Failed(error_code=error.error_code or error.error_class)

    monkeypatch.setattr(classify, "_error", sure)


def _leases_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.Protocol, "_not_now", lambda self, token, lease, arguments: None)


SHELL = [
    ("the safe window", _no_window, ("C26",)),
    ("the minimum evidence", _any_evidence, ("C34", "C36")),
    ("that an error proves nothing", _errors_are_failures, ("C02", "C05", "C35", "C51")),
    ("the check right before the call", _leases_forever, ("C62",)),
]


@pytest.mark.parametrize(("take_away", "about"), [row[1:] for row in SHELL], ids=[row[0] for row in SHELL])
def test_without(
    monkeypatch: pytest.MonkeyPatch, take_away: Callable[[pytest.MonkeyPatch], None], about: tuple[str, ...]
) -> None:
    take_away(monkeypatch)
    assert [one for one in about if not fails(CASES[one])] == []
