-- What a route knows beyond its operations, after a batch.
INSERT INTO routes
    (tenant_id, route, partition, last_offset, updated_at_ms, group_state, workflow_type, parent_group, version, body)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, route) DO UPDATE
SET (last_offset, updated_at_ms, group_state, workflow_type, parent_group, version, body)
    = (EXCLUDED.last_offset, EXCLUDED.updated_at_ms, EXCLUDED.group_state, EXCLUDED.workflow_type, EXCLUDED.parent_group,
       EXCLUDED.version, EXCLUDED.body)
