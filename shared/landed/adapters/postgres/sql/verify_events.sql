-- All events of a partition, the columns in the order of insert_event.
SELECT partition, log_offset, event_id, tenant_id, route, operation_id, type, at_ms, accepted, reason, mark, digest, value
FROM events
WHERE partition = %(partition)s
