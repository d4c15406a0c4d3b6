-- Breakers that opened since the log was told, and those of which it was told that they are open.
SELECT b.tenant_id, b.key, b.partition, b.route, b.breaker, b.refused_at_ms, b.resets_at_ms, b.told, b.told_open
FROM breakers AS b
WHERE b.partition = ANY(%(partitions)s) AND (b.told_open OR b.refused_at_ms > b.told_at_ms)
