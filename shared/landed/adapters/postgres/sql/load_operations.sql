-- All operations of routes, in the order in which they came up on the log.
SELECT o.tenant_id, o.route, o.partition, o.first_offset, o.last_offset, o.updated_at_ms, o.body
FROM unnest(%(tenant_ids)s::text[], %(routes)s::text[]) AS k (tenant_id, route)
JOIN operations AS o ON o.tenant_id = k.tenant_id AND o.route = k.route
ORDER BY o.tenant_id, o.route, o.first_offset
