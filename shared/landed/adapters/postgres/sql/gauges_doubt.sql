-- Operations in doubt, since when the oldest is, and for how many nothing was done though it is long due.
SELECT
    o.tenant_id,
    o.tool,
    r.workflow_type,
    count(*) FILTER (WHERE o.state IN ('unknown', 'reconciling')) AS in_doubt,
    min(o.doubt_since_ms) FILTER (WHERE o.state IN ('unknown', 'reconciling')) AS oldest_ms,
    count(*) FILTER (WHERE o.due_at_ms < n.now_ms - %(patience_ms)s::bigint) AS stuck,
    max(n.now_ms) AS now_ms
FROM operations AS o
CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS n
LEFT JOIN routes AS r ON r.tenant_id = o.tenant_id AND r.route = o.route
WHERE o.due_at_ms IS NOT NULL
GROUP BY o.tenant_id, o.tool, r.workflow_type
