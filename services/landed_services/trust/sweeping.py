"""Compares the list that a provider has of a tool's effects with the ledger, and records what the ledger did not know.

The list is read first, then the log's end, and only then the view, once it has got there: the intent of every effect that went
through the ledger is on the log before the effect, so what the view does not know by then never went through it.
"""

from collections import Counter
from typing import Any, Final

import msgspec

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, LogReader
from landed.adapters.postgres import PostgresSettings, connect
from landed.adapters.postgres.marked import has_reached, marked_operations, news_on_record
from landed.core.contract import Problem
from landed.core.events import TYPE_OF, Event, Position
from landed.core.news import About
from landed.core.sweeping import FOLLOWS, SWEEP, Effect, Finding, endpoint_of, finding, said
from landed.ports import Appended
from landed.sdk.errors import SettingsError
from landed.sdk.listing import ListRequest
from landed.sdk.tools import Tool
from landed.wire.ids import with_event_id
from landed_services.progress import Say, Summed
from landed_services.trust.listing import listed

CHUNK: Final = 1_000
APPEND_WAIT_S: Final = 30.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that is not simply on record."""

    finding: Finding
    reference: str
    operation_id: str | None
    provider_time_ms: int | None
    status: str
    state: str | None = None
    """State of its operation, as the view shows it before anything is appended."""
    event: str | None = None
    """What was appended about it."""
    position: Position | None = None
    """Where that stands on the log."""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep compared, and what it found."""

    tenant_id: str
    tool: str
    by: str
    """Who swept."""
    from_ms: int
    to_ms: int
    listed: int
    unreadable: int
    """Entries without a believable form: no `Listed`, or no reference as the contract declares it."""
    counts: dict[str, int]
    """Effects by finding."""
    found: tuple[Found, ...]
    """All but those on record, in the provider's order."""


def sweep(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    tool: Tool[..., Any],
    request: ListRequest,
    *,
    by: str = SWEEP,
    record: bool = True,
    view_wait_s: float = 30.0,
    say: Say | None = None,
) -> SweepReport:
    """Sweeps *tool* over the span of *request*.

    Appends `unmatched_news` for an effect that carries our mark and has no operation, and `outcome_confirmed` (source `sweep`)
    for one whose operation knows nothing of it: the fold then says whether that settles a doubt, comes late, or is a duplicate.
    Doing it again appends nothing new.

    Args:
        by: who sweeps: the actor of what is appended.
        record: False: compares only.
        view_wait_s: how long the view may take to reach the end that the log had, in seconds.
        say: told how many of the effects that the provider lists are compared.

    Raises:
        SettingsError: there is no list probe, it failed, or the view is behind the log (is a projector running?).
        LogError, DatabaseError: broker or database out of reach.
    """
    effects, odd = listed(tool, request)
    abouts, known = _behind(log_settings, database, request.tenant_id, tool.name, effects, view_wait_s, say)
    judged = [(effect, about, finding(effect, about, tool=tool.name)) for effect, about in zip(effects, abouts, strict=True)]
    found = [_found(effect, about, what) for effect, about, what in judged if what is not Finding.MATCHED]
    # What is news for the second time is on record already, whoever found it first.
    events = {
        effect.reference: with_event_id(said(effect, about, tenant_id=request.tenant_id, tool=tool.name, by=by))
        for effect, about, what in judged
        if what in FOLLOWS and not (about is None and effect.reference in known)
    }
    if record and events:
        log = KafkaEventLog(log_settings)
        try:
            places = dict(zip(events, log.append_all(list(events.values()), timeout_s=APPEND_WAIT_S), strict=True))
        finally:
            log.close()
        found = [
            _recorded(one, events[one.reference], places[one.reference]) if one.reference in places else one for one in found
        ]
    return SweepReport(
        tenant_id=request.tenant_id,
        tool=tool.name,
        by=by,
        from_ms=request.from_ms,
        to_ms=request.to_ms,
        listed=len(effects),
        unreadable=odd,
        counts=dict(sorted(Counter(str(what) for _, _, what in judged).items())),
        found=tuple(found),
    )


def _behind(
    log_settings: KafkaSettings,
    database: PostgresSettings,
    tenant_id: str,
    tool: str,
    effects: list[Effect],
    view_wait_s: float,
    say: Say | None,
) -> tuple[list[About | None], set[str]]:
    """What the view knows of *effects*: their operations, and the references that are on record as news of a sweep."""
    reader = LogReader(log_settings)
    try:
        ends = reader.end_offsets()
    finally:
        reader.close()
    found: list[About | None] = []
    known: set[str] = set()
    told = Summed(len(effects), say)
    with connect(database) as connection:
        if not has_reached(database, connection, ends, timeout_s=view_wait_s):
            rule = f"is behind the log after {view_wait_s:g} s: is a projector running? Nothing was recorded"
            raise SettingsError("sweep", [Problem("view", rule)])
        for start in range(0, len(effects), CHUNK):
            chunk = effects[start : start + CHUNK]
            found += marked_operations(database, connection, tenant_id, chunk)
            references = [one.reference for one in chunk]
            known |= news_on_record(database, connection, tenant_id, endpoint_of(tool), references)
            told(0, len(found))
    return found, known


def _found(effect: Effect, about: About | None, what: Finding) -> Found:
    return Found(
        finding=what,
        reference=effect.reference,
        operation_id=effect.operation_id if about is None else about.operation.operation_id,
        provider_time_ms=effect.provider_time_ms,
        status=effect.status,
        state=None if about is None else str(about.operation.state),
    )


def _recorded(one: Found, event: Event, appended: Appended) -> Found:
    return msgspec.structs.replace(one, event=TYPE_OF[type(event)], position=appended.position)
