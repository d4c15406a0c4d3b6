-- Groups of a tenant whose names begin so, and operations without a group, which are groups of their own; the exact one first.
SELECT k.route FROM (
    SELECT o.route FROM operations AS o
    WHERE o.tenant_id = %(tenant_id)s AND starts_with(o.route, %(prefix)s)
    UNION
    SELECT r.route FROM routes AS r
    WHERE r.tenant_id = %(tenant_id)s AND starts_with(r.route, %(prefix)s) AND NOT starts_with(r.route, 'policy:')
) AS k
ORDER BY k.route <> %(prefix)s, k.route
LIMIT %(limit)s
