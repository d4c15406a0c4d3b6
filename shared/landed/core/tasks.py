"""Review tasks: how a reason opens one, and what news leaves of it.

Source: docs/semantics.md §10.
"""

from msgspec.structs import replace

from landed.core.state import Operation, ReviewTask
from landed.core.vocabulary import EscalationReason, Mark, State


def opened(operation: Operation, reason: EscalationReason | Mark, at_ms: int, queue: str | None = None) -> Operation:
    """*operation* with *reason* on its review task: a new number each time, so an older choice is refused (§10)."""
    task, number = operation.review, operation.reviews + 1
    contract = operation.contract
    name = queue or (task.queue if task else None) or (contract.queue if contract else "default")
    reasons = (*(task.reasons if task else ()), str(reason))
    opened = ReviewTask(review_id=number, opened_at_ms=task.opened_at_ms if task else at_ms, reasons=reasons, queue=name)
    marks = (*operation.marks, reason) if isinstance(reason, Mark) else operation.marks
    return replace(operation, review=opened, reviews=number, marks=marks)


def escalated(operation: Operation, reason: EscalationReason, at_ms: int, queue: str | None = None) -> Operation:
    moved = replace(operation, state=State.ESCALATED, escalated_for=reason, next_check_at_ms=None)
    return opened(moved, reason, at_ms, queue)


def without_doubt_task(operation: Operation) -> Operation:
    """The open task closed as far as it is about doubt; marks keep it open (§3: news closes the task by itself)."""
    task = operation.review
    if task is None:
        return operation if operation.escalated_for is None else replace(operation, escalated_for=None)
    marks = tuple(reason for reason in task.reasons if reason in set(Mark))
    left = replace(task, reasons=marks) if marks else None
    return replace(operation, review=left, escalated_for=None)
