-- What a person asks first: the clock of the database, the outbox, what was refused, and the oldest doubt.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
    (SELECT count(*) FROM decisions WHERE returned_offset IS NULL) AS outbox,
    (SELECT count(*) FROM refused_records) AS refused,
    (SELECT min(doubt_since_ms) FROM operations WHERE due_at_ms IS NOT NULL AND state IN ('unknown', 'reconciling')) AS oldest_doubt_ms,
    (SELECT count(*) FROM operations WHERE review_id IS NOT NULL) AS reviews
