-- News of a partition, the columns in the order of insert_news, without until when it is matched again: that changes by itself.
SELECT
    partition, log_offset, at_ms, kind, tenant_id, webhook_id, endpoint, route, operation_id, tools, operation_key, reference, status,
    provider_time_ms, digest, receipt, keep_ms
FROM news
WHERE partition = %(partition)s
