-- Keeps many events; the columns in the order of insert_event.
COPY events (partition, log_offset, event_id, tenant_id, route, operation_id, type, at_ms, accepted, reason, mark, digest, value)
FROM STDIN (FORMAT BINARY)
