-- What a receiver is to be told and was not: each by the id that it is told under at every try, which follows from what it is about.
-- Nothing while a partition is folded anew: the view then shows what was so long ago.
WITH caught_up AS (
    SELECT
    WHERE EXISTS (SELECT FROM positions) AND NOT EXISTS (SELECT FROM positions WHERE NOT caught_up)
), clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
), told AS (
    SELECT r.name, r.tenant_id, r.since_ms
    FROM receivers AS r
    WHERE r.name = %(receiver)s
), open_reviews AS (
    SELECT o.*
    FROM told AS r
    JOIN operations AS o ON o.tenant_id = r.tenant_id AND o.review_id IS NOT NULL AND o.review_since_ms >= r.since_ms
), what AS (
    SELECT 'review_opened' AS kind, o.review_id::text AS part, o.review_since_ms AS since_ms, o.*
    FROM open_reviews AS o
    UNION ALL
    SELECT 'review_aged', o.review_since_ms || ' ' || a.aged_ms, a.aged_ms, o.*
    FROM open_reviews AS o
    CROSS JOIN unnest(%(aged_ms)s::bigint[]) AS a (aged_ms)
    CROSS JOIN clock
    WHERE clock.now_ms - o.review_since_ms >= a.aged_ms
    UNION ALL
    SELECT
        'duplicate_effect', o.review_since_ms || ' ' || cardinality(array_positions(o.review_reasons, 'duplicate_effect')),
        o.review_since_ms, o.*
    FROM open_reviews AS o
    WHERE 'duplicate_effect' = ANY(o.review_reasons)
    UNION ALL
    SELECT 'review_settled', s.review_since_ms::text, s.review_since_ms, o.*
    FROM (
        SELECT n.tenant_id, n.route, n.operation_id, n.review_since_ms, max(n.version) AS version
        FROM notifications AS n
        WHERE n.receiver = %(receiver)s AND n.review_open
        GROUP BY n.tenant_id, n.route, n.operation_id, n.review_since_ms
    ) AS s
    JOIN operations AS o ON o.tenant_id = s.tenant_id AND o.route = s.route AND o.operation_id = s.operation_id
    -- An older version than the one that was told of is the past: the view is folded anew.
    WHERE o.version > s.version AND o.review_since_ms IS DISTINCT FROM s.review_since_ms
    UNION ALL
    -- A review that opened and settled while nobody looked. What opened while one was told of, or was told of since, is no other.
    SELECT 'review_settled', s.opened_at_ms::text, s.opened_at_ms, o.*
    FROM (
        SELECT e.tenant_id, e.route, h.operation_id, min(e.at_ms) AS opened_at_ms
        FROM told AS r
        CROSS JOIN clock
        JOIN events AS e
            ON e.tenant_id = r.tenant_id AND e.at_ms >= greatest(r.since_ms, clock.now_ms - %(missed_ms)s)
        -- Whoever holds it: an inverse that comes to people does so with the task of what it undoes.
        CROSS JOIN LATERAL (
            SELECT coalesce(
                (
                    SELECT x.operation_id
                    FROM operations AS x
                    WHERE e.type = 'operation_escalated' AND e.operation_id LIKE 'compensate:%%'
                        AND x.tenant_id = e.tenant_id AND x.route = e.route
                        AND x.operation_id IN (
                            substr(e.operation_id, 12), regexp_replace(substr(e.operation_id, 12), ':[0-9]+$', '')
                        )
                    ORDER BY length(x.operation_id) DESC
                    LIMIT 1
                ),
                e.operation_id
            ) AS operation_id
        ) AS h
        WHERE e.accepted AND e.operation_id IS NOT NULL
            AND (e.mark IS NOT NULL OR e.type IN ('operation_escalated', 'effect_reverted'))
            AND NOT EXISTS (
                SELECT
                FROM notifications AS n
                WHERE n.receiver = %(receiver)s AND n.tenant_id = e.tenant_id AND n.route = e.route
                    AND n.operation_id = h.operation_id AND n.kind IN ('review_opened', 'review_settled')
                    AND n.review_since_ms <= e.at_ms
                    AND (n.review_open OR n.review_since_ms = e.at_ms OR n.made_at_ms >= e.at_ms)
            )
        GROUP BY e.tenant_id, e.route, h.operation_id
    ) AS s
    JOIN operations AS o ON o.tenant_id = s.tenant_id AND o.route = s.route AND o.operation_id = s.operation_id
    WHERE (o.review_id IS NULL OR o.review_since_ms > s.opened_at_ms) AND 'review_opened' = ANY(%(kinds)s::text[])
    UNION ALL
    SELECT 'inverse_window_closing', o.inverse_until_ms::text, o.inverse_until_ms, o.*
    FROM told AS r
    CROSS JOIN clock
    JOIN operations AS o
        ON o.tenant_id = r.tenant_id AND o.inverse_until_ms > clock.now_ms
        AND o.inverse_until_ms <= clock.now_ms + %(inverse_before_ms)s
    -- Only where it may have to be undone: of all others the window closes as it is meant to.
    WHERE o.review_id IS NOT NULL OR EXISTS (
        SELECT
        FROM routes AS g
        WHERE g.tenant_id = o.tenant_id AND g.route = o.route AND g.group_state IN ('unwinding', 'needs_human')
    )
), named AS (
    SELECT
        'msg_' || left(
            encode(
                sha256(
                    convert_to(
                        concat_ws(E'\x1f', %(receiver)s::text, w.kind, w.tenant_id, w.route, w.operation_id, w.part), 'UTF8'
                    )
                ),
                'hex'
            ),
            32
        ) AS webhook_id,
        w.*
    FROM what AS w
    CROSS JOIN caught_up
    WHERE w.kind = ANY(%(kinds)s::text[])
)
SELECT w.webhook_id, w.kind, w.part, w.since_ms, w.tenant_id, w.route, w.group_id, w.operation_id, w.version, w.body, clock.now_ms
FROM named AS w
CROSS JOIN clock
WHERE NOT EXISTS (SELECT FROM notifications AS n WHERE n.webhook_id = w.webhook_id)
ORDER BY w.updated_at_ms, w.webhook_id
LIMIT %(limit)s
