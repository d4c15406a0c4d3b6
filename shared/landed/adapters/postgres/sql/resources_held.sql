-- Operations that hold resources as far as the tables know: granted, not void, not settled.
SELECT DISTINCT r.tenant_id, r.resource, r.route, r.operation_id
FROM unnest(%(tenant_ids)s::text[], %(resources)s::text[]) AS k (tenant_id, resource)
JOIN resources_taken AS r ON r.tenant_id = k.tenant_id AND r.resource = k.resource
LEFT JOIN operations AS o ON o.tenant_id = r.tenant_id AND o.route = r.route AND o.operation_id = r.operation_id
WHERE NOT r.void AND (o.settled_at_ms IS NULL OR coalesce(o.attempt, 0) < r.attempt)
