-- What was decided about the operations of a tenant, and what came of it, operation by operation in log order.
SELECT o.route, o.operation_id, o.tool, o.state, e.at_ms, e.mark, e.value
FROM operations AS o
JOIN events AS e ON e.tenant_id = o.tenant_id AND e.route = o.route AND e.operation_id = o.operation_id
WHERE o.tenant_id = %(tenant_id)s AND o.prepared_at_ms >= %(since_ms)s
    AND (%(tools)s::text[] IS NULL OR o.tool = ANY(%(tools)s::text[]))
    AND e.type IN (
        'dispatch_granted', 'dispatch_refused', 'outcome_confirmed', 'outcome_rejected', 'outcome_unknown',
        'absence_established', 'effect_reverted', 'review_decided'
    )
    AND (e.reason IS NULL OR e.reason <> 'repeated') AND (e.accepted OR e.type <> 'review_decided')
ORDER BY o.route, o.operation_id, e.log_offset
