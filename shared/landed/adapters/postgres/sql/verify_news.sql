-- News of a span of a partition that are compared, as verify_events. The columns in the order of insert_news, without until when they
-- are matched again: that changes by itself.
SELECT
    partition, log_offset, at_ms, kind, tenant_id, webhook_id, endpoint, route, operation_id, tools, operation_key, reference, status,
    provider_time_ms, digest, receipt, keep_ms
FROM news
WHERE
    partition = %(partition)s AND log_offset >= %(first)s AND log_offset < %(last)s
    AND (
        (log_offset >= %(since)s AND log_offset < %(until)s)
        OR sha256(convert_to(%(seed)s || '/' || tenant_id || '/' || route, 'UTF8')) < %(below)s::bytea
    )
