"""One trial of the benchmark as an agent and the people around it go through it. Knows the product by its answers alone.

A trial is: present the request; have its authority approve it; whatever befalls it (a cancelled branch, an authority that lapses,
a lost answer, a kill, a storm of retries, the same order in other words); then present it again until it is settled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from irrevon.bench.arms import Episode

CRASH: Final = "crash-after-effect-before-response"
SETTLED_WITHIN_S: Final = 180.0
AGAIN_AFTER_S: Final = 0.2
_OUTCOMES: Final = {"Confirmed": "committed", "Rejected": "failed", "Escalated": "escalated"}
_ASKS_FOR_APPROVAL: Final = frozenset({"approval_required", "approval_expired"})
_NO_ANSWER: Final = "ledger_unavailable"


class AgentDied(Exception):
    """The agent's process was killed in the middle of a call."""


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    group: str | None


@dataclass(frozen=True)
class Answer:
    """What the SDK answered."""

    result: str
    operation_id: str
    reason: str | None = None


class Product(Protocol):
    """The product as a trial meets it."""

    def perform(self, call: Call, *, times: int = 1) -> Sequence[Answer]:
        """Raises AgentDied: the process that called was killed; the next call is made by a new one."""

    def kill_caller(self) -> None:
        """The next request that reaches the provider is the last one of the agent that sent it."""

    def approve(self, operation_id: str, by: str) -> int | None:
        """Until when, milliseconds since the epoch, UTC; None: what was asked for has lapsed already."""

    def cancel(self, group: str) -> None: ...


@dataclass
class Played:
    """What the agent believes, and how it came to it."""

    outcome: str = "unresolved-unknown"
    operation_id: str = ""
    in_doubt: bool = False
    """Whether the ledger said at any time that nobody can tell."""
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def claim(self) -> str | None:
        """What the ledger says of the provider's records, once it has settled a doubt."""
        return {"committed": "unique", "failed": "absent"}.get(self.outcome) if self.in_doubt else None


def call_of(episode: Episode, tool: str) -> Call:
    """The request as it was meant first."""
    return Call(tool, {**episode.stable_ids, "parameters": episode.parameters}, episode.branch_ref)


def reworded(episode: Episode, call: Call) -> Call | None:
    """The same order, as the agent makes it up anew; None where it does not."""
    if episode.resynth_parameters is None:
        return None
    ids = episode.resynth_stable_ids or episode.stable_ids
    return Call(call.tool, {**ids, "parameters": episode.resynth_parameters}, call.group)


class Play:
    """A trial under way; `run` plays it to its end."""

    def __init__(self, episode: Episode, tool: str, product: Product, *, settled_within_s: float = SETTLED_WITHIN_S) -> None:
        self._episode = episode
        self._call = call_of(episode, tool)
        self._product = product
        self._until_s = time.monotonic() + settled_within_s
        self._approved = False
        self._went_wrong_again = False
        self.played = Played()

    def run(self) -> Played:
        if self._episode.fault == CRASH:
            self._product.kill_caller()
        while not self._ended(answer := self._presented()):
            if answer.reason in _ASKS_FOR_APPROVAL:
                self._authorized(answer)
            elif answer.result == "Unknown":
                self._retries()
            if time.monotonic() > self._until_s:
                self.played.outcome = "ambiguous-unresolved" if self.played.in_doubt else "unresolved-unknown"
                break
            time.sleep(AGAIN_AFTER_S)
        self._retries()
        return self.played

    def _presented(self) -> Answer:
        while True:
            try:
                (answer,) = self._product.perform(self._call)
            except AgentDied:
                self.played.in_doubt = True
                self._log("crash", at="post-effect-pre-response")
                continue
            self.played.operation_id = answer.operation_id
            self.played.in_doubt |= answer.result == "Unknown"
            self._said("dispatch", answer)
            return answer

    def _ended(self, answer: Answer) -> bool:
        outcome = _OUTCOMES.get(answer.result)
        if outcome is None and answer.result == "Refused" and answer.reason != _NO_ANSWER:
            over = self._approved and self._episode.authority_expired
            outcome = "suppressed" if over or answer.reason not in _ASKS_FOR_APPROVAL else None
        if outcome is not None:
            self.played.outcome = outcome
        return outcome is not None

    def _authorized(self, answer: Answer) -> None:
        """The intent is on the log and nothing was sent: its authority speaks, then what happens before the dispatch happens."""
        until_ms = self._product.approve(answer.operation_id, self._episode.authority_ref)
        if until_ms is None:
            return
        self._approved = True
        self._log("authorize")
        if self._episode.branch_cancelled and self._episode.branch_ref is not None:
            self._product.cancel(self._episode.branch_ref)
            self._log("cancel-branch", branch_ref=self._episode.branch_ref)
        if self._episode.authority_expired:
            time.sleep(max(0.0, until_ms / 1000 - time.time()) + 0.1)
            self._log("authority-lapsed")

    def _retries(self) -> None:
        """What an agent does that does not wait: a storm, or the same order in other words. Once in a trial."""
        if self._went_wrong_again:
            return
        self._went_wrong_again = True
        if self._episode.fault == "retry-storm":
            for answer in self._product.perform(self._call, times=self._episode.retries):
                self._said("storm-retry", answer)
        if (call := reworded(self._episode, self._call)) is not None:
            for answer in self._product.perform(call):
                self._said("resynthesized", answer)

    def _said(self, action: str, answer: Answer) -> None:
        self._log(action, outcome=answer.result, reason=answer.reason)

    def _log(self, action: str, **about: Any) -> None:
        self.played.log.append({"action": action, **about})
