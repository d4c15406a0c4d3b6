-- What the log says about grants that are still counted, or that must be: of the last hour, or not over as far as the tables know.
SELECT
    e.tenant_id, e.route, e.operation_id, e.partition, e.log_offset, e.accepted, e.value,
    o.effect_type, CASE WHEN o.settled_at_ms IS NOT NULL THEN o.attempt END AS over_to
FROM events AS e
LEFT JOIN operations AS o ON o.tenant_id = e.tenant_id AND o.route = e.route AND o.operation_id = e.operation_id
WHERE e.type IN ('dispatch_granted', 'dispatch_released') AND e.reason IS DISTINCT FROM 'repeated' AND e.operation_id IS NOT NULL AND (
    e.at_ms >= %(since_ms)s OR o.settled_at_ms IS NULL
    OR EXISTS (
        SELECT FROM grants AS g WHERE g.tenant_id = e.tenant_id AND g.route = e.route AND g.operation_id = e.operation_id
    )
    OR EXISTS (
        SELECT FROM resources_taken AS r WHERE r.tenant_id = e.tenant_id AND r.route = e.route AND r.operation_id = e.operation_id
    )
)
ORDER BY e.tenant_id COLLATE "C", e.route COLLATE "C", e.operation_id COLLATE "C", e.log_offset
