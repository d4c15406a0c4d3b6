"""What holds in every case, whatever its words say: the guarantees of the product, on requests that really reached a provider.

Source: docs/semantics.md §1, §2, §5, §6.
"""

from collections import defaultdict
from collections.abc import Iterator

from landed.core.state import COMPENSATE, Route
from landed.testing.cases.provider import Request, Subject
from landed.testing.cases.world import World


def broken_guarantees(world: World) -> tuple[str, ...]:
    """Guarantees that the case broke, in words."""
    return (*_requests(world), *_rebuild(world))


def _requests(world: World) -> Iterator[str]:
    by_subject: dict[Subject, list[Request]] = defaultdict(list)
    for _, request in world.provider.log:
        for subject in request.items.values() or (request.subject,):
            by_subject[subject].append(request)
    for subject, requests in by_subject.items():
        route, name = _route(world, subject), world.op_of(*subject)
        operation, frozen = route.operation(subject[1]), any(one.frozen_at for one in route.operations.values())
        if operation.final or frozen or (world.log_was_cut and not operation.attempts):
            continue  # what its attempts said was taken from the log, or cannot be read
        granted = sum(not attempt.released for attempt in operation.attempts)
        if len(requests) > granted + world.repeated[subject]:
            yield f"{name}: {len(requests)} requests for {granted} granted attempts"
        if len({request.key for request in requests if not request.items}) > 1:
            yield f"{name}: several keys for one operation"
        hashes = {request.request_hash for request in requests} - {None}
        if hashes - {operation.request_hash}:
            yield f"{name}: a request was sent that was not the one on record"


def _route(world: World, subject: Subject) -> Route:
    tenant_id, operation_id = subject
    route = world.ledger.tables.route_of.get(subject, operation_id.removeprefix(COMPENSATE))
    return world.ledger.route(route, tenant=tenant_id)


def _rebuild(world: World) -> Iterator[str]:
    """A rebuild gives the same state; where retention or an operator took from the log there is nothing to compare."""
    if world.log_was_cut:
        return
    before = dict(world.ledger.tables.routes)
    world.ledger.rebuild()
    different = [key[1] for key, route in before.items() if world.ledger.tables.routes.get(key) != route]
    if different:
        yield f"a rebuild from the log gives another state of {', '.join(sorted(different)[:3])}"
