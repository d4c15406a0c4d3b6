"""What the fold of one event says about its operations, counted. The caller sees to it that each event is given once.

Source: docs/semantics.md §3, §7, §10.
"""

from typing import Final, NamedTuple

import msgspec

from landed.core import events as ev
from landed.core.fold import Folded
from landed.core.inverse import Obstacle
from landed.core.policy import CEILING, EVERY
from landed.core.state import Operation, Route, shown_outcome
from landed.core.statements import disagrees
from landed.core.vocabulary import EscalationReason, Mark, State
from landed_services.metrics.catalogue import Metrics


class Applied(NamedTuple):
    """An event that was folded and accepted."""

    entry: ev.Entry
    before: Route
    folded: Folded


def count_applied(metrics: Metrics, applied: Applied) -> None:
    """Counts what *applied* changed."""
    entry, before, folded = applied
    for name in folded.touched:
        was, now = before.operation(name), folded.route.operation(name)
        if was.state is not now.state or was.doubt_since_ms != now.doubt_since_ms:
            _count_moves(metrics, was, now, _labels(metrics, folded.route, now, entry.event), entry.at_ms)
    _count_event(metrics, applied)


_SKIPPED: Final = frozenset({EscalationReason.SKIPPED, EscalationReason.IRREVERSIBLE})
HANDED_OVER: Final = "handed_over"
"""A reason beside those of a plan: the compensator gave up: nothing here performs it, or what it requires is unmet."""


def _why(event: ev.OperationEscalated) -> str:
    """Why an inverse was skipped: one of the reasons of a plan, whatever a writer says."""
    try:
        said = msgspec.json.decode(event.evidence or "{}", type=dict[str, object])
        return Obstacle(str(said.get("why"))).value
    except (msgspec.MsgspecError, ValueError):
        return HANDED_OVER


def layer_of(key: str) -> str:
    """Layer of the ceiling *key*: `effect_type`, or `every` for one over all effect types."""
    return "every" if key == CEILING + EVERY else "effect_type"


def _count_moves(metrics: Metrics, was: Operation, now: Operation, labels: tuple[str, ...], at_ms: int) -> None:
    outcome = shown_outcome(now)
    if outcome is not None and outcome is not shown_outcome(was):
        metrics.classified.labels(outcome.value, *labels).inc()
    if was.doubt_since_ms is not None and now.doubt_since_ms is None:
        metrics.resolution_seconds.labels(*labels).observe(max(0, at_ms - was.doubt_since_ms) / 1000)
        metrics.resolution_probes.labels(*labels).observe(max(was.checks, now.checks))
    if now.state is State.COMPENSATED and was.state is not State.COMPENSATED:
        metrics.compensations.labels("compensated", *labels).inc()
    if now.state is State.ESCALATED and was.state is not State.ESCALATED:
        if now.escalated_for is EscalationReason.INVERSE_FAILED:
            metrics.compensations.labels("failed", *labels).inc()
        metrics.escalated.labels("" if now.escalated_for is None else now.escalated_for.value, *labels).inc()
        if now.escalated_for is EscalationReason.CONFLICT:
            metrics.conflicts.labels(*labels).inc()


def _count_event(metrics: Metrics, applied: Applied) -> None:
    entry, before, folded = applied
    event = entry.event
    if isinstance(event, ev.BreakerChanged) and '"state":"open"' in (event.new or ""):
        labels = metrics.operation_labels(tenant_id=event.tenant_id, policy_version=event.policy_version)
        metrics.breaker_openings.labels(layer_of(event.scope), *labels).inc()
    if event.operation_id is None:
        return
    operation = folded.route.operation(event.operation_id)
    if folded.mark is Mark.DUPLICATE_EFFECT:
        metrics.duplicates.labels(*_labels(metrics, folded.route, operation, event)).inc()
    elif folded.mark is Mark.CONTRADICTION:
        metrics.conflicts.labels(*_labels(metrics, folded.route, operation, event)).inc()
    if isinstance(event, ev.ProbeRecorded):
        metrics.probes.labels(event.result.value, *_labels(metrics, folded.route, operation, event)).inc()
    elif isinstance(event, ev.OperationPrepared) and not operation.is_inverse and not operation.compensation:
        metrics.without_inverse.labels(*_labels(metrics, folded.route, operation, event)).inc()
    elif isinstance(event, ev.DispatchGranted) and not all(one.released for one in operation.attempts[:-1]):
        kind = "inverse" if operation.is_inverse else "forward"
        metrics.retries.labels(kind, *_labels(metrics, folded.route, operation, event)).inc()
    elif isinstance(event, ev.OperationEscalated) and event.reason in _SKIPPED:
        metrics.compensations_skipped.labels(_why(event), *_labels(metrics, folded.route, operation, event)).inc()
    elif isinstance(event, ev.AgentStatement) and disagrees(event.claimed_state, before.operation(event.operation_id)):
        metrics.disagreements.labels(*_labels(metrics, folded.route, operation, event)).inc()


def _labels(metrics: Metrics, route: Route, operation: Operation, event: ev.Event) -> tuple[str, ...]:
    return metrics.operation_labels(
        tenant_id=route.tenant_id,
        tool=operation.tool,
        workflow_type=route.workflow_type,
        policy_version=event.policy_version or _policy_version(operation),
    )


def _policy_version(operation: Operation) -> str | None:
    """What the operation was last granted under; before any grant, what its approval was asked for under."""
    if operation.attempts:
        return operation.attempts[-1].policy_version
    return operation.approvals[-1].policy_version if operation.approvals else None
