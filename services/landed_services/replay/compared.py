"""One recorded decision beside what would be decided from the same facts. Pure.

What a decision saw is not recorded whole: its clock, the events of its group that it had read, what its process could do. So it
is tried under every variant that is possible, and is the same where one of them leads to it. Under other terms only the variants
that explain it are asked.
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

    Raises:
        ValueError: there are no variants.
    """
    fitting: list[V] = []
    first: V | None = None
    for variant in variants:
        first = variant if first is None else first
        if old(variant) == recorded:
            if new is None:
                return None
            fitting.append(variant)
    if first is None:
        raise ValueError("a decision is tried under at least one variant")
    if not fitting:
        found = old(first)
        told = None if new is None else new(first)
        return Other(instead=told if isinstance(told, Said) else found, by=By.BUILD)
    if new is None:
        return None
    answers = [new(one) for one in fitting]
    if recorded in answers:
        return None
    known = next((one for one in answers if isinstance(one, Said)), None)
    if known is not None:
        return Other(instead=known, by=By.TERMS)
    return next(one for one in answers if isinstance(one, Unjudged))
