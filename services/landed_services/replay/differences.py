"""What changed between two points of a log, operation by operation. Pure."""

from collections.abc import Iterator

import msgspec

from landed.core.state import Operation, Route, shown_outcome
from landed.core.wording import label
from landed_services.replay.telling import Story


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One value that is another one at the later point."""

    tenant_id: str
    route: str
    operation_id: str | None
    """None: of the group itself."""
    field: str
    before: str | None
    """None: it was not there yet."""
    after: str | None


def differences(story: Story, earlier: int | None, later: int | None) -> Iterator[Change]:
    """Changes from one cut of *story* to another (None: its end), ordered by tenant, route and operation."""
    for routes in story.routes(earlier, later):
        before, after = ({} if route is None else _told(story, route) for route in routes)
        known = next((route for route in routes if route is not None), None)
        if known is None:
            continue
        for name in sorted(before.keys() | after.keys(), key=lambda one: one or ""):
            then, now = before.get(name, {}), after.get(name, {})
            for field in dict.fromkeys((*then, *now)):
                if then.get(field) != now.get(field):
                    yield Change(
                        tenant_id=known.tenant_id,
                        route=known.route,
                        operation_id=name,
                        field=field,
                        before=then.get(field),
                        after=now.get(field),
                    )


def _told(story: Story, route: Route) -> dict[str | None, dict[str, str]]:
    """What is known of each operation of *route* in scope; under None, of the group itself."""
    found: dict[str | None, dict[str, str]] = {one.operation_id: facts(route, one) for one in story.operations_of(route)}
    if found and route.version:
        found[None] = {"group_state": str(route.group_state)}
    return found


def facts(route: Route, operation: Operation) -> dict[str, str]:
    """What is known of *operation*, as text; what is not known is left out."""
    review = operation.review
    values = {
        "state": str(operation.state),
        "shown": label(operation, route.group_state),
        "outcome": shown_outcome(operation),
        "version": operation.version,
        "attempts": operation.attempts_counted or None,
        "references": ", ".join(one.value for one in operation.references) or None,
        "receipt": operation.receipt,
        "error_code": operation.error_code,
        "review": None if review is None else f"#{review.review_id}: {', '.join(review.reasons)}",
        "marks": ", ".join(operation.marks) or None,
        "frozen_at": ", ".join(f"{one.partition}:{one.offset}" for one in operation.frozen_at) or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}
