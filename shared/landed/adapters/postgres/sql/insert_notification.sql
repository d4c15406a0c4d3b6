-- Puts a notification into the outbox, once; that a review settled is told once for all that was told of it.
WITH settled AS (
    UPDATE notifications AS n
    SET review_open = false
    WHERE %(kind)s = 'review_settled' AND n.receiver = %(receiver)s AND n.review_open AND n.tenant_id = %(tenant_id)s
        AND n.route = %(route)s AND n.operation_id = %(operation_id)s AND n.review_since_ms = %(review_since_ms)s
)
INSERT INTO notifications (
    webhook_id, receiver, tenant_id, kind, route, operation_id, version, review_since_ms, review_open, payload, made_at_ms, state,
    attempts, next_try_at_ms
)
VALUES (
    %(webhook_id)s, %(receiver)s, %(tenant_id)s, %(kind)s, %(route)s, %(operation_id)s, %(version)s, %(review_since_ms)s,
    %(kind)s = 'review_opened', %(payload)s, %(made_at_ms)s, 'waiting', 0, %(made_at_ms)s
)
ON CONFLICT (webhook_id) DO NOTHING
