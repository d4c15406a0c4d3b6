-- Notifications of a tenant, newest first, with their last try.
SELECT
    n.webhook_id, n.receiver, n.tenant_id, n.kind, n.operation_id, n.made_at_ms, n.state, n.attempts, n.next_try_at_ms,
    n.delivered_at_ms, a.began_at_ms, a.result
FROM notifications AS n
LEFT JOIN notification_attempts AS a ON a.webhook_id = n.webhook_id AND a.number = n.attempts
WHERE n.tenant_id = %(tenant_id)s AND (%(state)s::text IS NULL OR n.state = %(state)s)
ORDER BY n.made_at_ms DESC, n.webhook_id
LIMIT %(limit)s
