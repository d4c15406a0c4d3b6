-- A page of the groups that are being undone, of these partitions.
SELECT r.tenant_id, r.route
FROM routes AS r
WHERE r.partition = ANY(%(partitions)s) AND r.group_state = 'unwinding'
    AND (r.tenant_id, r.route) > (%(tenant_id)s::text, %(route)s::text)
ORDER BY r.tenant_id, r.route
LIMIT %(limit)s
