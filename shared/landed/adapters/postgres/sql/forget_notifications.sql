-- Notifications that were told or given up long ago; not those of what is open still, which would be told anew.
DELETE FROM notifications AS d
USING (
    SELECT n.webhook_id
    FROM notifications AS n
    WHERE n.made_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - %(keep_ms)s
        AND n.state IN ('delivered', 'given_up') AND NOT n.review_open
        AND NOT EXISTS (
            SELECT
            FROM operations AS o
            WHERE o.tenant_id = n.tenant_id AND o.route = n.route AND o.operation_id = n.operation_id
                AND (
                    o.review_id IS NOT NULL
                    OR o.inverse_until_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                )
        )
    ORDER BY n.made_at_ms
    LIMIT %(limit)s
) AS old
WHERE d.webhook_id = old.webhook_id
