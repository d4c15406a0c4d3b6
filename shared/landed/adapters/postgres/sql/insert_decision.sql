-- Puts a decision into the outbox.
INSERT INTO decisions
    (partition, number, tenant_id, route, operation_id, claim_id, event_id, type, reply_to, claim_offset, decided_at_ms, value)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
