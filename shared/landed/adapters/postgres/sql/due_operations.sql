-- Operations that something is to be done about, earliest first.
SELECT o.tenant_id, o.route, o.group_id, o.due_at_ms, o.body
FROM operations AS o
WHERE o.partition = ANY(%(partitions)s)
    AND o.due_at_ms <= %(now_ms)s
    AND (%(tenant_ids)s::text[] IS NULL OR o.tenant_id = ANY(%(tenant_ids)s::text[]))
ORDER BY o.due_at_ms, o.tenant_id, o.route, o.operation_id
LIMIT %(limit)s
