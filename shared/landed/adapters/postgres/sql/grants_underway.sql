-- Granted operations that are not settled as far as the tables know, for ceilings on how many are underway at once.
SELECT DISTINCT k.n, g.route, g.operation_id
FROM unnest(%(n)s::integer[], %(tenant_ids)s::text[], %(effect_types)s::text[], %(routes)s::text[])
    AS k (n, tenant_id, effect_type, route)
JOIN grants AS g ON g.tenant_id = k.tenant_id
    AND (k.effect_type IS NULL OR g.effect_type = k.effect_type) AND (k.route IS NULL OR g.route = k.route)
LEFT JOIN operations AS o ON o.tenant_id = g.tenant_id AND o.route = g.route AND o.operation_id = g.operation_id
WHERE NOT g.void AND (o.settled_at_ms IS NULL OR coalesce(o.attempt, 0) < g.attempt)
