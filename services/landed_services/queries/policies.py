"""Policies of a tenant as people read them, with who changed what and why. Presentation-free."""

from collections.abc import Iterable
from typing import Any

import msgspec

from landed.adapters.postgres.bodies import route_of_body
from landed.adapters.postgres.escaping import escaped
from landed.adapters.postgres.statements import statement
from landed.core import events as ev
from landed.core.policy import policies_of, policy_route
from landed.core.state import POLICY_ROUTE, Route
from landed.wire.codec import decode
from landed.wire.errors import DecodeError

LIMIT = 200


class PolicyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A policy as it holds now."""

    key: str
    version: int
    value: Any
    """None: it was removed."""
    readable: bool = True
    """False: this release cannot read it, and refuses what it might forbid."""


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a policy."""

    key: str
    at_ms: int
    version: int
    """The version that it made; of a refused one that which it would have made."""
    old: Any
    new: Any
    who: str
    why: str
    accepted: bool
    reason: str | None = None
    """Why the fold refused it."""


def policy_routes(connection: Any, tenant_id: str) -> list[Route]:
    """The routes that the policies of *tenant_id* are folded into."""
    rows = connection.execute(statement("policies_of_tenant"), {"tenant_id": escaped(tenant_id)}).fetchall()
    return [route_of_body(bytes(body)) for (body,) in rows]


def policies(connection: Any, tenant_id: str) -> list[PolicyShown]:
    """Every policy that *tenant_id* ever set, by key."""
    routes = policy_routes(connection, tenant_id)
    unreadable = policies_of(routes).unreadable
    shown = []
    for route in routes:
        key = route.route[len(POLICY_ROUTE) :]
        if route.version or route.frozen_at:
            shown.append(
                PolicyShown(key=key, version=route.version, value=_document(route.policy), readable=key not in unreadable)
            )
    return shown


def observing_tools(connection: Any, tenant_id: str, tools: Iterable[str]) -> frozenset[str]:
    """Those of *tools* that *tenant_id* runs in observe mode now."""
    known = policies_of(policy_routes(connection, tenant_id))
    return frozenset(tool for tool in tools if known.rules(tool).observe)


def policy_history(connection: Any, tenant_id: str, *, key: str | None = None, limit: int = LIMIT) -> list[PolicyChange]:
    """Changes of the policies of *tenant_id*, newest first; refused ones too."""
    parameters = {
        "tenant_id": escaped(tenant_id),
        "route": None if key is None else escaped(policy_route(key)),
        "limit": limit,
    }
    changes = []
    for at_ms, accepted, reason, value in connection.execute(statement("policy_history"), parameters).fetchall():
        try:
            event = decode(bytes(value))
        except DecodeError:
            continue
        if isinstance(event, ev.PolicyChanged):
            changes.append(
                PolicyChange(
                    key=event.scope,
                    at_ms=at_ms or 0,
                    version=event.seen_version + 1,
                    old=_document(event.old),
                    new=_document(event.new),
                    who=event.who,
                    why=event.why,
                    accepted=accepted,
                    reason=reason,
                )
            )
    return changes


def _document(text: str | None) -> Any:
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
