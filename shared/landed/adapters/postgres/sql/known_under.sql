-- Every route under which a tenant's operation id has an intent, and whether it was dispatched there: as the log says, or by a
-- grant on its way.
-- Not IS NULL: that would make the index of what is on its way look as good as the one of the claim, and read all of it.
SELECT
    o.tenant_id, o.operation_id, o.route, o.partition, o.first_offset, o.prepared_at_ms,
    o.attempt IS NOT NULL OR EXISTS (
        SELECT FROM decisions AS d
        WHERE d.tenant_id = o.tenant_id AND d.route = o.route AND d.operation_id = o.operation_id
            AND d.claim_id IS NOT NULL AND d.type = 'dispatch_granted' AND coalesce(d.returned_offset, -1) = -1
    ) AS dispatched
FROM unnest(%(tenant_ids)s::text[], %(operation_ids)s::text[]) AS k (tenant_id, operation_id)
JOIN operations AS o ON o.tenant_id = k.tenant_id AND o.operation_id = k.operation_id
WHERE o.state <> 'none'
