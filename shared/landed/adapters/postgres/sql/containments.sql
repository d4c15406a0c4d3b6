-- What the log was told of breakers of a tenant, the newest first.
SELECT e.partition, e.log_offset, e.at_ms, e.accepted, e.reason, e.value
FROM breakers AS b
JOIN events AS e ON e.tenant_id = b.tenant_id AND e.route = 'policy:' || b.key AND e.type = 'breaker_changed'
WHERE b.tenant_id = %(tenant_id)s
ORDER BY e.at_ms DESC, e.log_offset DESC
