-- Operations of a tenant whose ids begin so, the exact one first.
SELECT o.route, o.group_id, coalesce(g.group_state, 'open'), o.body, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM operations AS o
LEFT JOIN routes AS g ON g.tenant_id = o.tenant_id AND g.route = o.route
WHERE o.tenant_id = %(tenant_id)s AND starts_with(o.operation_id, %(prefix)s)
ORDER BY o.operation_id <> %(prefix)s, o.operation_id, o.route
LIMIT %(limit)s
