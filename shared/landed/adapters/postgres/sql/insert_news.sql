-- News as the log tells it; what it settles is matched no more: unmatched news by its match, news of an operation by its outcome.
WITH said (
    partition, log_offset, at_ms, kind, tenant_id, webhook_id, endpoint, route, operation_id, tools, operation_key, reference, status,
    provider_time_ms, digest, receipt, keep_ms, keep_until_ms
) AS (
    VALUES (
        %s::integer, %s::bigint, %s::bigint, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text[], %s::text, %s::text,
        %s::text, %s::bigint, %s::text, %s::text, %s::bigint, %s::bigint
    )
), settled AS (
    UPDATE news AS n
    SET keep_until_ms = NULL
    FROM said AS s
    WHERE n.tenant_id = s.tenant_id AND n.webhook_id = s.webhook_id AND n.keep_until_ms IS NOT NULL
        AND (
            (s.kind = 'received' AND n.kind = 'unmatched' AND n.endpoint = s.endpoint)
            OR (s.kind = 'outcome' AND n.kind = 'received' AND n.route = s.route AND n.operation_id = s.operation_id)
        )
)
INSERT INTO news (
    partition, log_offset, at_ms, kind, tenant_id, webhook_id, endpoint, route, operation_id, tools, operation_key, reference, status,
    provider_time_ms, digest, receipt, keep_ms, keep_until_ms
)
SELECT * FROM said
ON CONFLICT (partition, log_offset) DO NOTHING
