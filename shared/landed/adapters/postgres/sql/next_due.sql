-- When the next operation is due.
SELECT min(o.due_at_ms)
FROM operations AS o
WHERE o.partition = ANY(%(partitions)s)
    AND o.due_at_ms IS NOT NULL
    AND (%(tenant_ids)s::text[] IS NULL OR o.tenant_id = ANY(%(tenant_ids)s::text[]))
