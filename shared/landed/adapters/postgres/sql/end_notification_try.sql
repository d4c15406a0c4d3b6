-- What became of a try, and when the next one is; of a notification that somebody else has taken since, only the try is noted.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
), noted AS (
    UPDATE notification_attempts AS a
    SET ended_at_ms = clock.now_ms, result = %(result)s
    FROM clock
    WHERE a.webhook_id = %(webhook_id)s AND a.number = %(number)s
)
UPDATE notifications AS n
SET
    state = CASE WHEN n.state = 'delivered' THEN n.state ELSE %(state)s END,
    next_try_at_ms = CASE WHEN %(state)s = 'waiting' THEN clock.now_ms + %(wait_ms)s END,
    delivered_at_ms = CASE WHEN %(state)s = 'delivered' THEN clock.now_ms ELSE n.delivered_at_ms END
FROM clock
WHERE n.webhook_id = %(webhook_id)s AND (n.attempts = %(number)s OR %(state)s = 'delivered')
