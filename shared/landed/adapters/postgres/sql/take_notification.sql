-- The next notification that a receiver is to be told, taken for a while: should its process die, another tries again after that.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
), next AS (
    SELECT n.webhook_id
    FROM notifications AS n
    CROSS JOIN clock
    WHERE n.receiver = %(receiver)s AND n.next_try_at_ms <= clock.now_ms
    ORDER BY n.next_try_at_ms
    LIMIT 1
    FOR UPDATE OF n SKIP LOCKED
), taken AS (
    UPDATE notifications AS n
    SET attempts = n.attempts + 1, next_try_at_ms = clock.now_ms + %(hold_ms)s
    FROM next, clock
    WHERE n.webhook_id = next.webhook_id
    RETURNING n.webhook_id, n.attempts, n.payload, n.made_at_ms, n.tenant_id, n.kind, clock.now_ms
), noted AS (
    INSERT INTO notification_attempts (webhook_id, number, began_at_ms)
    SELECT taken.webhook_id, taken.attempts, taken.now_ms
    FROM taken
)
SELECT taken.webhook_id, taken.attempts, taken.payload, taken.made_at_ms, taken.tenant_id, taken.kind, taken.now_ms
FROM taken
