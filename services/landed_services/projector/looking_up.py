"""What a turn has to look up in the tables, by what it read and what waits. Pure."""

from collections.abc import Sequence

from landed.adapters.postgres.routes import RouteKey
from landed.core import events as ev
from landed.core.asked import possible_references
from landed.core.policy import policy_route
from landed.core.projection import claim_in
from landed.core.state import COMPENSATE
from landed_services.projector.batch import ClaimKey, Ready, View
from landed_services.projector.reading import Item
from landed_services.projector.rooms import Claimed, Told
from landed_services.projector.store import Wanted


def wanted(view: View, items: Sequence[Item], routes: Sequence[RouteKey], telling: Sequence[Told], ready: Ready) -> Wanted:
    """Routes, and for claims that may be decided where else their ids are known.

    Args:
        items: what is read and not folded.
        routes: wanted whatever waits.
        telling: breakers of which the log is to be told.
    """
    waiting = [one.entry for one in view.waiting.values() if ready(one.entry.position.partition)]
    keys = [*routes, *((entry.event.tenant_id, entry.event.route) for entry in waiting)]
    keys += [(one.tenant_id, policy_route(one.key)) for one in telling]
    read = [item.what for item in items if isinstance(item.what, ev.Entry) and ready(item.what.position.partition)]
    claims: dict[ClaimKey, None] = {}
    ids: dict[tuple[str, str], None] = {}
    tenants = {one.tenant_id for one in telling}
    references: dict[str, None] = {}
    for entry in [*waiting, *read]:
        event, claim = entry.event, claim_in(entry.event)
        if claim is None or event.operation_id is None:
            continue
        held = view.routes.get((event.tenant_id, event.route))
        known = None if held is None else held.route.operations.get(event.operation_id)
        tenants.add(event.tenant_id)
        if event.operation_id.startswith(COMPENSATE):
            given = (
                event.stored_args if isinstance(event, ev.OperationPrepared) else None,
                None if known is None else known.stored_args,
            )
            references |= dict.fromkeys(one for text in given for one in possible_references(text))
        if held is None or known is not None:
            claims[event.tenant_id, event.route, event.operation_id, claim.claim_id] = None
        if known is None or not known.attempts:
            ids[event.tenant_id, event.operation_id] = None
    missing = dict.fromkeys(key for key in keys if key not in view.routes)
    return Wanted(
        routes=list(missing),
        operation_ids=list(ids),
        claims=list(claims),
        tenants=frozenset(tenants),
        references=tuple(references),
    )


def claimed(view: View, ready: Ready) -> list[Claimed]:
    """What the claims that are decided now may need room for."""
    found: dict[Claimed, None] = {}
    for tenant_id, route, operation_id, _ in [key for key, one in view.waiting.items() if ready(one.entry.position.partition)]:
        operation = view.ahead((tenant_id, route)).operation(operation_id)
        if operation_id:
            found[Claimed(tenant_id, route, operation.effect_type or "", operation.resources)] = None
    return list(found)
