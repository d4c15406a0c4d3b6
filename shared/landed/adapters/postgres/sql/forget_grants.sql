-- Grants that no window of the tenant reaches back to and that are over.
DELETE FROM grants AS g
WHERE g.tenant_id = %(tenant_id)s AND g.decided_at_ms < %(before_ms)s AND (
    g.void OR EXISTS (
        SELECT FROM operations AS o
        WHERE o.tenant_id = g.tenant_id AND o.route = g.route AND o.operation_id = g.operation_id
            AND o.settled_at_ms IS NOT NULL AND o.attempt >= g.attempt
    )
)
