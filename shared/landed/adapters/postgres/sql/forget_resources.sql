-- Resources that were given back.
DELETE FROM resources_taken AS r
WHERE r.tenant_id = %(tenant_id)s AND r.decided_at_ms < %(before_ms)s AND (
    r.void OR EXISTS (
        SELECT FROM operations AS o
        WHERE o.tenant_id = r.tenant_id AND o.route = r.route AND o.operation_id = r.operation_id
            AND o.settled_at_ms IS NOT NULL AND o.attempt >= r.attempt
    )
)
