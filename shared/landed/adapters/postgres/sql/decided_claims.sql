-- Claims that a decision was made about before.
SELECT d.tenant_id, d.route, d.operation_id, d.claim_id
FROM unnest(%(tenant_ids)s::text[], %(routes)s::text[], %(operation_ids)s::text[], %(claim_ids)s::text[])
    AS k (tenant_id, route, operation_id, claim_id)
JOIN decisions AS d
    ON d.tenant_id = k.tenant_id AND d.route = k.route AND d.operation_id = k.operation_id AND d.claim_id = k.claim_id
    AND d.claim_id IS NOT NULL
