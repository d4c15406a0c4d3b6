-- State of many operations after a batch, from the table that they were copied into.
INSERT INTO operations (
    tenant_id, route, operation_id, partition, group_id, first_offset, last_offset, updated_at_ms, state, outcome, tool,
    effect_type, version, attempt, claim_id, lease_end_ms, next_check_at_ms, doubt_since_ms, due_at_ms,
    stakes_rank, gives_up_at_ms, prepared_at_ms,
    settled_at_ms, reference, error_code, escalated_for, review_id, review_since_ms, review_queue, review_reasons, approval_id,
    approval_expires_at_ms, replaces, replaced_by, earlier_references, inverse_until_ms, frozen, final, body
)
SELECT
    tenant_id, route, operation_id, partition, group_id, first_offset, last_offset, updated_at_ms, state, outcome, tool,
    effect_type, version, attempt, claim_id, lease_end_ms, next_check_at_ms, doubt_since_ms, due_at_ms,
    stakes_rank, gives_up_at_ms, prepared_at_ms,
    settled_at_ms, reference, error_code, escalated_for, review_id, review_since_ms, review_queue, review_reasons, approval_id,
    approval_expires_at_ms, replaces, replaced_by, earlier_references, inverse_until_ms, frozen, final, body
FROM incoming_operations
ON CONFLICT (tenant_id, route, operation_id) DO UPDATE
SET (
    last_offset, updated_at_ms, state, outcome, tool, effect_type, version, attempt, claim_id, lease_end_ms,
    next_check_at_ms, doubt_since_ms, due_at_ms,
    stakes_rank, gives_up_at_ms, prepared_at_ms, settled_at_ms, reference, error_code, escalated_for,
    review_id, review_since_ms, review_queue, review_reasons, approval_id, approval_expires_at_ms, replaces,
    replaced_by, earlier_references, inverse_until_ms, frozen, final, body
) = (
    EXCLUDED.last_offset, EXCLUDED.updated_at_ms, EXCLUDED.state, EXCLUDED.outcome, EXCLUDED.tool, EXCLUDED.effect_type,
    EXCLUDED.version, EXCLUDED.attempt, EXCLUDED.claim_id, EXCLUDED.lease_end_ms, EXCLUDED.next_check_at_ms,
    EXCLUDED.doubt_since_ms, EXCLUDED.due_at_ms,
    EXCLUDED.stakes_rank, EXCLUDED.gives_up_at_ms, EXCLUDED.prepared_at_ms, EXCLUDED.settled_at_ms, EXCLUDED.reference,
    EXCLUDED.error_code, EXCLUDED.escalated_for, EXCLUDED.review_id, EXCLUDED.review_since_ms, EXCLUDED.review_queue,
    EXCLUDED.review_reasons, EXCLUDED.approval_id, EXCLUDED.approval_expires_at_ms, EXCLUDED.replaces,
    EXCLUDED.replaced_by, EXCLUDED.earlier_references, EXCLUDED.inverse_until_ms,
    EXCLUDED.frozen, EXCLUDED.final, EXCLUDED.body
)
