-- The same columns as verify_operations, of routes that are named.
SELECT
    tenant_id, route, operation_id, partition, group_id, first_offset, last_offset, updated_at_ms, state, outcome, tool,
    effect_type, version, attempt, claim_id, lease_end_ms, next_check_at_ms, doubt_since_ms, due_at_ms,
    stakes_rank, gives_up_at_ms, prepared_at_ms,
    settled_at_ms, reference, error_code, escalated_for, review_id, review_since_ms, review_queue, review_reasons, approval_id,
    approval_expires_at_ms, replaces,
    replaced_by, earlier_references, inverse_until_ms, frozen, final, body
FROM operations
WHERE (tenant_id, route) IN (SELECT * FROM unnest(%(tenant_ids)s::text[], %(routes)s::text[]))
