-- The same columns as verify_routes, of routes that are named.
SELECT tenant_id, route, partition, last_offset, updated_at_ms, group_state, workflow_type, parent_group, version, body
FROM routes
WHERE (tenant_id, route) IN (SELECT * FROM unnest(%(tenant_ids)s::text[], %(routes)s::text[]))
