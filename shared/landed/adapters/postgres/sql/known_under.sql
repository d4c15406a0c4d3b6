-- Every route under which a tenant's operation id has an intent.
SELECT o.tenant_id, o.operation_id, o.route, o.partition, o.first_offset, o.prepared_at_ms, o.attempt IS NOT NULL AS dispatched
FROM unnest(%(tenant_ids)s::text[], %(operation_ids)s::text[]) AS k (tenant_id, operation_id)
JOIN operations AS o ON o.tenant_id = k.tenant_id AND o.operation_id = k.operation_id
WHERE o.state <> 'none'
