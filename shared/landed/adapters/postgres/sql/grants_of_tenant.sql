-- What windows of ceilings on all effect types hold: how many grants, and when the oldest of the last `most` of them was decided.
SELECT k.n, c.count, (
    SELECT g.decided_at_ms FROM grants AS g
    WHERE g.tenant_id = k.tenant_id AND g.decided_at_ms > k.since_ms
        AND (k.route IS NULL OR g.route = k.route)
    ORDER BY g.decided_at_ms DESC OFFSET greatest(least(c.count, k.most) - 1, 0) LIMIT 1
) AS frees_ms
FROM unnest(
    %(n)s::integer[], %(tenant_ids)s::text[], %(routes)s::text[], %(since_ms)s::bigint[], %(most)s::bigint[]
) AS k (n, tenant_id, route, since_ms, most)
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM grants AS g
    WHERE g.tenant_id = k.tenant_id AND g.decided_at_ms > k.since_ms
        AND (k.route IS NULL OR g.route = k.route)
) AS c
