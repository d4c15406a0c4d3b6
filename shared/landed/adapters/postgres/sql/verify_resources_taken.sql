-- Resources that are taken, as verify_grants.
SELECT
    r.tenant_id, r.route, r.operation_id, r.claim_id, r.resource, r.attempt, NULL AS effect_type, r.decided_at_ms, r.void,
    d.number IS NOT NULL AS on_its_way
FROM resources_taken AS r
LEFT JOIN decisions AS d ON d.tenant_id = r.tenant_id AND d.route = r.route AND d.operation_id = r.operation_id
    AND d.claim_id = r.claim_id AND d.returned_offset IS NULL
ORDER BY r.tenant_id COLLATE "C", r.route COLLATE "C", r.operation_id COLLATE "C"
