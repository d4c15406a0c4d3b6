-- What the fold made of an event that stands at a place of the log: of its first copy, wherever that stands.
SELECT f.accepted, f.reason
FROM events AS e
JOIN events AS f ON f.tenant_id = e.tenant_id AND f.route = e.route AND f.operation_id IS NOT DISTINCT FROM e.operation_id
    AND f.event_id = e.event_id
WHERE e.partition = %(partition)s AND e.log_offset = %(log_offset)s
ORDER BY f.log_offset
LIMIT 1
