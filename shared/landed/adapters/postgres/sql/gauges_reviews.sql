-- Operations that wait for a person, and since when the oldest does.
SELECT tenant_id, tool, count(*), min(review_since_ms), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM operations
WHERE review_id IS NOT NULL
GROUP BY tenant_id, tool
