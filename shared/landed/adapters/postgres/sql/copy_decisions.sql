-- Puts many decisions into the outbox; the columns in the order of insert_decision.
COPY decisions (
    partition, number, tenant_id, route, operation_id, claim_id, event_id, type, reply_to, claim_offset, decided_at_ms, value
)
FROM STDIN (FORMAT BINARY)
