-- Events of a span of a partition that are compared: new ones, and those of a sample of the groups. Columns as in insert_event.
SELECT partition, log_offset, event_id, tenant_id, route, operation_id, type, at_ms, accepted, reason, mark, digest, value
FROM events
WHERE
    partition = %(partition)s AND log_offset >= %(first)s AND log_offset < %(last)s
    AND (
        (log_offset >= %(since)s AND log_offset < %(until)s)
        OR sha256(convert_to(%(seed)s || '/' || tenant_id || '/' || route, 'UTF8')) < %(below)s::bytea
    )
