"""What each command changes, if anything: which ones ask first, and what is left where one is interrupted. Loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class Change(NamedTuple):
    """One command that changes something."""

    asks: bool
    """What it does cannot be taken back by another command: it asks, or takes --yes."""
    interrupted: str
    """Said after Ctrl-C: what is left, and what to do."""


_SERVICE: Final = "it had not begun; what is on the log stays"
_DECISION: Final = "the decision may be on the log already: look with `landed {} show`, then repeat it"

CHANGES: Final = {
    "up": Change(False, "what it had started is stopped again: repeat it"),
    "down": Change(True, "a server may still run: repeat it"),
    "topics": Change(False, "topics that were created stay: repeat it"),
    "schemas": Change(True, "what was registered stays: repeat it"),
    "migrate": Change(False, "migrations that were applied stay, each of them whole: repeat it"),
    "projector": Change(False, _SERVICE),
    "rebuild": Change(True, "the tables are not complete: repeat it, or start a projector, which folds the rest"),
    "reconciler": Change(False, _SERVICE),
    "compensator": Change(False, _SERVICE),
    "notifier": Change(False, _SERVICE),
    "reviews decide": Change(True, _DECISION.format("reviews")),
    "approvals approve": Change(True, _DECISION.format("approvals")),
    "approvals deny": Change(True, _DECISION.format("approvals")),
    "policies set": Change(True, _DECISION.format("policies")),
    "perform": Change(True, "the call may have been made: `landed show operation` says what is known, then repeat it"),
    "unwind": Change(True, "the request may be on the log already: look with `landed plan`, then repeat it"),
    "drill": Change(True, "what was made at the provider of the drill stays there; no result was kept"),
    "sweep": Change(False, "findings that were recorded stay: repeat it"),
    "replay export": Change(False, "no bundle was finished: repeat it"),
}
"""By the command's words."""

READS: Final = frozenset(
    {
        "asyncapi",
        "verify",
        "replay",
        "replay what-if",
        "contracts check",
        "contracts schema",
        "reviews list",
        "reviews show",
        "approvals list",
        "approvals show",
        "policies list",
        "policies show",
        "policies history",
        "breakers list",
        "breakers show",
        "show group",
        "show operation",
        "timeline",
        "tail",
        "plan",
        "observe report",
        "notifications list",
        "news list",
        "completion",
        "doctor",
    }
)
"""Those that change nothing: of the ledger, of a provider, of this machine."""
_READ: Final = "nothing was changed"


def left_behind(arguments: Sequence[str]) -> str:
    """What the command with *arguments* leaves where it is interrupted."""
    for words in (2, 1):
        known = CHANGES.get(" ".join(arguments[:words]))
        if known is not None:
            return known.interrupted
    return _READ
