-- What got through a ceiling before its breaker opened: granted forward operations that were not given back, the newest first.
SELECT g.route, g.operation_id, o.group_id
FROM grants AS g
LEFT JOIN operations AS o ON o.tenant_id = g.tenant_id AND o.route = g.route AND o.operation_id = g.operation_id
WHERE g.tenant_id = %(tenant_id)s
    AND (%(effect_type)s::text IS NULL OR g.effect_type = %(effect_type)s)
    AND NOT g.void AND NOT starts_with(g.operation_id, 'compensate:')
    AND CASE
        WHEN %(since_ms)s::bigint IS NULL THEN o.settled_at_ms IS NULL OR coalesce(o.attempt, 0) < g.attempt
        ELSE g.decided_at_ms > %(since_ms)s
    END
GROUP BY g.route, g.operation_id, o.group_id
ORDER BY max(g.decided_at_ms) DESC, g.route
