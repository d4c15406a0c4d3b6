-- What routes know beyond their operations; a route without events of its own has no row.
SELECT r.tenant_id, r.route, r.last_offset, r.updated_at_ms, r.body
FROM unnest(%(tenant_ids)s::text[], %(routes)s::text[]) AS k (tenant_id, route)
JOIN routes AS r ON r.tenant_id = k.tenant_id AND r.route = k.route
