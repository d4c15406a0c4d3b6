-- Operations of a partition that are compared: what changed of late, and those of a sample of the groups. Columns as in
-- upsert_operation; in the order of the bytes of tenant and route.
SELECT
    tenant_id, route, operation_id, partition, group_id, first_offset, last_offset, updated_at_ms, state, outcome, tool,
    effect_type, version, attempt, claim_id, lease_end_ms, next_check_at_ms, doubt_since_ms, due_at_ms,
    stakes_rank, gives_up_at_ms, prepared_at_ms,
    settled_at_ms, reference, error_code, escalated_for, review_id, review_since_ms, review_queue, review_reasons, approval_id,
    approval_expires_at_ms, replaces,
    replaced_by, earlier_references, inverse_until_ms, frozen, final, body
FROM operations
WHERE
    partition = %(partition)s
    AND (last_offset >= %(since)s OR sha256(convert_to(%(seed)s || '/' || tenant_id || '/' || route, 'UTF8')) < %(below)s::bytea)
ORDER BY tenant_id COLLATE "C", route COLLATE "C"
