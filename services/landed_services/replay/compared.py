"""One recorded decision beside what would be decided from the same facts. Pure.

What a decision saw is not recorded whole: its clock, the events of its group that it had read, what its process could do. So it
is tried under every variant that is possible, and is the same where one of them leads to it. Under other terms the variant that
explains it is asked.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec


class By(StrEnum):
    """What a difference comes from."""

    TERMS = "terms"
    """The policies or contracts that are given."""
    BUILD = "build"
    """This release decides otherwise from what is recorded."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, or would be, in a word and its reason."""

    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that would be another one."""

    instead: Said
    by: By
    unsure: str = ""
    """What it rests on that is not on record."""


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that cannot be judged, and why."""

    why: str


Found = Other | Unjudged | None
"""None: it would be the same."""
V = TypeVar("V")


def compared(
    recorded: Said, variants: Iterable[V], old: Callable[[V], Said], new: Callable[[V], Said | Unjudged] | None
) -> Found:
    """*recorded* beside the answers of *old* (the terms of its time) and *new* (those that are given; None: the same).

    Args:
        variants: the likeliest first; the first one that explains the decision counts.

    Raises:
        ValueError: there are no variants.
    """
    first: V | None = None
    for variant in variants:
        first = variant if first is None else first
        if old(variant) == recorded:
            told: Said | Unjudged = recorded if new is None else new(variant)
            if isinstance(told, Unjudged):
                return told
            return None if told == recorded else Other(instead=told, by=By.TERMS)
    if first is None:
        raise ValueError("a decision is tried under at least one variant")
    under = None if new is None else new(first)
    return Other(instead=under if isinstance(under, Said) else old(first), by=By.BUILD)
