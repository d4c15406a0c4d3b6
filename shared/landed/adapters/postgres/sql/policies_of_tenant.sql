-- Policies of a tenant, each as the route that it is folded into.
SELECT r.body
FROM routes AS r
WHERE r.tenant_id = %(tenant_id)s AND r.route LIKE 'policy:%%'
ORDER BY r.route
