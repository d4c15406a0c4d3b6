-- Operations of a tenant about which agents told their users something, those told last first.
SELECT o.route, o.group_id, coalesce(g.group_state, 'open'), o.body, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (
    SELECT e.route, e.operation_id, max(e.at_ms) AS at_ms
    FROM events AS e
    WHERE e.tenant_id = %(tenant_id)s AND e.type = 'agent_statement' AND e.at_ms >= %(since_ms)s
    GROUP BY e.route, e.operation_id
) AS told
JOIN operations AS o ON o.tenant_id = %(tenant_id)s AND o.route = told.route AND o.operation_id = told.operation_id
LEFT JOIN routes AS g ON g.tenant_id = o.tenant_id AND g.route = o.route
ORDER BY told.at_ms DESC, o.operation_id
LIMIT %(limit)s
