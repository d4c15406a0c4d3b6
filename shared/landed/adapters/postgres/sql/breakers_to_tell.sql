-- Breakers that opened, or may have closed, since the log was told.
SELECT b.tenant_id, b.key, b.partition, b.route, b.breaker, b.refused_at_ms, b.resets_at_ms, b.told, b.told_open
FROM breakers AS b
WHERE b.partition = ANY(%(partitions)s) AND CASE
    WHEN b.told_open THEN coalesce(b.resets_at_ms, 0) <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    ELSE b.refused_at_ms > b.told_at_ms
END
