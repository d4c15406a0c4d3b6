-- News to be matched again, with the operations that it names by now; oldest first.
SELECT
    n.kind, n.tenant_id, n.endpoint, n.webhook_id, n.tools, n.operation_key, n.reference, n.status, n.provider_time_ms, n.digest,
    n.receipt, n.keep_ms, o.route, o.group_id, o.body
FROM news AS n
CROSS JOIN LATERAL (
    SELECT o.route, o.group_id, o.body
    FROM operations AS o
    WHERE n.kind = 'received' AND o.tenant_id = n.tenant_id AND o.route = n.route AND o.operation_id = n.operation_id
    UNION ALL
    SELECT o.route, o.group_id, o.body
    FROM operations AS o
    WHERE n.kind = 'unmatched' AND o.tenant_id = n.tenant_id AND o.operation_id = n.operation_key AND o.state <> 'none'
    UNION ALL
    SELECT o.route, o.group_id, o.body
    FROM operations AS o
    WHERE n.kind = 'unmatched' AND o.tenant_id = n.tenant_id AND o.reference = n.reference
    UNION ALL
    SELECT o.route, o.group_id, o.body
    FROM operations AS o
    WHERE n.kind = 'unmatched' AND o.tenant_id = n.tenant_id AND o.earlier_references IS NOT NULL
        AND o.earlier_references @> ARRAY[n.reference]
) AS o
WHERE n.keep_until_ms > %(now_ms)s
    AND NOT EXISTS (
        SELECT
        FROM news AS s
        WHERE s.tenant_id = n.tenant_id AND s.webhook_id = n.webhook_id
            AND (
                (n.kind = 'unmatched' AND s.kind = 'received' AND s.endpoint = n.endpoint)
                OR (n.kind = 'received' AND s.kind = 'outcome' AND s.route = n.route AND s.operation_id = n.operation_id)
            )
    )
ORDER BY n.at_ms, n.partition, n.log_offset
LIMIT %(limit)s
