-- Decisions about claims of an operation, for the answer to one that is asked again.
SELECT e.value, e.at_ms
FROM events AS e
WHERE e.tenant_id = %(tenant_id)s AND e.route = %(route)s AND e.operation_id = %(operation_id)s
    AND e.type IN ('dispatch_granted', 'dispatch_refused') AND e.accepted
ORDER BY e.log_offset
