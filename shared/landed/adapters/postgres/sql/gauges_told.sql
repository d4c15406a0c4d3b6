-- Notifications that wait or were given up, and news that fits no operation and is still matched again; for each tenant.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
)
SELECT
    n.tenant_id, count(*) FILTER (WHERE n.state = 'waiting'), min(n.made_at_ms) FILTER (WHERE n.state = 'waiting'),
    count(*) FILTER (WHERE n.state = 'given_up'), 0, clock.now_ms
FROM notifications AS n
CROSS JOIN clock
WHERE n.state IN ('waiting', 'given_up')
GROUP BY n.tenant_id, clock.now_ms
UNION ALL
SELECT n.tenant_id, 0, NULL, 0, count(*), clock.now_ms
FROM news AS n
CROSS JOIN clock
WHERE n.kind = 'unmatched' AND n.keep_until_ms > clock.now_ms
    AND NOT EXISTS (
        SELECT
        FROM news AS s
        WHERE s.tenant_id = n.tenant_id AND s.webhook_id = n.webhook_id AND s.endpoint = n.endpoint AND s.kind = 'received'
    )
GROUP BY n.tenant_id, clock.now_ms
