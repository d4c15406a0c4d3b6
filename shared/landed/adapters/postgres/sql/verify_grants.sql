-- Grants that are counted; of a decision that has not come back through the log, the log does not know yet.
SELECT
    g.tenant_id, g.route, g.operation_id, g.claim_id, NULL AS resource, g.attempt, g.effect_type, g.decided_at_ms, g.void,
    d.number IS NOT NULL AS on_its_way
FROM grants AS g
LEFT JOIN decisions AS d ON d.tenant_id = g.tenant_id AND d.route = g.route AND d.operation_id = g.operation_id
    AND d.claim_id = g.claim_id AND d.returned_offset IS NULL
ORDER BY g.tenant_id COLLATE "C", g.route COLLATE "C", g.operation_id COLLATE "C"
