"""The operations behind the effects on a provider's list, and whether the view has reached the end that the log had."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from landed.adapters.postgres.bodies import operation_of
from landed.adapters.postgres.connections import translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.core.news import About
from landed.core.sweeping import Effect


def marked_operations(
    settings: PostgresSettings, connection: Any, tenant_id: str, effects: Sequence[Effect]
) -> list[About | None]:
    """For each of *effects* the operation that it is marked with, else the one that has its reference; None: there is none.

    Raises:
        DatabaseError: the view could not be read.
    """
    names = {
        "tenant_id": escaped(tenant_id),
        "operation_ids": [escaped(effect.operation_id) for effect in effects],
        "references": [escaped(effect.reference) for effect in effects],
    }
    with translated(settings):
        rows = connection.execute(statement("marked_operations"), names, binary=True).fetchall()
    found: list[About | None] = [None] * len(effects)
    for number, route, group_id, body in rows:
        about = About(route=unescaped(route), group_id=unescaped(group_id), operation=operation_of(body))
        known = found[number - 1]
        if known is None or _is_nearer(about, known, effects[number - 1]):
            found[number - 1] = about
    return found


def _is_nearer(one: About, other: About, effect: Effect) -> bool:
    """An operation that has the very reference is nearer than one that only bears the id: an id may be known under two routes."""

    def nearness(about: About) -> tuple[bool, bool]:
        operation = about.operation
        has_reference = any(known.value == effect.reference for known in operation.references)
        return operation.operation_id == effect.operation_id, has_reference

    return nearness(one) > nearness(other)


def news_on_record(
    settings: PostgresSettings, connection: Any, tenant_id: str, endpoint: str, webhook_ids: Sequence[str]
) -> set[str]:
    """Those of *webhook_ids* under which a message of *endpoint* is on record.

    Raises:
        DatabaseError: the view could not be read.
    """
    names = {
        "tenant_id": escaped(tenant_id),
        "endpoint": escaped(endpoint),
        "webhook_ids": [escaped(webhook_id) for webhook_id in webhook_ids],
    }
    with translated(settings):
        rows = connection.execute(statement("news_on_record"), names).fetchall()
    return {unescaped(webhook_id) for (webhook_id,) in rows}


def has_reached(settings: PostgresSettings, connection: Any, ends: Mapping[int, int], *, timeout_s: float) -> bool:
    """Whether the view holds everything before *ends* (next offsets by partition), waiting for it up to *timeout_s*.

    Raises:
        DatabaseError: the view could not be read.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        with translated(settings):
            rows = connection.execute(statement("positions")).fetchall()
        folded = {row[0]: row[3] for row in rows}
        if all(folded.get(partition, 0) >= end for partition, end in ends.items()):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
