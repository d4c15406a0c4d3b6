"""What a receiver is told: ids, state and reasons, and the command that shows the rest. No argument, receipt or evidence."""

import shlex
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from landed.adapters.postgres.notifications import ToTell
from landed.core.wording import label, sentence


def payload_of(told: ToTell) -> str:
    """JSON of a notification, in the form of Standard Webhooks: `type`, `timestamp`, `data`."""
    operation = told.operation
    review, contract = operation.review, operation.contract
    data: dict[str, Any] = {
        "tenant_id": told.tenant_id,
        "operation_id": operation.operation_id,
        "group_id": told.group_id,
        "tool": operation.tool,
        "effect_type": operation.effect_type,
        "stakes": None if contract is None else contract.stakes,
        "state": operation.state,
        "label": label(operation),
        "sentence": sentence(operation),
        "show": show_line(told),
    }
    if review is not None and told.kind != "review_settled":
        data["review"] = {
            "review_id": review.review_id,
            "reasons": list(dict.fromkeys(review.reasons)),
            "queue": review.queue,
            "opened_at": _time(review.opened_at_ms),
        }
    if told.kind == "review_aged":
        data["open_for_s"] = (told.now_ms - review.opened_at_ms) // 1000 if review is not None else None
    if told.kind == "inverse_window_closing":
        data["closes_at"] = _time(told.since_ms)
    body = {"type": told.kind, "timestamp": _time(told.now_ms), "data": data}
    return msgspec.json.encode(body).decode()


def show_line(told: ToTell) -> str:
    """The command that shows the task, or the operation where none is open."""
    operation = told.operation
    shows = ["show", "operation", operation.operation_id]
    if operation.review is not None and told.kind != "review_settled":
        shows = ["reviews", "show", f"{operation.operation_id}#{operation.review.review_id}"]
    return shlex.join(["landed", *shows, "--tenant", told.tenant_id])


_SECOND_MS: Final = 1000
_LATEST_MS: Final = 253_402_300_799_000


def _time(at_ms: int) -> str:
    moment = datetime.fromtimestamp(max(0, min(at_ms, _LATEST_MS)) / _SECOND_MS, tz=UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
