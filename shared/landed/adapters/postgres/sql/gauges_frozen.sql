-- Operations that a record froze; by the records that froze them, of which there are few.
SELECT count(DISTINCT (o.tenant_id, o.route, o.operation_id))
FROM refused_records AS r
JOIN events AS e ON e.partition = r.partition AND e.log_offset = r.log_offset
JOIN operations AS o ON o.tenant_id = e.tenant_id AND o.route = e.route AND (e.operation_id IS NULL OR o.operation_id = e.operation_id)
WHERE r.froze AND o.frozen
