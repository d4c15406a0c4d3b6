-- Open review tasks of a tenant, oldest first.
SELECT o.route, o.group_id, coalesce(g.group_state, 'open'), o.body, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM operations AS o
LEFT JOIN routes AS g ON g.tenant_id = o.tenant_id AND g.route = o.route
WHERE o.tenant_id = %(tenant_id)s AND o.review_id IS NOT NULL
    AND (%(queue)s::text IS NULL OR o.review_queue = %(queue)s)
    AND (%(reason)s::text IS NULL OR %(reason)s = ANY(o.review_reasons))
    AND o.review_since_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - %(age_ms)s::bigint
    AND (%(prefix)s::text IS NULL OR starts_with(o.operation_id, %(prefix)s))
ORDER BY o.review_since_ms, o.operation_id, o.route
LIMIT %(limit)s
