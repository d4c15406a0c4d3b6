-- A page of what something is to be done about, most at stake first, then least time left. Of tools that are closed for now only
-- leases that ran out; of groups that are undone no forward call that is proven absent: it is not wanted any more.
SELECT p.tenant_id, p.route, p.operation_id, p.group_id, p.due_at_ms, p.stakes_rank, p.gives_up_at_ms, p.body, r.group_state,
    f.body AS forward_body
FROM (
    SELECT
        o.tenant_id, o.route, o.operation_id, o.group_id, o.due_at_ms, coalesce(o.stakes_rank, 0) AS stakes_rank,
        coalesce(o.gives_up_at_ms, 0) AS gives_up_at_ms, o.body
    FROM operations AS o
    WHERE o.partition = ANY(%(partitions)s)
        AND o.due_at_ms <= %(now_ms)s
        AND (%(tenant_ids)s::text[] IS NULL OR o.tenant_id = ANY(%(tenant_ids)s::text[]))
        AND (o.state = 'dispatched' OR o.tool IS NULL OR o.tool <> ALL(%(closed_tools)s::text[]))
        AND NOT (
            o.state = 'not_found'
            AND o.operation_id NOT LIKE 'compensate:%%'
            AND EXISTS (
                SELECT FROM routes AS u
                WHERE u.tenant_id = o.tenant_id AND u.route = o.route
                    AND u.group_state IN ('unwinding', 'unwound', 'needs_human')
            )
        )
        AND (
            NOT %(going_on)s
            OR (coalesce(o.stakes_rank, 0), coalesce(o.gives_up_at_ms, 0), o.tenant_id, o.route, o.operation_id)
            > (%(stakes_rank)s::smallint, %(gives_up_at_ms)s::bigint, %(tenant_id)s::text, %(route)s::text, %(operation_id)s::text)
        )
    ORDER BY coalesce(o.stakes_rank, 0), coalesce(o.gives_up_at_ms, 0), o.tenant_id, o.route, o.operation_id
    LIMIT %(limit)s
) AS p
LEFT JOIN routes AS r ON r.tenant_id = p.tenant_id AND r.route = p.route
-- What an inverse undoes: compensate:X undoes X, compensate:X:n too where no operation is called X:n.
LEFT JOIN LATERAL (
    SELECT x.body
    FROM operations AS x
    WHERE p.operation_id LIKE 'compensate:%%' AND x.tenant_id = p.tenant_id AND x.route = p.route
        AND x.operation_id IN (substr(p.operation_id, 12), regexp_replace(substr(p.operation_id, 12), ':[0-9]+$', ''))
    ORDER BY length(x.operation_id) DESC
    LIMIT 1
) AS f ON true
ORDER BY p.stakes_rank, p.gives_up_at_ms, p.tenant_id, p.route, p.operation_id
