-- News of a tenant that matches no operation, newest first, and whether it is matched again.
SELECT n.at_ms, n.endpoint, n.webhook_id, n.reference, n.operation_key, n.status, n.provider_time_ms, n.keep_until_ms
FROM news AS n
WHERE n.tenant_id = %(tenant_id)s AND n.kind = 'unmatched'
    AND NOT EXISTS (
        SELECT
        FROM news AS s
        WHERE s.tenant_id = n.tenant_id AND s.webhook_id = n.webhook_id AND s.endpoint = n.endpoint AND s.kind = 'received'
    )
ORDER BY n.at_ms DESC
LIMIT %(limit)s
