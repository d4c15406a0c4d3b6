-- Operations of a tenant that effects on a provider's list are marked with, or whose reference they have; one row for each match.
SELECT k.number, o.route, o.group_id, o.body
FROM unnest(%(operation_ids)s::text[]) WITH ORDINALITY AS k (operation_id, number)
JOIN operations AS o ON o.tenant_id = %(tenant_id)s AND o.operation_id = k.operation_id
WHERE o.state <> 'none'
UNION ALL
SELECT k.number, o.route, o.group_id, o.body
FROM unnest(%(references)s::text[]) WITH ORDINALITY AS k (reference, number)
JOIN operations AS o ON o.tenant_id = %(tenant_id)s AND o.reference = k.reference
UNION ALL
SELECT k.number, o.route, o.group_id, o.body
FROM unnest(%(references)s::text[]) WITH ORDINALITY AS k (reference, number)
JOIN operations AS o ON o.tenant_id = %(tenant_id)s AND o.earlier_references IS NOT NULL
    AND o.earlier_references @> ARRAY[k.reference]
