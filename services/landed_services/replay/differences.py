"""What changed between two points of a log, operation by operation. Pure."""

from collections.abc import Iterator

import msgspec

from landed.core.state import Operation, Route, shown_outcome
from landed.core.wording import label
from landed_services.replay.scope import RouteKey
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
    before, after = _told(story, earlier), _told(story, later)
    for key in sorted(before.keys() | after.keys(), key=lambda one: (one[0], one[1] or "")):
        (tenant_id, route), name = key
        then, now = before.get(key, {}), after.get(key, {})
        for field in dict.fromkeys((*then, *now)):
            if then.get(field) != now.get(field):
                yield Change(
                    tenant_id=tenant_id,
                    route=route,
                    operation_id=name,
                    field=field,
                    before=then.get(field),
                    after=now.get(field),
                )


def _told(story: Story, cut: int | None) -> dict[tuple[RouteKey, str | None], dict[str, str]]:
    found: dict[tuple[RouteKey, str | None], dict[str, str]] = {}
    for route, operation in story.operations(cut):
        key = (route.tenant_id, route.route)
        if route.version:
            found[key, None] = {"group_state": str(route.group_state)}
        found[key, operation.operation_id] = facts(route, operation)
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
