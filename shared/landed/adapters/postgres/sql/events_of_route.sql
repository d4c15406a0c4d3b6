-- Events of a group and of all its operations in log order, with what the fold made of them.
SELECT e.partition, e.log_offset, e.at_ms, e.accepted, e.reason, e.value
FROM events AS e
WHERE e.tenant_id = %(tenant_id)s AND e.route = %(route)s
ORDER BY e.log_offset
