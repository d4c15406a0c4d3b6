"""Comparing a provider's list with the ledger: what one effect on it is to us, and which event says so. Pure; a sweep runs it.

Source: docs/semantics.md §3, §7; docs/contracts.md, "Sweeping".
"""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from landed.core import events as ev
from landed.core.news import ROUTE, About
from landed.core.vocabulary import EffectStatus, Source, State

SWEEP: Final = "sweep"
"""Actor of what is found so: all sweeps are one, so that finding the same again appends nothing new."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One effect on the provider's list."""

    reference: str
    operation_id: str | None
    """Our mark on it; None: it carries none."""
    provider_time_ms: int | None
    status: EffectStatus


class Finding(StrEnum):
    """What an effect on the list is to the ledger."""

    MATCHED = "matched"
    """On record, with this reference; or nothing follows from its status."""
    UNDER_WAY = "under_way"
    """Its call has not ended: its holder will say."""
    UNMARKED = "unmarked"
    """Carries no mark of ours, and its reference is on no record."""
    UNMATCHED = "unmatched"
    """Carries our mark, and there is no such operation."""
    UNRECORDED = "unrecorded"
    """Its operation is known, and of this effect nothing is on record."""
    SIMILAR = "similar"
    """It bears the id of an operation that it cannot belong to: another tool's, or below the minimum evidence."""


FOLLOWS: Final = frozenset({Finding.UNMATCHED, Finding.UNRECORDED})
"""Findings of which an event is appended."""
_EXISTS: Final = frozenset({EffectStatus.SETTLED, EffectStatus.REMOVED})


def finding(effect: Effect, about: About | None, *, tool: str) -> Finding:
    """What *effect* is, given the operation that it marks or whose reference it has."""
    if about is None:
        return Finding.UNMARKED if effect.operation_id is None else Finding.UNMATCHED
    operation = about.operation
    if operation.final or any(known.value == effect.reference for known in operation.references):
        return Finding.MATCHED
    if operation.tool != tool:
        return Finding.SIMILAR
    if operation.state is State.DISPATCHED:
        return Finding.UNDER_WAY
    if effect.status not in _EXISTS or (effect.status is EffectStatus.REMOVED and effect.provider_time_ms is None):
        return Finding.MATCHED
    contract = operation.contract
    enough = contract is not None and set(contract.minimum_evidence) <= {"operation_id"}
    return Finding.UNRECORDED if enough else Finding.SIMILAR


def endpoint_of(tool: str) -> str:
    """The endpoint that news of a sweep of *tool* names."""
    return f"{SWEEP}:{tool}"


def said(
    effect: Effect, about: About | None, *, tenant_id: str, tool: str, by: str = SWEEP
) -> ev.UnmatchedNews | ev.OutcomeConfirmed:
    """The event of an effect that is `unmatched` or `unrecorded`, without `event_id`.

    Its id follows from it: a second sweep by the same person that finds the same says the same, whatever happened in between.

    Args:
        by: who sweeps.
    """
    if about is None:
        digest = hashlib.sha256(msgspec.json.encode(effect, order="deterministic")).hexdigest()
        endpoint = endpoint_of(tool)
        return ev.UnmatchedNews(
            event_id="",
            tenant_id=tenant_id,
            route=f"{ROUTE}{endpoint}",
            actor=by,
            webhook_id=effect.reference,
            endpoint=endpoint,
            reference=effect.reference,
            status=effect.status,
            provider_time_ms=effect.provider_time_ms,
            digest=digest,
            tools=[tool],
            operation_key=effect.operation_id,
            source=Source.SWEEP,
        )
    return ev.OutcomeConfirmed(
        event_id="",
        tenant_id=tenant_id,
        route=about.route,
        operation_id=about.operation.operation_id,
        group_id=about.group_id,
        actor=by,
        source=Source.SWEEP,
        reference=effect.reference,
        matched_on=["operation_id"],
        provider_time_ms=effect.provider_time_ms,
        removed_at_ms=effect.provider_time_ms if effect.status is EffectStatus.REMOVED else None,
    )
