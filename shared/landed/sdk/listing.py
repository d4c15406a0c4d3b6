"""What a sweep asks a tool's list probe, and what that answers: the effects that the provider has of a span of time."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from landed.core.vocabulary import EffectStatus


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose effects of which time are asked for."""

    tenant_id: str
    tool: str
    from_ms: int
    """Milliseconds since the epoch, UTC; effects made at or after it."""
    to_ms: int
    """Effects made before it."""
    timeout_s: float
    """How long the listing may take, in seconds."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One effect that the provider shows."""

    reference: str
    """The provider's own id of it."""
    operation_id: str | None = None
    """Our mark: the operation id that the provider was given as key or reference; None: it carries none."""
    provider_time_ms: int | None = None
    """When it was made, by the provider's clock."""
    status: EffectStatus = EffectStatus.SETTLED


Listing: TypeAlias = Iterable[Listed]
ListFunction: TypeAlias = Callable[[ListRequest], Listing | Awaitable[Listing] | AsyncIterable[Listed]]
