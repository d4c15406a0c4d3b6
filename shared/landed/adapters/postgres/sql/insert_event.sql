-- Keeps an event as it stands on the log.
INSERT INTO events (partition, log_offset, event_id, tenant_id, route, operation_id, type, at_ms, accepted, reason, mark, digest, value)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
