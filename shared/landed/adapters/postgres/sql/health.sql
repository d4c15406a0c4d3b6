-- What a person asks first: the clock of the database, the outbox, what was refused, and the oldest doubt.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
    (SELECT count(*) FROM decisions WHERE returned_offset IS NULL) AS outbox,
    (SELECT count(*) FROM refused_records) AS refused,
    (SELECT min(doubt_since_ms) FROM operations WHERE due_at_ms IS NOT NULL AND state IN ('unknown', 'reconciling')) AS oldest_doubt_ms,
    (SELECT count(*) FROM operations WHERE review_id IS NOT NULL) AS reviews,
    (SELECT count(*) FROM notifications WHERE state = 'waiting') AS waiting,
    (SELECT min(made_at_ms) FROM notifications WHERE state = 'waiting') AS oldest_waiting_ms,
    (SELECT count(*) FROM notifications WHERE state = 'given_up') AS given_up,
    (
        SELECT count(*)
        FROM news AS n
        WHERE n.kind = 'unmatched' AND n.keep_until_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint AND NOT EXISTS (
            SELECT
            FROM news AS s
            WHERE s.tenant_id = n.tenant_id AND s.webhook_id = n.webhook_id AND s.endpoint = n.endpoint AND s.kind = 'received'
        )
    ) AS unmatched
