-- Operations of a tenant under one id: one, but for an id that was refused under a second route.
SELECT o.route, o.group_id, coalesce(g.group_state, 'open'), o.body, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM operations AS o
LEFT JOIN routes AS g ON g.tenant_id = o.tenant_id AND g.route = o.route
WHERE o.operation_id = %(operation_id)s AND o.tenant_id = %(tenant_id)s
ORDER BY o.route
