"""What a look-up asks and answers: shared by the SDK (verification right after a call) and the reconciler (later).

A probe is a read. It answers for the operation that it is asked about, never for a similar one.

Source: docs/semantics.md §6, §7.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from landed.core.vocabulary import EffectStatus


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose effect is looked up, and by what."""

    tenant_id: str
    operation_id: str
    """What the provider was given as key or reference."""
    group_id: str | None = None
    tool: str
    attempt: int
    """The attempt whose effect is looked for."""
    request_hash: str | None = None
    stored_args: Mapping[str, Any] = {}
    """The arguments that the contract keeps; there are no others."""
    references: tuple[str, ...] = ()
    """Provider references that were seen, oldest first; a verification gets the one that the answer showed."""
    dispatched_at_ms: int | None = None
    """When the attempt was granted, milliseconds since the epoch, UTC."""
    timeout_s: float | None = None
    """How long the probe may take, in seconds."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The effect was found. It counts only if `matched_on` meets the contract's `minimum_evidence`."""

    reference: str | None = None
    receipt: Mapping[str, Any] | None = None
    """Fields of the provider's object; what is not among `receipt_fields` is dropped."""
    matched_on: tuple[str, ...]
    """Fields that were equal, such as `operation_id`."""
    status: EffectStatus | str = EffectStatus.SETTLED
    """Besides `settled`, `pending`, `failed` and `removed` a word of the provider that the contract lists in `removed_when`."""
    provider_time_ms: int | None = None
    """The provider's own time of the record, milliseconds since the epoch, UTC."""
    removed_at_ms: int | None = None
    """When the effect was removed, where the provider tells; else the time of the look counts."""


class Absent(msgspec.Struct, frozen=True):
    """The provider was asked and knows of no such effect."""


class Ambiguous(msgspec.Struct, frozen=True):
    """The answer does not tell; *reason* is kept on the log, so it holds no content."""

    reason: str


ProbeAnswer: TypeAlias = Found | Absent | Ambiguous
