-- Reviews that opened and settled while nobody looked are told all the same: found by the events that open one, which are rare.
CREATE INDEX events_of_reviews ON events (tenant_id, at_ms)
    WHERE accepted AND operation_id IS NOT NULL AND (mark IS NOT NULL OR type IN ('operation_escalated', 'effect_reverted'));
CREATE INDEX notifications_of_operations ON notifications (operation_id, receiver);
