"""A person sets or removes a policy; who and why stand beside it on the log (semantics.md §9, §10)."""

from typing import Any

import msgspec

from landed.adapters.authorizing import check
from landed.core import events as ev
from landed.core.policy import check_key, parsed, policy_json, policy_route
from landed.core.state import Route
from landed.ports.log import EventLog
from landed_services.people.appending import put
from landed_services.people.errors import DecisionRefused, NotThere, PeopleError
from landed_services.queries.policies import policy_routes


class PolicySet(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that holds from now on: every claim that is decided after this answer is decided by it."""

    key: str
    version: int
    value: Any
    changed: bool
    """False: it said so before."""


def set_policy(
    log: EventLog, connection: Any, tenant_id: str, key: str, text: str | None, *, who: str, why: str, version: int | None = None
) -> PolicySet:
    """Sets the policy *key* of *tenant_id* to the JSON *text*, or removes it (None), and waits until it holds.

    Args:
        version: the version that *who* saw; None: whatever it is now.

    Raises:
        PolicyError: key or value breaks a rule; lists every one.
        PeopleError: who or why is missing.
        NotThere: there is no such policy to remove.
        DecisionRefused: somebody else changed it meanwhile.
        NotSeenYet, AppendFailed: see `put`.
    """
    check_key(key)
    value = None if text is None else parsed(key, text)
    if value is not None:
        check(key, value)
    new = None if value is None else policy_json(value)
    for field, said in (("who", who), ("why", why)):
        if not said.strip():
            raise PeopleError(f"{field}: must not be empty")
    route = policy_route(key)
    held = next(
        (one for one in policy_routes(connection, tenant_id) if one.route == route), Route(tenant_id=tenant_id, route=route)
    )
    if version is not None and version != held.version:
        raise DecisionRefused(_overtaken(key, held.version))
    if new == held.policy and not held.frozen_at:
        if new is None:
            raise NotThere(f"there is no policy {key}: landed policies list")
        return PolicySet(key=key, version=held.version, value=msgspec.json.decode(new), changed=False)
    event = ev.PolicyChanged(
        event_id="",
        tenant_id=tenant_id,
        route=route,
        actor=who,
        seen_version=held.version,
        scope=key,
        old=held.policy,
        new=new,
        who=who,
        why=why,
    )
    folded = put(log, connection, event)
    if not folded.accepted:
        raise DecisionRefused(_overtaken(key, held.version + 1))
    return PolicySet(key=key, version=held.version + 1, value=None if new is None else msgspec.json.decode(new), changed=True)


def _overtaken(key: str, version: int) -> str:
    return (
        f"policy {key} was changed by somebody else: it is at version {version} or later. Look again: landed policies show {key}"
    )
