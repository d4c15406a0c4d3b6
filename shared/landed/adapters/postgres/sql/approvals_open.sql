-- Requests for approval of a tenant that are open, and approvals that were given and have not run; those that end first come first.
SELECT o.route, o.group_id, coalesce(g.group_state, 'open'), o.body, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM operations AS o
LEFT JOIN routes AS g ON g.tenant_id = o.tenant_id AND g.route = o.route
WHERE o.tenant_id = %(tenant_id)s AND o.approval_id IS NOT NULL
    AND (%(lapsed)s OR o.approval_expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    AND (%(prefix)s::text IS NULL OR starts_with(o.approval_id, %(prefix)s) OR starts_with(o.operation_id, %(prefix)s))
ORDER BY o.approval_expires_at_ms, o.operation_id, o.route
LIMIT %(limit)s
