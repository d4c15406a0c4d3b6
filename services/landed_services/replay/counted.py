"""What a run of a log under other terms tells: the first difference of each operation, and how many of which kind. Pure."""

from typing import Final

import msgspec

from landed_services.replay.compared import By

_UNKNOWN: Final = {
    "granted": "what the provider would have answered to a call that was never made",
    "let through": "what the provider would have answered to a call that was never made",
    "refused": "what the caller would have done then, and what a person would have said",
    "retried": "whether it would have been granted, and what the provider would have answered",
    "looked up": "what the look would have shown",
    "looked up again later": "what the next look would have shown",
    "compensated": "whether the ledger would have allowed the inverse, and what the provider would have answered",
    "allowed": "what the provider would have answered to the inverse",
    "denied": "what a person would have decided",
    "escalated": "what a person would have decided",
    "handed over": "what a person would have decided",
    "left": "what its caller or a person would have done",
}


def unknown_after(word: str) -> str:
    """What nobody can know of the history that would have followed."""
    plain = "looked up" if word not in _UNKNOWN and word.startswith("looked up") else word
    return _UNKNOWN.get(plain, "what would have followed")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision about an operation that would have been another one."""

    at_ms: int
    """Append time of the event; where nothing was recorded, when it would have been (milliseconds, UTC)."""
    partition: int
    offset: int
    tenant_id: str
    route: str
    operation_id: str
    tool: str | None
    event: str
    """What stands there on the log: the decision itself, or the event at which one would have been made."""
    recorded: str
    instead: str
    what: str
    """Such as `granted instead of refused`."""
    by: By
    unknown: str
    """What cannot be known from here on."""


class Tally(msgspec.Struct, kw_only=True):
    """Counts of one run."""

    events: int = 0
    decisions: int = 0
    """Of the ledger and its reconciler."""
    same: int = 0
    after: int = 0
    """Decisions that rest on a history that would not have been: nobody can say what they would be."""
    unjudged: dict[str, int] = {}
    """Decisions that cannot be judged for another reason."""
    not_taken: int = 0
    """Records that this release cannot read."""
    operations: int = 0
    """Operations that would have gone another way."""
    by_tool: dict[str, dict[str, int]] = {}
    """Of each tool: operations by what would have been."""

    def count(self, one: Difference) -> None:
        self.operations += 1
        of_tool = self.by_tool.setdefault(one.tool or "", {})
        of_tool[one.what] = of_tool.get(one.what, 0) + 1

    def leave(self, why: str) -> None:
        """A decision cannot be judged."""
        self.unjudged[why] = self.unjudged.get(why, 0) + 1
