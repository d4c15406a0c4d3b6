"""What is counted about operations: each from the events that a fold took, labelled, once."""

from typing import Any

import pytest
from tests.unit.projector.support import T0, about, claim, prepared

from landed.core import events as ev
from landed.core.contract import Contract, Effect, contract_json
from landed.core.fold import empty_route, fold
from landed.core.vocabulary import BytesLeft, EscalationReason, ProbeResult, ReadKind, Source
from landed_services.metrics import Applied, Metrics, count_applied
from landed_services.metrics.labels import NAMES_MAX, OTHER, TENANTS_MAX, Capped, OperationLabels

LABELS = {"tenant": "acme", "tool": "refund", "provider": "refund", "workflow_type": "", "policy_version": ""}


class Story:
    """Events of one operation, folded one by one and counted."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.route = empty_route("acme", "op-1")
        self.offset = 0

    def then(self, event: ev.Event, at_s: float) -> "Story":
        self.offset += 1
        entry = ev.Entry(
            event=event,
            position=ev.Position(partition=0, offset=self.offset),
            at_ms=T0 + int(at_s * 1000),
            digest=str(self.offset),
        )
        folded = fold(self.route, entry)
        assert folded.accepted, folded.reason
        count_applied(self.metrics, Applied(entry, self.route, folded))
        self.route = folded.route
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {**LABELS, **labels})


def said(kind: type[ev.Event], name: str, **fields: Any) -> ev.Event:
    return kind(**{**about("op-1"), "event_id": name, **fields})


def dispatched() -> Story:
    asks = claim("c1")
    story = Story().then(prepared("op-1", asks, event_id="e1"), 0)
    grant = said(
        ev.DispatchGranted, "e2", claim_id="c1", attempt=1, lease_ms=30_000, claim_position=ev.Position(partition=0, offset=1)
    )
    return story.then(grant, 1)


def in_doubt() -> Story:
    unknown = said(ev.OutcomeUnknown, "e3", attempt=1, claim_id="c1", bytes_left=BytesLeft.YES, error_class="TimeoutError")
    return dispatched().then(unknown, 2)


def confirmed(name: str = "e9", reference: str = "re_1", **fields: Any) -> ev.Event:
    values = {"attempt": 1, "claim_id": "c1", "source": Source.WORKER, "reference": reference}
    return said(ev.OutcomeConfirmed, name, **{**values, **fields})


def probed(number: int, result: ProbeResult = ProbeResult.AMBIGUOUS) -> ev.Event:
    return said(ev.ProbeRecorded, f"p{number}", attempt=1, number=number, read_kind=ReadKind.AUTHORITATIVE, result=result)


def test_a_call_that_was_answered_counts_as_succeeded_and_as_no_doubt() -> None:
    story = dispatched().then(confirmed(), 2)
    assert story.value("landed_operations_classified_total", outcome="succeeded") == 1
    assert story.value("landed_operations_classified_total", outcome="unknown") is None
    assert story.value("landed_operation_resolution_seconds_count") is None


def test_a_doubt_is_counted_once_however_long_it_is_looked_at() -> None:
    story = in_doubt().then(probed(1), 5).then(probed(2, ProbeResult.ERROR), 9)
    assert story.value("landed_operations_classified_total", outcome="unknown") == 1
    assert story.value("landed_probes_total", result="ambiguous") == 1
    assert story.value("landed_probes_total", result="error") == 1


def test_the_end_of_a_doubt_tells_how_long_it_was_and_how_many_probes_it_took() -> None:
    story = in_doubt().then(probed(1), 5).then(probed(2, ProbeResult.FOUND), 9).then(confirmed(source=Source.PROBE), 12)
    assert story.value("landed_operation_resolution_seconds_sum") == 10
    assert story.value("landed_operation_resolution_probes_sum") == 2
    assert story.value("landed_operation_resolution_seconds_count") == 1


def escalated(reason: EscalationReason) -> ev.Event:
    return said(ev.OperationEscalated, "x1", attempt=1, reason=reason, queue="default", choices=[])


def test_a_hand_over_is_counted_by_its_reason_and_a_conflict_also_as_one() -> None:
    gave_up = in_doubt().then(escalated(EscalationReason.DEADLINE), 9)
    assert gave_up.value("landed_operations_escalated_total", reason="deadline") == 1
    assert gave_up.value("landed_conflicts_total") is None
    torn = in_doubt().then(escalated(EscalationReason.CONFLICT), 9)
    assert torn.value("landed_operations_escalated_total", reason="conflict") == 1
    assert torn.value("landed_conflicts_total") == 1


def test_a_second_effect_is_counted() -> None:
    story = dispatched().then(confirmed(), 2).then(confirmed("e10", "re_2", source=Source.WEBHOOK), 3)
    assert story.value("landed_duplicate_effects_total") == 1


@pytest.mark.parametrize(("claimed", "counted"), [("succeeded", 1), ("unknown", None)])
def test_a_statement_counts_when_the_ledger_would_say_something_else(claimed: str, counted: int | None) -> None:
    story = in_doubt().then(said(ev.AgentStatement, "s1", message_digest="d", claimed_state=claimed), 4)
    assert story.value("landed_statement_disagreements_total") == counted


def test_the_labels_say_workflow_and_policy_where_they_are_known() -> None:
    opened = ev.GroupOpened(
        event_id="g1", tenant_id="acme", route="g-1", group_id="g-1", actor="agent-1", workflow_type="returns", intent_ref="i"
    )
    story = Story()
    story.route = empty_route("acme", "g-1")
    story.then(opened, 0)
    story.then(prepared("op-1", claim("c1"), route="g-1", event_id="e1"), 0)
    grant = ev.DispatchGranted(
        **{**about("op-1", "g-1"), "event_id": "e2", "claim_id": "c1", "attempt": 1, "lease_ms": 30_000},
        claim_position=ev.Position(partition=0, offset=1),
    )
    story.then(grant, 1)
    outcome = ev.OutcomeConfirmed(
        **{**about("op-1", "g-1"), "event_id": "e3", "attempt": 1, "claim_id": "c1", "source": Source.WORKER},
        policy_version="7",
        reference="re_1",
    )
    story.then(outcome, 2)
    found = story.value("landed_operations_classified_total", outcome="succeeded", workflow_type="returns", policy_version="7")
    assert found == 1


def test_what_becomes_of_a_call_is_told_under_the_policies_that_it_was_granted_under() -> None:
    story = Story().then(prepared("op-1", claim("c1"), event_id="e1"), 0)
    at = ev.Position(partition=0, offset=1)
    granted = {"claim_id": "c1", "attempt": 1, "lease_ms": 30_000, "claim_position": at, "policy_version": "tool:*@1"}
    grant = said(ev.DispatchGranted, "e2", **granted)
    unknown = said(ev.OutcomeUnknown, "e3", attempt=1, claim_id="c1", bytes_left=BytesLeft.YES, error_class="TimeoutError")
    story.then(grant, 1).then(unknown, 2).then(confirmed(), 5)
    granted_under = {"policy_version": "tool:*@1"}
    assert story.value("landed_operations_classified_total", outcome="unknown", **granted_under) == 1
    assert story.value("landed_operation_resolution_seconds_sum", **granted_under) == 3


def test_tenants_beyond_the_fiftieth_share_a_label() -> None:
    labels = OperationLabels()
    found = [labels(tenant_id=f"t-{number}")[0] for number in range(TENANTS_MAX + 2)]
    assert found == [*(f"t-{number}" for number in range(TENANTS_MAX)), OTHER, OTHER]
    assert labels(tenant_id="t-0")[0] == "t-0"


def test_no_label_has_more_values_than_its_cap() -> None:
    labels = OperationLabels()
    names = ("tool", "workflow_type", "policy_version")
    found = [labels(tenant_id="t", **dict.fromkeys(names, f"n-{number}")) for number in range(NAMES_MAX + 5)]
    assert [len(set(column)) for column in zip(*found, strict=True)] == [1, *[NAMES_MAX + 1] * 4]


def test_the_provider_is_the_one_named_for_the_tool_else_the_tool_itself() -> None:
    labels = OperationLabels({"refund": "stripe"})
    assert [labels(tenant_id="t", tool=tool)[2] for tool in ("refund", "mail", None)] == ["stripe", "mail", ""]


def test_no_value_is_no_label() -> None:
    capped = Capped(1)
    assert [capped(value) for value in (None, "", "a", "b")] == ["", "", "a", OTHER]


def test_an_operation_that_nothing_takes_back_is_counted_when_it_is_prepared() -> None:
    kept = Story().then(prepared("op-1", claim("c1"), event_id="e1", compensation=[]), 0)
    assert kept.value("landed_operations_without_inverse_total") == 1
    undone = Story().then(prepared("op-1", claim("c1"), event_id="e1", compensation=["refund.cancel"]), 0)
    assert undone.value("landed_operations_without_inverse_total") is None


@pytest.mark.parametrize(("key", "layer"), [("ceiling:refund.create", "effect_type"), ("ceiling:*", "every")])
def test_a_breaker_that_opens_is_counted_by_its_layer_and_one_that_closes_is_not(key: str, layer: str) -> None:
    metrics, route = Metrics(), empty_route("acme", f"policy:{key}")
    for offset, state in enumerate(("open", "closed")):
        event = ev.BreakerChanged(
            event_id=f"b{offset}",
            tenant_id="acme",
            route=route.route,
            actor="projector",
            scope=key,
            new=f'{{"state":"{state}"}}',
            who="projector",
        )
        entry = ev.Entry(event=event, position=ev.Position(partition=0, offset=offset), at_ms=T0, digest=str(offset))
        count_applied(metrics, Applied(entry, route, fold(route, entry)))
    labels = {**LABELS, "tool": "", "provider": "", "layer": layer}
    assert metrics.registry.get_sample_value("landed_breaker_openings_total", labels) == 1


class Undoing:
    """Events of one group with one effect and its inverse, folded and counted."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.route = empty_route("acme", "g-1")
        self.then(prepared("op-1", claim("c1"), route="g-1", event_id="e1", compensation=["refund.cancel"]))
        self.granted("op-1", "c1")
        self.happened(ev.OutcomeConfirmed, "op-1", "c1", source=Source.WORKER, reference="re_1")

    def then(self, event: ev.Event) -> None:
        self.story.then(event, self.story.offset)

    def said(self, kind: type[ev.Event], name: str | None, **fields: Any) -> None:
        values = {**about(name, "g-1"), "event_id": f"n{self.story.offset}", **fields}
        self.then(kind(**values))

    def granted(self, name: str, claim_id: str, attempt: int = 1) -> None:
        place = ev.Position(partition=0, offset=1)
        self.said(ev.DispatchGranted, name, claim_id=claim_id, attempt=attempt, lease_ms=30_000, claim_position=place)

    def happened(self, kind: type[ev.Event], name: str, claim_id: str, attempt: int = 1, **fields: Any) -> None:
        self.said(kind, name, claim_id=claim_id, attempt=attempt, **fields)

    def unwinding(self) -> None:
        self.said(ev.UnwindRequested, None, reason="later_step_failed", by="anna")
        self.said(ev.GroupUnwinding, None, reason="later_step_failed", by="anna", plan_version=0)

    def value(self, name: str, **labels: str) -> float | None:
        return self.story.value(name, **labels)


def undone(*, attempts: int, confirmed_in_the_end: bool) -> Undoing:
    made, inverse = Undoing(), "compensate:op-1"
    made.unwinding()
    contract = contract_json(
        Contract(tool="refund.cancel", effect=Effect(kind="refund.cancel"), max_attempts=2, retry_rejected=True)
    )
    made.then(
        prepared(
            inverse, claim("i1"), route="g-1", event_id="i1", tool="refund.cancel", contract=contract, effect_type="refund.cancel"
        )
    )
    for attempt in range(1, attempts + 1):
        if attempt > 1:
            made.said(ev.DispatchRequested, inverse, claim=claim(f"i{attempt}"))
        made.granted(inverse, f"i{attempt}", attempt)
        if attempt < attempts or not confirmed_in_the_end:
            made.happened(ev.OutcomeRejected, inverse, f"i{attempt}", attempt, source=Source.WORKER, error_code="closed")
        else:
            made.happened(ev.OutcomeConfirmed, inverse, f"i{attempt}", attempt, source=Source.WORKER, reference="ca_1")
    return made


def test_an_inverse_that_came_to_its_end_is_counted_by_its_result_and_its_further_attempts_as_retries() -> None:
    first = undone(attempts=1, confirmed_in_the_end=True)
    assert first.value("landed_compensations_total", result="compensated") == 1
    assert first.value("landed_retries_total", kind="inverse", tool="refund.cancel", provider="refund.cancel") is None
    second = undone(attempts=2, confirmed_in_the_end=True)
    assert second.value("landed_compensations_total", result="compensated") == 1
    assert second.value("landed_retries_total", kind="inverse", tool="refund.cancel", provider="refund.cancel") == 1
    never = undone(attempts=2, confirmed_in_the_end=False)
    assert never.value("landed_compensations_total", result="failed") == 1
    assert never.value("landed_compensations_total", result="compensated") is None


def test_an_attempt_after_one_that_was_given_back_is_no_retry() -> None:
    story = dispatched().then(said(ev.DispatchReleased, "r1", claim_id="c1", attempt=1, why="not sent"), 2)
    place = ev.Position(partition=0, offset=1)
    story.then(said(ev.DispatchRequested, "e4", claim=claim("c2")), 3)
    story.then(said(ev.DispatchGranted, "e5", claim_id="c2", attempt=2, lease_ms=30_000, claim_position=place), 4)
    assert story.value("landed_retries_total", kind="forward") is None


@pytest.mark.parametrize(
    ("reason", "evidence", "shown"),
    [
        (EscalationReason.SKIPPED, '{"why":"expired"}', "expired"),
        (EscalationReason.IRREVERSIBLE, '{"why":"irreversible"}', "irreversible"),
        (EscalationReason.SKIPPED, '{"why":"its precondition does not hold"}', "handed_over"),
        (EscalationReason.SKIPPED, "no JSON", "handed_over"),
        (EscalationReason.SKIPPED, None, "handed_over"),
    ],
)
def test_what_automation_cannot_undo_is_counted_by_the_reason(reason: EscalationReason, evidence: str | None, shown: str) -> None:
    made = Undoing()
    made.unwinding()
    made.said(ev.OperationEscalated, "op-1", attempt=1, reason=reason, queue="default", choices=[], evidence=evidence)
    assert made.value("landed_compensations_skipped_total", reason=shown) == 1
    assert made.value("landed_operations_escalated_total", reason=reason.value) == 1
