-- The oldest grants of an effect type that no window of the tenant reaches back to and that are over, a few at a time.
DELETE FROM grants WHERE ctid = ANY (ARRAY(
    SELECT g.ctid FROM grants AS g
    WHERE g.tenant_id = %(tenant_id)s AND g.effect_type = %(effect_type)s AND g.decided_at_ms < %(before_ms)s AND (
        g.void OR EXISTS (
            SELECT FROM operations AS o
            WHERE o.tenant_id = g.tenant_id AND o.route = g.route AND o.operation_id = g.operation_id
                AND o.settled_at_ms IS NOT NULL AND o.attempt >= g.attempt
        )
    )
    ORDER BY g.decided_at_ms LIMIT %(most)s
    FOR UPDATE OF g SKIP LOCKED
))
