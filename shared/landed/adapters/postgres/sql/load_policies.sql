-- Policies of tenants, each as the route that it is folded into.
SELECT r.tenant_id, r.body
FROM routes AS r
WHERE r.tenant_id = ANY(%(tenant_ids)s::text[]) AND r.route LIKE 'policy:%%'
ORDER BY r.tenant_id, r.route
