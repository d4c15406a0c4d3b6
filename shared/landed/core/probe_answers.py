"""What a probe answers, as the core takes it: checked values, nothing of the provider's own text. Pure.

Source: docs/semantics.md §7.
"""

import msgspec

from landed.core.vocabulary import EffectStatus


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The provider has a record of the effect."""

    reference: str | None = None
    receipt: str | None = None
    """JSON, redacted."""
    matched_on: tuple[str, ...]
    """Fields of the record that are ours beyond doubt: `operation_id`, `reference`, …; compared with `minimum_evidence`."""
    status: EffectStatus = EffectStatus.SETTLED
    provider_time_ms: int | None = None
    removed_at_ms: int | None = None


class Absent(msgspec.Struct, frozen=True):
    """The provider has no such record."""


class Ambiguous(msgspec.Struct, frozen=True):
    """Records that might be ours; `reason` is shown to a person."""

    reason: str


class ProbeFailed(msgspec.Struct, frozen=True):
    """The look itself failed: nothing is known from it. `error` is a class or code, never content."""

    error: str


ProbeAnswer = Found | Absent | Ambiguous | ProbeFailed
