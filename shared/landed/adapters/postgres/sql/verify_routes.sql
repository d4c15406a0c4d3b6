-- All routes of a partition, the columns in the order of upsert_route.
SELECT tenant_id, route, partition, last_offset, updated_at_ms, group_state, workflow_type, parent_group, version, body
FROM routes
WHERE partition = %(partition)s
