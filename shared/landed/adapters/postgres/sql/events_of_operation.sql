-- Events of an operation in log order, with what the fold made of them.
SELECT e.partition, e.log_offset, e.at_ms, e.accepted, e.reason, e.value
FROM events AS e
WHERE e.tenant_id = %(tenant_id)s AND e.route = %(route)s AND e.operation_id = %(operation_id)s
ORDER BY e.log_offset
