-- Routes of a partition that are compared, as verify_operations. Columns as in upsert_route.
SELECT tenant_id, route, partition, last_offset, updated_at_ms, group_state, workflow_type, parent_group, version, body
FROM routes
WHERE
    partition = %(partition)s
    AND (last_offset >= %(since)s OR sha256(convert_to(%(seed)s || '/' || tenant_id || '/' || route, 'UTF8')) < %(below)s::bytea)
ORDER BY tenant_id COLLATE "C", route COLLATE "C"
