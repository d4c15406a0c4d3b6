-- Changes of the policies of a tenant, newest first.
SELECT e.at_ms, e.accepted, e.reason, e.value
FROM events AS e
WHERE e.tenant_id = %(tenant_id)s AND e.type = 'policy_changed' AND (%(route)s::text IS NULL OR e.route = %(route)s)
ORDER BY e.at_ms DESC, e.partition, e.log_offset DESC
LIMIT %(limit)s
