-- Breakers as the tables say that the log was told, beside what the log says; an event on its way is not on the log yet.
SELECT
    coalesce(e.tenant_id, b.tenant_id), coalesce(substr(e.route, 8), b.key), coalesce(e.partition, b.partition), e.log_offset, e.value,
    b.told, b.told_open, b.told_at_ms
FROM (SELECT * FROM events WHERE type = 'breaker_changed' AND reason IS DISTINCT FROM 'repeated') AS e
FULL JOIN (SELECT * FROM breakers WHERE told IS NOT NULL) AS b ON b.tenant_id = e.tenant_id AND 'policy:' || b.key = e.route
WHERE NOT EXISTS (
    SELECT FROM decisions AS d
    WHERE d.tenant_id = coalesce(e.tenant_id, b.tenant_id) AND d.route = coalesce(e.route, 'policy:' || b.key)
        AND d.type = 'breaker_changed' AND d.returned_offset IS NULL
)
ORDER BY 1, 2, e.log_offset
